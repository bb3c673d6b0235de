"""Record each request: its duration, and for changes and refusals the caller.

Of what a caller sends only names of workspaces are recorded: no token, no body, no header.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from agentenv.service.telemetry import traces
from agentenv.service.telemetry.logs import audit

if TYPE_CHECKING:
    from opentelemetry.trace import Span
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from agentenv.service.telemetry.metrics import Metrics

_READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Requests for unknown paths are counted together.
NO_ROUTE = "none"
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
# Probes, which come every few seconds, are not traced.
TRACED = ("/v1/", "/e2b/", "/mcp")


class RequestLog:
    """Middleware around the whole API."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, and record it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not scope["path"].startswith(TRACED):
            await self._serve(scope, receive, send)
            return
        with traces.server_span(scope["method"], scope["headers"]) as span:
            code = await self._serve(scope, receive, send)
            _describe(span, scope, code)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> int:
        began = time.monotonic()
        code = 500

        async def send_with_headers(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = int(message["status"])
                # Responses are an owner's data: no cache stores them, and no browser renders them as a page. Those that
                # are not say so themselves.
                own = list(message.get("headers", []))
                names = {name.lower() for name, _ in own}
                message["headers"] = own + [header for header in _HEADERS if header[0] not in names]
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        finally:
            self._record(scope, code, time.monotonic() - began)
        return code

    def _record(self, scope: Scope, code: int, seconds: float) -> None:
        route, method = _route_and_method(scope)
        self._metrics.request(route, method, code, seconds)
        if (method in _READ_METHODS and code not in {401, 403}) or route == NO_ROUTE:
            return
        caller = scope.get("state", {}).get("caller")
        parameters: dict[str, Any] = scope.get("path_params") or {}
        audit(
            "request",
            method=method,
            route=route,
            code=code,
            owner=getattr(caller, "owner", None),
            roles=sorted(getattr(caller, "roles", ())),
            workspace=parameters.get("id") or parameters.get("id_"),
            task=parameters.get("task"),
            holder=parameters.get("holder"),
            source=(scope.get("client") or ("",))[0],
            milliseconds=round(seconds * 1000),
        )


def _route_and_method(scope: Scope) -> tuple[str, str]:
    """Return the route of a request, with its parameters' names instead of values, and its method."""
    route: str = getattr(scope.get("route"), "path", "") or NO_ROUTE
    return route, scope["method"] if scope["method"] in METHODS else "other"


def _describe(span: Span, scope: Scope, code: int) -> None:
    route, method = _route_and_method(scope)
    span.update_name(f"{method} {route}")
    span.set_attributes({"http.request.method": method, "http.route": route, "http.response.status_code": code})
    if code >= 500:
        traces.failed(span, str(code))
