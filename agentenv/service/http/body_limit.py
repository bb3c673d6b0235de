"""Limit the size of request bodies.

Without a limit any caller, and any sandbox that requests credentials, could fill the memory of the service.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# The largest body holds a secret: each of its characters may be two JSON escapes.
MAX_BYTES = 262_144


class BodyLimit:
    """Middleware that refuses bodies beyond the limit."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request whose body is within the limit."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        content_length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        # A body whose declared length exceeds the limit is refused unread.
        remaining = MAX_BYTES - (
            int(content_length) if content_length.isdigit() and int(content_length) > MAX_BYTES else 0
        )

        async def limited_receive() -> Message:
            nonlocal remaining
            if remaining < 0:
                raise _too_long()
            message = await receive()
            remaining -= len(message.get("body", b""))
            if remaining < 0:
                raise _too_long()
            return message

        await self._app(scope, limited_receive, send)


def _too_long() -> HTTPException:
    return HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body is longer than {MAX_BYTES} bytes")
