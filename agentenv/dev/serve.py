"""Serve the API of the workspace service on this machine, over the local backend, until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentenv.core.ledger.rates import budget_policy
from agentenv.dev import gateway
from agentenv.dev.access import LocalAccessStore, LocalAuthenticator
from agentenv.dev.backend import LocalBackend
from agentenv.dev.keys import LocalSigner
from agentenv.dev.records import Records
from agentenv.dev.sandboxes import Sandboxes
from agentenv.dev.swarms import LocalSwarms
from agentenv.dev.upkeep import Upkeep
from agentenv.dev.usage import LocalLedger
from agentenv.local.sandboxes.bundle import CannotStart
from agentenv.rehearsal.controlplane.ports import Ports
from agentenv.service.approvals.approvals import Approvals
from agentenv.service.approvals.webhook import Webhook
from agentenv.service.catalog import Catalog
from agentenv.service.configuration import Configuration
from agentenv.service.console import packages
from agentenv.service.gateway.access_cache import AccessCache
from agentenv.service.gateway.browser_sessions import BrowserSessions
from agentenv.service.gateway.keys import ApiKeys
from agentenv.service.gateway.sealing import SecretsCache, WorkspaceTokens
from agentenv.service.gateway.setup import running_gateway
from agentenv.service.http.app import application
from agentenv.service.http.auth.permissions import classes_for
from agentenv.service.http.auth.rate_limits import RateLimiter
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.server import http_server
from agentenv.service.ledger.published import PublishedBudgets
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaced.client import WorkspacedClient
from agentenv.service.workspaced.sandboxes import PodSandboxes

if TYPE_CHECKING:
    from fastapi import FastAPI

    from agentenv.config import Settings
    from agentenv.core.workspaces.workspace import Workspace
    from agentenv.dev.machine import Machine
    from agentenv.dev.state import State

_LOG = logging.getLogger(__name__)
HOST = "127.0.0.1"
LOOPBACK = ("127.0.0.0/8", "::1/128")


@dataclass(frozen=True)
class Local:
    """The parts of a service on this machine, while it is served."""

    backend: LocalBackend
    upkeep: Upkeep
    signer: LocalSigner
    access: AccessCache
    secrets: SecretsCache
    dependencies: Dependencies


@contextlib.asynccontextmanager
async def local_service(
    settings: Settings,
    state: State,
    sandboxes_of: Callable[[str], Sandboxes],
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> AsyncGenerator[Local]:
    """Start the backend and its upkeep; end every sandbox at the end.

    `sandboxes_of` returns the sandboxes, which admit tokens of a public key.
    """
    settings = _with_domain(settings)
    catalog, metrics, signer = Catalog(settings), Metrics(), LocalSigner(now)
    records = Records(state.records)
    policy = budget_policy(settings)
    sandboxes = sandboxes_of(signer.public)
    backend = LocalBackend(catalog, records, sandboxes, now=now)
    swarms = LocalSwarms(backend, catalog, records, now=now)
    ledger = LocalLedger(records, catalog, sandboxes, policy, now)
    budgets = PublishedBudgets(policy, metrics, now)
    workspaced = WorkspacedClient(signer)
    pods = PodSandboxes(backend, signer)
    access = AccessCache(LocalAccessStore(records), now=now)
    secrets = gateway.secrets_cache(state.secrets, now())
    keys = ApiKeys(access, now)
    upkeep = Upkeep(
        backend, catalog, ledger, swarms=swarms, published=budgets, workspaced=workspaced, metrics=metrics, now=now
    )

    async def settle(_: Workspace) -> None:
        upkeep.record()

    await access.poll()
    await secrets.refresh()
    running = [asyncio.create_task(upkeep.run()), asyncio.create_task(access.run())]
    try:
        yield Local(
            backend,
            upkeep,
            signer,
            access,
            secrets,
            Dependencies(
                backend=backend,
                catalog=catalog,
                authenticator=LocalAuthenticator(state.key(), keys),
                limits=RateLimiter(settings.service.requests_per_minute),
                metrics=metrics,
                swarms=swarms,
                budgets=budgets,
                settle=settle,
                ledger=ledger,
                accounts=ledger,
                keys=keys,
                sessions=BrowserSessions(access, secrets.current, lambda caller: classes_for(catalog, caller), now),
                access=WorkspaceTokens(secrets.current),
                access_records=access,
                sandboxes=pods,
                now=now,
            ),
        )
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await sandboxes.stop_all()
        upkeep.record()
        await backend.close()
        await workspaced.close()
        await pods.close()
        records.close()


async def serve(settings: Settings, state: State, on: Machine, port: int, ready: Callable[[str], None]) -> None:
    """Serve the gateway until SIGINT or SIGTERM; call `ready` with its address once it routes."""
    with Ports(("authorizer", "gateway", "status")) as ports:
        number = _free(port) if port else ports["gateway"]
        address = f"http://{gateway.SERVICE_HOST}:{number}"

        @contextlib.asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
            async with local_service(settings, state, lambda keys: on.sandboxes(state.homes, keys)) as local:
                dependencies = app.state.dependencies = local.dependencies
                dependencies.gateway = gateway.addresses(number)
                dependencies.approvals = local_approvals(dependencies, state, gateway.console(number))
                configuration = Configuration(
                    settings=local.dependencies.catalog.settings,
                    replica="dev",
                    host=HOST,
                    authorizer_port=ports["authorizer"],
                )
                entrance = running_gateway(
                    configuration,
                    dependencies,
                    local.signer,
                    local.secrets,
                    sandbox_aliases=gateway.SANDBOX_ALIASES,
                    signers=local.backend.existing_workspaces,
                )
                async with entrance:
                    yield

        async def front(service_port: int) -> None:
            plan = gateway.envoy_plan(
                on.run,
                port=number,
                status_port=ports["status"],
                service_port=service_port,
                authorizer_port=ports["authorizer"],
            )
            await asyncio.to_thread(_fetch_console)
            async with gateway.running_envoy(on.run, plan) as envoy:
                state.announce(address)
                ready(address)
                await asyncio.to_thread(envoy.wait)
            raise CannotStart("Envoy ended")

        fronts: list[asyncio.Task[None]] = []

        def on_started(service_port: int) -> None:
            fronts.append(asyncio.create_task(front(service_port)))
            fronts[0].add_done_callback(lambda _: setattr(server, "should_exit", True))

        server = http_server(application(lifespan), HOST, 0, on_started)
        await server.serve()
        for task in fronts:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def local_approvals(dependencies: Dependencies, state: State, console: str) -> Approvals | None:
    """Create the approvals of tools. A webhook of the stack file gets a secret of this machine, and may be on it."""
    access, settings = dependencies.access_records, dependencies.catalog.settings.service.approvals.webhook
    if access is None:
        return None
    send = None
    if settings is not None:

        async def secret() -> str:
            return state.webhook_secret()

        ranges = (*map(str, settings.ranges), *LOOPBACK)
        send = Webhook(settings.url, secret, ranges, f"{console}#/approvals", dependencies.now).send
    return Approvals(access, dependencies.backend, send, dependencies.now)


def _fetch_console() -> None:
    """Fetch what the console needs besides its own files, once for this user; without it, it has no terminal."""
    try:
        packages.ensure()
    except packages.PackageError as error:
        _LOG.warning("the console has no terminal: %s", error)


def _with_domain(settings: Settings) -> Settings:
    """Return the settings with the domain of this machine's gateway."""
    service = settings.service.model_copy(update={"domain": gateway.DOMAIN, "workspace_domain": None})
    return settings.model_copy(update={"service": service})


def _free(port: int) -> int:
    """Return a port that nobody listens on; raise `CannotStart` for one that is in use."""
    try:
        with socket.create_server((HOST, port)):
            return port
    except OSError as error:
        raise CannotStart(
            f"port {port} cannot be used ({os.strerror(error.errno or 0)}); choose another one with --port"
        ) from error
