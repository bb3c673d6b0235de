"""The API as one application: its parts put together, its routes, and what surrounds all of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

import httpx2
from fastapi import FastAPI

from agentenv.service.catalog import Catalog
from agentenv.service.credentials import routes as identity
from agentenv.service.credentials import secrets
from agentenv.service.credentials.setup import exchange_of, vault_of
from agentenv.service.http import body_limit as bounds
from agentenv.service.http import request_log as recording
from agentenv.service.http import responses as answers
from agentenv.service.http import sessions, swarms, workspaces
from agentenv.service.http import system as around
from agentenv.service.http.auth.authenticate import Authenticator
from agentenv.service.http.auth.issuer import Issuer
from agentenv.service.http.auth.rate_limits import RateLimiter
from agentenv.service.http.auth.token_reviews import TokenReviewer
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.swarm_tasks import SwarmTasks
from agentenv.service.kube.client import KubeClient
from agentenv.service.kube.snapshot import WorkspaceSnapshot
from agentenv.service.kube.sync_client import SyncKubeClient
from agentenv.service.ledger import routes as usage
from agentenv.service.ledger.setup import budgets_of, ledger_of, recorder_of
from agentenv.service.workspaces.backend import KubernetesBackend, running_backend
from agentenv.service.workspaces.restore_requests import WorkspaceRestorer

if TYPE_CHECKING:
    from agentenv.core.workspaces.workspace import Workspace
    from agentenv.service.configuration import Configuration
    from agentenv.service.telemetry.metrics import Metrics

_LOG = logging.getLogger(__name__)
VERSION = "1"
COUNT_EVERY = 15.0
DESCRIPTION = (
    "A computer of its own for every user, chat session or agent. Whatever is refused is told as problem+json, with"
    " what to do about it."
)


def create_app(
    configuration: Configuration,
    metrics: Metrics,
    sight: WorkspaceSnapshot | None = None,
    ended: Callable[[], None] = lambda: None,
) -> FastAPI:
    """The API of one replica; it speaks to its cluster for as long as it is served.

    `sight` is what the replica's loops see by; `ended` is called if its watches of the cluster end before it does.
    """

    @contextlib.asynccontextmanager
    async def living(app: FastAPI) -> AsyncGenerator[None]:
        async with _dependencies(configuration, metrics, ended) as parts:
            app.state.parts = parts
            counting = asyncio.create_task(_count(parts))
            with (sight or WorkspaceSnapshot()).by(parts.backend):
                try:
                    yield
                finally:
                    counting.cancel()

    return application(living, metrics)


def application(living: Any = None, metrics: Metrics | None = None) -> FastAPI:
    """The routes and what surrounds them; its description needs no cluster."""
    app = FastAPI(
        title="Workspaces",
        version=VERSION,
        description=DESCRIPTION,
        lifespan=living,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
        generate_unique_id_function=lambda route: route.name,
    )
    answers.install_handlers(app)
    for routes in (workspaces, swarms, sessions, around, usage, secrets, identity):
        app.include_router(routes.router)
    app.include_router(around.health)
    app.add_middleware(bounds.BodyLimit)
    if metrics is not None:
        app.add_middleware(recording.RequestLog, metrics=metrics)
    answers.describe_problems(app)
    return app


@contextlib.asynccontextmanager
async def _dependencies(
    configuration: Configuration, metrics: Metrics, ended: Callable[[], None]
) -> AsyncGenerator[Dependencies]:
    settings = configuration.settings
    catalog = Catalog.of(settings, configuration.vpc_cidrs, configuration.service_cidr)
    wire = KubeClient.of_file(configuration.kubeconfig)
    path = configuration.kubeconfig
    api = SyncKubeClient.of_file(path) if path else SyncKubeClient.from_within()
    # Whatever a proxy around this process says: keys are had from the issuer itself.
    client = httpx2.AsyncClient(trust_env=False)
    issuer = Issuer(settings.service.issuer, settings.service.audience, client) if settings.service.issuer else None
    now = wire.clock.now
    backend = KubernetesBackend(wire, catalog, metrics, WorkspaceRestorer(api, now=now), now=now)
    keeper = recorder_of(configuration, api, metrics)
    budgets = budgets_of(configuration, api, metrics)

    async def settle(workspace: Workspace) -> None:
        if keeper is not None:
            await asyncio.to_thread(keeper.settle, workspace.namespace, workspace.id)

    try:
        async with running_backend(backend, ended):
            yield Dependencies(
                backend=backend,
                catalog=catalog,
                authenticating=Authenticator(
                    settings.service,
                    issuer,
                    TokenReviewer(wire, settings.service.audience),
                    owner_claim=settings.service.owner_claim,
                ),
                limits=RateLimiter(settings.service.requests_per_minute),
                metrics=metrics,
                cluster=api,
                swarming=SwarmTasks(api, catalog, backend.view, now=now),
                budgets=budgets,
                accounts=budgets,
                settle=settle,
                ledger=ledger_of(configuration),
                exchange=exchange_of(configuration, api),
                vault=vault_of(configuration),
                now=now,
            )
    finally:
        await client.aclose()
        await wire.close()
        api.close()


async def _count(parts: Dependencies) -> None:
    """Have the metrics say how many workspaces there are, and how many objects cannot be read."""
    while True:
        parts.metrics.unreadable(parts.backend.unreadable())
        if parts.backend.in_step():
            parts.metrics.workspaces(parts.backend.counted())
        await asyncio.sleep(COUNT_EVERY)
