"""The dependencies of the routes: one set a process, and the authenticated caller of each request."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

from fastapi import Depends, Request, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from agentenv.client.sandbox import AsyncSandbox
from agentenv.core.gateway.access_tokens import Purpose
from agentenv.core.gateway.api_keys import Scope
from agentenv.core.gateway.hosts import SANDBOX_HOST
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.gateway.entry import EntryRequest
from agentenv.service.gateway.pods import GatewayPods
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.auth.rate_limits import RateLimiter
from agentenv.service.http.problems import Problem
from agentenv.service.http.streams import Streams

if TYPE_CHECKING:
    from starlette.responses import Response

    from agentenv.config.sections.service import Service
    from agentenv.core.ledger.budgets import MonthlySpend, Policy
    from agentenv.core.ledger.rows import Row
    from agentenv.service.approvals.approvals import Approvals
    from agentenv.service.catalog import Catalog
    from agentenv.service.credentials.exchange import Exchange
    from agentenv.service.credentials.vault import Vault
    from agentenv.service.gateway.access_cache import AccessCache
    from agentenv.service.gateway.browser_sessions import BrowserSessions
    from agentenv.service.gateway.keys import ApiKeys
    from agentenv.service.gateway.rights import NoteEntry
    from agentenv.service.gateway.sign_in import SignIn
    from agentenv.service.telemetry.metrics import Metrics
    from agentenv.service.workspaces.backend_protocol import Backend, Endpoint, Swarms


# Returns a token for a pod: as a session that ends when the right of a caller to a workspace does.
SignEntry = Callable[["Endpoint"], Awaitable[str]]
Admit = Callable[[Workspace, Caller, "Endpoint"], Awaitable[str]]


class Budgets(Protocol):
    """Reports whether a workspace's budget is spent."""

    def refusal(self, workspace: Workspace) -> Problem | None:
        """Return why the workspace may not run, if its budget is spent."""
        ...


class CallerSource(Protocol):
    """Identifies callers by their credentials."""

    async def caller(self, authorization: str | None, source: str = "", *, api_key: str | None = None) -> Caller:
        """Return the caller of an `Authorization` header or an API key; raise `UnauthenticatedError` for others."""
        ...

    async def bearer(self, token: str, source: str) -> Caller | None:
        """Return the caller of an API key or of a token of people; None for a text that is neither."""
        ...


class UsageRows(Protocol):
    """The recorded usage of owners."""

    async def rows_of(self, owner: str, since: datetime, until: datetime) -> list[Row]:
        """Return an owner's rows that began in an interval, in order."""
        ...


class Accounts(Protocol):
    """Reports the cost of an owner's month."""

    @property
    def policy(self) -> Policy:
        """Return rates and limits."""
        ...

    async def month_of(self, owner: str) -> MonthlySpend:
        """Return the month's cost from the ledger."""
        ...


class AccessTokens(Protocol):
    """The tokens by which the clients of the sandbox API enter a workspace."""

    def token(self, workspace: Workspace, owner: str, purpose: Purpose) -> str:
        """Return the token of a workspace for a purpose, which a caller gets: its owner, or one of the sharers."""
        ...


class Sandboxes(Protocol):
    """Reaches workspaced in running workspaces; raises a `SandboxError` where it does not answer."""

    async def sandbox(self, workspace: Workspace, sign: SignEntry | None = None) -> AsyncSandbox:
        """Return a client of the processes and files of a running workspace; `sign` returns tokens of a session."""
        ...

    async def initialize(self, workspace: Workspace, variables: Mapping[str, str]) -> None:
        """Set variables of the environment of all later processes."""
        ...

    async def metrics(self, workspace: Workspace) -> Mapping[str, Any]:
        """Return the current use of CPU, memory and disk."""
        ...


@dataclass(frozen=True)
class GatewayAddresses:
    """Where callers reach workspaces: the sandbox host, and the URL of a port with `{port}` and `{workspace}`."""

    sandboxes: str
    ports: str

    @property
    def domain(self) -> str:
        """Return the domain of the hosts of ports, with the gateway's own port where that is not the scheme's."""
        return self.ports.partition("{workspace}.")[2]

    @classmethod
    def of(cls, service: Service) -> GatewayAddresses | None:
        """Return the addresses below the domain of an environment; None without one."""
        below = service.domain_of_workspaces
        if below is None:
            return None
        return cls(f"https://{SANDBOX_HOST}.{below}", f"https://{{port}}-{{workspace}}.{below}")


@dataclass
class Dependencies:
    """The dependencies of the routes."""

    backend: Backend
    catalog: Catalog
    authenticator: CallerSource
    limits: RateLimiter
    metrics: Metrics
    swarms: Swarms
    budgets: Budgets | None = None
    settle: Callable[[Workspace], Awaitable[object]] | None = None  # records its usage until now
    ledger: UsageRows | None = None
    accounts: Accounts | None = None  # the costs of an owner's month
    exchange: Exchange | None = None
    vault: Vault | None = None
    keys: ApiKeys | None = None
    access_records: AccessCache | None = None
    sign_in: SignIn | None = None
    sessions: BrowserSessions | None = None  # of people in a browser; the sign-in's, where there is one
    approvals: Approvals | None = None
    gateway: GatewayAddresses | None = None
    access: AccessTokens | None = None
    note_entry: NoteEntry | None = None  # records who enters a workspace through the service
    admit: Admit | None = None  # has the sessions of such callers end with their rights
    sandboxes: Sandboxes | None = None
    gateway_pods: GatewayPods = field(default_factory=GatewayPods)
    streams: Streams = field(default_factory=Streams)
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))


def dependencies_of(request: Request) -> Dependencies:
    """Return the dependencies of the process that serves a request."""
    return cast("Dependencies", request.app.state.dependencies)


_SCOPE = "x-scope"


def scope(name: Scope) -> dict[str, Any]:
    """Return what a route's `openapi_extra` has for the scope that an API key needs."""
    return {_SCOPE: name}


# What the key of a link to one workspace may call.
_OF_LINKS = re.compile(r"/v1/(me|workspaces/\{id\}(/events|/resume|/leases/[^/]+)?)")


class AuthenticatedRoute(APIRoute):
    """A route that authenticates its caller before it reads and validates anything else of the request.

    An API key needs the route's scope: `read` to read and `admin` for the rest, unless the route names another with
    `openapi_extra=scope(...)`.
    """

    @property
    def scope(self) -> Scope:
        """Return the scope that an API key needs."""
        default = "read" if (self.methods or set()) <= {"GET", "HEAD"} else "admin"
        return cast("Scope", (self.openapi_extra or {}).get(_SCOPE, default))

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of the route."""
        handler = super().get_route_handler()

        async def authenticate_first(request: Request) -> Response:
            caller = request.state.caller = await authenticated(request)
            dependencies_of(request).limits.take(caller.owner)
            if caller.workspace and not _OF_LINKS.fullmatch(request.url.path.replace(caller.workspace, "{id}", 1)):
                raise Problem("not-allowed", "the key is that of a link to one workspace", "use a key of your own")
            if not caller.has_scope(self.scope):
                detail = f"the API key lacks the scope {self.scope!r}"
                raise Problem("not-allowed", detail, "create a key with that scope")
            return await handler(request)

        return authenticate_first


def source_of(request: Request) -> str:
    """Return the address of the caller of a request, which may have come through the gateway."""
    peer = request.client.host if request.client else "unknown"
    return dependencies_of(request).gateway_pods.source(peer, request.headers.get("x-forwarded-for", ""))


def entry_request_of(request: Request) -> EntryRequest:
    """Return a request as the gateway's cookies are read from it."""
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    host = request.headers.get("host", "")
    return EntryRequest(request.method, host, target, dict(request.headers), source_of(request))


async def authenticated(request: Request) -> Caller:
    """Return the caller of a request; raise a `Problem` where its credential is missing or not valid."""
    source, dependencies, headers = source_of(request), dependencies_of(request), request.headers
    authenticator, has_token = dependencies.authenticator, "authorization" in headers or "x-api-key" in headers
    if dependencies.sessions is not None and not has_token and "cookie" in headers:
        person = dependencies.sessions.person(entry_request_of(request))
        if person is not None:
            return person
    return await authenticator.caller(headers.get("authorization"), source, api_key=headers.get("x-api-key"))


# For the OpenAPI document only: the route reads the header itself.
_BEARER = HTTPBearer(
    auto_error=False,
    description="A token of the environment's issuer, of a Kubernetes service account for the service's audience, or an"
    " API key, which may also be in `X-API-Key`.",
)


# FastAPI calls a dependency that is no coroutine function in another thread, for which a busy replica waits.
async def caller(request: Request, _declared: Annotated[object, Security(_BEARER)] = None) -> Caller:
    """Return the caller of a request to an `AuthenticatedRoute`."""
    return cast("Caller", request.state.caller)


async def request_dependencies(request: Request) -> Dependencies:
    """Return the dependencies of a request's process."""
    return dependencies_of(request)


CurrentCaller = Annotated[Caller, Depends(caller)]
RequestDependencies = Annotated[Dependencies, Depends(request_dependencies)]
