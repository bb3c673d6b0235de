"""How long a request's body may be: as long as the longest that means something, whoever sends it.

A body is read before it is known who sends it. Without a bound anybody who reaches the service could have it keep as
much as they like.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# A secret is the longest: each of its characters may be written as two escapes.
MAX_BYTES = 262_144


class BodyLimit:
    """Around the routes: one that reads on beyond the bound is told that there is no more to read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as long as its body is no longer than it may be."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        told = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        # What is too long by its own word is not begun with.
        left = MAX_BYTES - (int(told) if told.isdigit() and int(told) > MAX_BYTES else 0)

        async def bounded() -> Message:
            nonlocal left
            if left < 0:
                raise _too_long()
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise _too_long()
            return message

        await self._app(scope, bounded, send)


def _too_long() -> HTTPException:
    return HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body is longer than {MAX_BYTES} bytes")
