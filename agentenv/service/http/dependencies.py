"""The dependencies of the routes: one set a process, and the authenticated caller of each request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

from fastapi import Depends, Request, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.auth.rate_limits import RateLimiter
from agentenv.service.http.problems import Problem

if TYPE_CHECKING:
    from starlette.responses import Response

    from agentenv.core.ledger.budgets import MonthlySpend, Policy
    from agentenv.service.catalog import Catalog
    from agentenv.service.credentials.exchange import Exchange
    from agentenv.service.credentials.vault import Vault
    from agentenv.service.http.auth.authenticate import Authenticator
    from agentenv.service.http.swarm_tasks import SwarmTasks
    from agentenv.service.ledger.table import Ledger
    from agentenv.service.telemetry.metrics import Metrics
    from agentenv.service.workspaces.backend_protocol import Backend


class Budgets(Protocol):
    """Reports whether a workspace's budget is spent."""

    async def refusal(self, workspace: Workspace) -> Problem | None:
        """Return why the workspace may not run, if its budget is spent."""
        ...


class Accounts(Protocol):
    """Reports the cost of an owner's month."""

    @property
    def policy(self) -> Policy:
        """Return rates and limits."""
        ...

    def spent(self, owner: str) -> MonthlySpend:
        """Return the month's cost from the ledger."""
        ...


@dataclass
class Dependencies:
    """The dependencies of the routes."""

    backend: Backend
    catalog: Catalog
    authenticator: Authenticator
    limits: RateLimiter
    metrics: Metrics
    swarm_tasks: SwarmTasks | None = None
    budgets: Budgets | None = None
    settle: Callable[[Workspace], Awaitable[object]] | None = None  # records its usage until now
    ledger: Ledger | None = None
    accounts: Accounts | None = None  # the costs of an owner's month
    exchange: Exchange | None = None
    vault: Vault | None = None
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))


def dependencies_of(request: Request) -> Dependencies:
    """Return the dependencies of the process that serves a request."""
    return cast("Dependencies", request.app.state.dependencies)


class AuthenticatedRoute(APIRoute):
    """A route that authenticates its caller before it reads and validates anything else of the request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of the route."""
        handler = super().get_route_handler()

        async def authenticate_first(request: Request) -> Response:
            request.state.caller = await _authenticate(request)
            dependencies_of(request).limits.take(request.state.caller.owner)
            return await handler(request)

        return authenticate_first


async def _authenticate(request: Request) -> Caller:
    source = request.client.host if request.client else "unknown"
    authenticator = dependencies_of(request).authenticator
    return await authenticator.caller(request.headers.get("authorization"), source)


# For the OpenAPI document only: the route reads the header itself.
_BEARER = HTTPBearer(
    auto_error=False,
    description="A token of the environment's issuer, or of a Kubernetes service account for the service's audience.",
)


def caller(request: Request, _declared: Annotated[object, Security(_BEARER)] = None) -> Caller:
    """Return the caller of a request to an `AuthenticatedRoute`."""
    return cast("Caller", request.state.caller)


CurrentCaller = Annotated[Caller, Depends(caller)]
RequestDependencies = Annotated[Dependencies, Depends(dependencies_of)]
