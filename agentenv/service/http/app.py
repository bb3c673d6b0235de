"""The FastAPI application: its dependencies, routes and middleware."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from agentenv.service.approvals import routes as approval_routes
from agentenv.service.catalog import Catalog
from agentenv.service.console import routes as console
from agentenv.service.credentials import routes as credential_routes
from agentenv.service.credentials import secrets
from agentenv.service.credentials.setup import exchange_of, vault_of
from agentenv.service.e2b import app as e2b
from agentenv.service.gateway.browser_sessions import BrowserSessions
from agentenv.service.gateway.keys import ApiKeys
from agentenv.service.gateway.pods import GatewayPods
from agentenv.service.gateway.sealing import SecretsCache, WorkspaceTokens
from agentenv.service.gateway.setup import (
    People,
    access_cache_of,
    approvals_of,
    running_gateway,
    secrets_cache_of,
    sign_in_of,
)
from agentenv.service.http import (
    body_limit,
    events,
    keys,
    operations,
    request_log,
    responses,
    sessions,
    sharing,
    sign_in,
    swarms,
    system,
    workspaces,
)
from agentenv.service.http.auth.authenticate import Authenticator
from agentenv.service.http.auth.issuer import Issuer, TokenVerifier, issuer_client
from agentenv.service.http.auth.keys import KeySet
from agentenv.service.http.auth.permissions import classes_for
from agentenv.service.http.auth.rate_limits import RateLimiter
from agentenv.service.http.auth.token_reviews import TokenReviewer
from agentenv.service.http.dependencies import Dependencies, GatewayAddresses
from agentenv.service.kube.client import KubeClient
from agentenv.service.ledger import routes as usage_routes
from agentenv.service.ledger.published import PublishedBudgets
from agentenv.service.ledger.setup import accounts_of, ledger_of, recorder_of
from agentenv.service.mcp import app as mcp
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaced.sandboxes import PodSandboxes
from agentenv.service.workspaced.tokens import TokenSigner
from agentenv.service.workspaces.backend import KubernetesBackend, running_backend
from agentenv.service.workspaces.swarm_tasks import SwarmTasks

if TYPE_CHECKING:
    from agentenv.config.sections.service import Service
    from agentenv.service.configuration import Configuration

_LOG = logging.getLogger(__name__)
VERSION = "1"
CLUSTER_KEYS = "/openid/v1/jwks"  # Kubernetes lets every service account read them
COUNT_EVERY = 15.0
DESCRIPTION = (
    "A computer of its own for every user, chat session or agent. Errors are problem+json (RFC 9457); `way_out` says"
    " what to do."
)


def create_app(
    configuration: Configuration, metrics: Metrics, on_watches_ended: Callable[[], None] = lambda: None
) -> FastAPI:
    """Create the API of one replica; it is connected to its cluster while it is served.

    `on_watches_ended` is called if the watches of the cluster end early.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with _dependencies(configuration, metrics, on_watches_ended) as dependencies:
            app.state.dependencies = dependencies
            counter = asyncio.create_task(_report_counts(dependencies))
            try:
                yield
            finally:
                counter.cancel()

    return application(lifespan, metrics)


def application(lifespan: Any = None, metrics: Metrics | None = None) -> FastAPI:
    """Create the routes and middleware; its OpenAPI description needs no cluster."""
    tools = mcp.Server()

    @contextlib.asynccontextmanager
    async def running(app: FastAPI) -> AsyncGenerator[None]:
        async with tools.running(), lifespan(app) if lifespan is not None else contextlib.nullcontext():
            yield

    app = FastAPI(
        title="Workspaces",
        version=VERSION,
        description=DESCRIPTION,
        lifespan=running,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
        # FastAPI's own telemetry would record paths with ids; `request_log` records routes.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        generate_unique_id_function=lambda route: route.name,
    )
    responses.install_handlers(app)
    for routes in (
        workspaces,
        swarms,
        events,
        operations,
        approval_routes,
        sessions,
        system,
        usage_routes,
        secrets,
        credential_routes,
        keys,
        sharing,
        sign_in,
    ):
        app.include_router(routes.router)
    app.include_router(system.health)
    app.include_router(console.router)
    e2b.mount(app)
    mcp.mount(app, tools)
    app.add_middleware(body_limit.BodyLimit)
    if metrics is not None:
        app.add_middleware(request_log.RequestLog, metrics=metrics)
    responses.describe_problems(app)
    return app


@contextlib.asynccontextmanager
async def _dependencies(
    configuration: Configuration, metrics: Metrics, ended: Callable[[], None]
) -> AsyncGenerator[Dependencies]:
    settings = configuration.settings
    catalog = Catalog.of(settings, configuration.vpc_cidrs, configuration.service_cidr)
    kube = KubeClient.from_kubeconfig(configuration.kubeconfig)
    client = issuer_client()
    issuer = Issuer(settings.service.issuer, settings.service.audience, client) if settings.service.issuer else None
    now = kube.clock.now
    recorder, accounts = recorder_of(configuration, kube, metrics), accounts_of(configuration)
    budgets = PublishedBudgets(accounts.policy, metrics, now) if accounts else None
    backend = KubernetesBackend(
        kube,
        catalog,
        metrics,
        now=now,
        more_informers=[budgets.informer(kube, configuration.namespace)] if budgets else (),
    )

    signer = TokenSigner(kube, configuration.namespace, now)
    sandboxes = PodSandboxes(backend, signer)
    access = access_cache_of(configuration, now)
    gateway_secrets = secrets_cache_of(configuration, kube)
    api_keys = ApiKeys(access, now) if access is not None else None
    refreshing = [asyncio.create_task(issuer.keys.refresh())] if issuer is not None else []
    refreshing += [asyncio.create_task(access.run())] if access is not None else []
    if settings.service.workspaced is not None:
        refreshing.append(asyncio.create_task(gateway_secrets.run()))
    gateway_pods = GatewayPods()
    if configuration.authorizer_port is not None:
        # Not among those that readiness depends on: without them callers have the address of the gateway.
        refreshing.append(asyncio.create_task(gateway_pods.informer(kube).run()))
    authenticator = _authenticator(settings.service, kube, issuer, api_keys)
    try:
        async with running_backend(backend, ended):
            dependencies = Dependencies(
                backend=backend,
                catalog=catalog,
                authenticator=authenticator,
                limits=RateLimiter(settings.service.requests_per_minute),
                metrics=metrics,
                swarms=SwarmTasks(kube.without_retries(), catalog, backend.view, now=now),
                budgets=budgets,
                accounts=accounts,
                settle=recorder.settle_workspace if recorder else None,
                ledger=ledger_of(configuration),
                exchange=exchange_of(configuration, kube),
                vault=vault_of(configuration),
                keys=api_keys,
                gateway=GatewayAddresses.of(settings.service) if configuration.authorizer_port else None,
                # Without a gateway nothing would check them.
                access=WorkspaceTokens(gateway_secrets.current) if configuration.authorizer_port else None,
                sandboxes=sandboxes if settings.service.workspaced else None,
                access_records=access,
                gateway_pods=gateway_pods,
                now=now,
            )
            if issuer is not None and access is not None:
                people = People(authenticator, issuer, client, catalog)
                dependencies.sign_in = sign_in_of(configuration, people, access, gateway_secrets, now)
            dependencies.sessions = dependencies.sign_in or _sessions(dependencies, gateway_secrets)
            dependencies.approvals = approvals_of(configuration, dependencies)
            async with running_gateway(configuration, dependencies, signer, gateway_secrets):
                yield dependencies
    finally:
        for task in refreshing:
            task.cancel()
        await sandboxes.close()
        await client.aclose()
        await kube.close()


def _authenticator(service: Service, kube: KubeClient, issuer: Issuer | None, keys: ApiKeys | None) -> Authenticator:
    # Without times, as those of service account tokens are by the API server's clock
    cluster_keys = KeySet(lambda: kube.request("GET", CLUSTER_KEYS))
    return Authenticator(
        service,
        issuer,
        TokenReviewer(kube, service.audience),
        cluster=TokenVerifier(cluster_keys, service.audience, check_time=False),
        keys=keys,
        owner_claim=service.owner_claim,
    )


def _sessions(dependencies: Dependencies, gateway_secrets: SecretsCache) -> BrowserSessions | None:
    """Return the sessions of people in a browser where nobody signs in at an issuer."""
    access, catalog = dependencies.access_records, dependencies.catalog
    if access is None:
        return None
    return BrowserSessions(
        access, gateway_secrets.current, lambda caller: classes_for(catalog, caller), dependencies.now
    )


async def _report_counts(dependencies: Dependencies) -> None:
    """Update the metrics of workspaces and unreadable objects."""
    is_frozen = False
    while True:
        dependencies.metrics.unreadable(dependencies.backend.unreadable())
        if dependencies.backend.is_synced():
            if not is_frozen:
                # The rows of a large view are not garbage: a collection that visits them all pauses every request.
                gc.freeze()
                is_frozen = True
            dependencies.metrics.workspaces(dependencies.backend.count_by_state())
        await asyncio.sleep(COUNT_EVERY)
