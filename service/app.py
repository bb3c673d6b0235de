"""The API as one application: its parts put together, its routes, and what surrounds all of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

import httpx2
from fastapi import FastAPI

from service.api import answers, around, bounds, recording, sessions, swarms, workspaces
from service.api.parts import Parts
from service.api.swarming import Swarming
from service.auth.authenticating import Authenticating
from service.auth.issuer import Issuer
from service.auth.limits import Limits
from service.auth.reviews import Reviews
from service.backend.homecoming import Homecoming
from service.backend.kubernetes import KubernetesBackend, running
from service.backend.wire import Wire
from service.catalog import Catalog
from service.cluster import Cluster
from service.identity import routes as identity
from service.identity import secrets
from service.identity.making import exchange_of, vault_of
from service.ledger import routes as usage
from service.ledger.making import budgets_of, keeper_of, ledger_of
from service.sight import Sight

if TYPE_CHECKING:
    from model.workspaces import Workspace
    from service.configuration import Configuration
    from service.telemetry.metrics import Metrics

_LOG = logging.getLogger(__name__)
VERSION = "1"
COUNT_EVERY = 15.0
DESCRIPTION = (
    "A computer of its own for every user, chat session or agent. Whatever is refused is told as problem+json, with"
    " what to do about it."
)


def make_app(
    configuration: Configuration,
    metrics: Metrics,
    sight: Sight | None = None,
    ended: Callable[[], None] = lambda: None,
) -> FastAPI:
    """The API of one replica; it speaks to its cluster for as long as it is served.

    `sight` is what the replica's loops see by; `ended` is called if its watches of the cluster end before it does.
    """

    @contextlib.asynccontextmanager
    async def living(app: FastAPI) -> AsyncGenerator[None]:
        async with _parts(configuration, metrics, ended) as parts:
            app.state.parts = parts
            counting = asyncio.create_task(_count(parts))
            with (sight or Sight()).by(parts.backend):
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
    answers.install(app)
    for routes in (workspaces, swarms, sessions, around, usage, secrets, identity):
        app.include_router(routes.router)
    app.include_router(around.health)
    app.add_middleware(bounds.Bounded)
    if metrics is not None:
        app.add_middleware(recording.Recording, metrics=metrics)
    answers.describe(app)
    return app


@contextlib.asynccontextmanager
async def _parts(configuration: Configuration, metrics: Metrics, ended: Callable[[], None]) -> AsyncGenerator[Parts]:
    settings = configuration.settings
    catalog = Catalog.of(settings, configuration.vpc_cidrs, configuration.service_cidr)
    wire = Wire.of_file(configuration.kubeconfig)
    path = configuration.kubeconfig
    api = Cluster.of_file(path) if path else Cluster.from_within()
    # Whatever a proxy around this process says: keys are had from the issuer itself.
    client = httpx2.AsyncClient(trust_env=False)
    issuer = Issuer(settings.service.issuer, settings.service.audience, client) if settings.service.issuer else None
    now = wire.clock.now
    backend = KubernetesBackend(wire, catalog, metrics, Homecoming(api, now=now), now=now)
    keeper = keeper_of(configuration, api, metrics)
    budgets = budgets_of(configuration, api, metrics)

    async def settle(workspace: Workspace) -> None:
        if keeper is not None:
            await asyncio.to_thread(keeper.settle, workspace.namespace, workspace.id)

    try:
        async with running(backend, ended):
            yield Parts(
                backend=backend,
                catalog=catalog,
                authenticating=Authenticating(
                    settings.service,
                    issuer,
                    Reviews(wire, settings.service.audience),
                    owner_claim=settings.service.owner_claim,
                ),
                limits=Limits(settings.service.requests_per_minute),
                metrics=metrics,
                cluster=api,
                swarming=Swarming(api, catalog, backend.view, now=now),
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


async def _count(parts: Parts) -> None:
    """Have the metrics say how many workspaces there are, and how many objects cannot be read."""
    while True:
        parts.metrics.unreadable(parts.backend.unreadable())
        if parts.backend.in_step():
            parts.metrics.workspaces(parts.backend.counted())
        await asyncio.sleep(COUNT_EVERY)
