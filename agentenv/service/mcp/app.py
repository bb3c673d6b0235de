"""The MCP server at `/mcp`: streamable HTTP without sessions, so that any replica serves any call.

Its callers are those of the API: an API key or a token of the issuer as bearer. Clients that have none find in the
protected-resource metadata who issues tokens (RFC 9728).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any, cast

from fastapi import APIRouter, FastAPI, Request
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request as AnyRequest
from starlette.routing import Route

from agentenv.core.gateway.api_keys import SCOPES
from agentenv.service.http.dependencies import dependencies_of, source_of
from agentenv.service.http.problems import Problem
from agentenv.service.http.responses import problem_response
from agentenv.service.mcp import commands, files, workspaces

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

PATH = "/mcp"
METADATA = "/.well-known/oauth-protected-resource"
INSTRUCTIONS = (
    "Each workspace is a Linux computer of its own with a home that outlives its processes. Open one first, then run"
    " commands and edit files in it by its id. Output is cut where it is long, and says so. A suspended workspace"
    " resumes with the next call. Sub-agents get a workspace of their own with `spawn_workspace`."
)
TOOLS: tuple[Callable[..., Any], ...] = (
    workspaces.list_workspaces,
    workspaces.open_workspace,
    workspaces.spawn_workspace,
    workspaces.suspend_workspace,
    workspaces.budget_left,
    commands.run,
    commands.read_output,
    commands.send_input,
    commands.stop,
    commands.start_server,
    files.read_file,
    files.write_file,
    files.edit_file,
    files.list_files,
    files.search_files,
)

# A page of another host cannot add the bearer token that every call needs, so the Host header is not checked.
NO_HOST_CHECK = TransportSecuritySettings(enable_dns_rebinding_protection=False)
metadata = APIRouter()


@metadata.get(METADATA, include_in_schema=False)
@metadata.get(METADATA + PATH, include_in_schema=False)
async def protected_resource(request: Request) -> dict[str, Any]:
    """Return who issues the tokens that this server accepts."""
    service = dependencies_of(request).catalog.settings.service
    return {
        "resource": _base(request) + PATH,
        "authorization_servers": [service.issuer] if service.issuer else [],
        "bearer_methods_supported": ["header"],
        "scopes_supported": list(SCOPES),
        "resource_name": "Workspaces",
    }


class Server:
    """The MCP server of one application, while that is served."""

    def __init__(self) -> None:
        self._serve: Any = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve calls while the context is open."""
        server = MCPServer("workspaces", title="Workspaces", instructions=INSTRUCTIONS, version="1")
        for tool in TOOLS:
            server.add_tool(tool)
        app = server.streamable_http_app(
            streamable_http_path=PATH, json_response=True, stateless_http=True, transport_security=NO_HOST_CHECK
        )
        async with server.session_manager.run():
            self._serve = app
            try:
                yield
            finally:
                self._serve = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate a request, and serve it."""
        request = AnyRequest(scope)
        try:
            source, dependencies, headers = source_of(request), dependencies_of(request), request.headers
            # No cookie: a page of another host could send it.
            caller = await dependencies.authenticator.caller(
                headers.get("authorization"), source, api_key=headers.get("x-api-key")
            )
            dependencies.limits.take(caller.owner)
        except Problem as problem:
            response = problem_response(problem)
            if problem.status == 401:
                url = _base(request) + METADATA + PATH
                response.headers["WWW-Authenticate"] = f'Bearer resource_metadata="{url}"'
            await response(scope, receive, send)
            return
        state = cast("dict[str, Any]", scope.setdefault("state", {}))
        state |= {"caller": caller, "dependencies": dependencies, "source": source}
        if self._serve is None:
            raise AssertionError("the application is served without its lifespan")
        await self._serve(scope, receive, send)


def mount(app: FastAPI, server: Server) -> None:
    """Add the MCP server to the service's application, which has it running while it is served."""
    app.include_router(metadata)
    app.router.routes.append(Route(PATH, server, methods=["POST"], include_in_schema=False))


def _base(request: AnyRequest) -> str:
    """Return the address of the service, as its callers have it."""
    dependencies = dependencies_of(request)
    if dependencies.gateway is not None and dependencies.gateway.sandboxes.startswith("https:"):
        return f"https://api.{dependencies.catalog.settings.service.domain}"
    return str(request.base_url).rstrip("/")
