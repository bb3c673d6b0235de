"""The service reads no body of an unauthenticated request, and no more of others than the limit."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from agentenv.service.gateway.pods import GatewayPods
from agentenv.service.http.app import application
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.auth.rate_limits import RateLimiter
from agentenv.service.http.body_limit import MAX_BYTES
from agentenv.service.http.problems import UnauthenticatedError

PART = 65_536
TOKEN = (b"authorization", b"Bearer good")


class Authenticator:
    """Accepts one token."""

    async def caller(self, authorization: str | None, _source: str, **_headers: str | None) -> Caller:
        if authorization != "Bearer good":
            raise UnauthenticatedError("the token is invalid")
        return Caller("u-1", frozenset({"user"}), "token")


def send_parts(method: str, path: str, *headers: tuple[bytes, bytes], parts: int) -> tuple[int, dict[str, Any], int]:
    """Send a body of many parts; return the response's status and document, and the number of parts read."""
    read = 0
    messages: list[Any] = []

    async def receive() -> dict[str, Any]:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b"x" * PART, "more_body": read < parts}

    async def send(message: Any) -> None:
        messages.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), *headers],
        "client": ("10.40.0.9", 4000),
        "server": ("127.0.0.1", 8080),
        "scheme": "http",
    }
    app = application()
    app.state.dependencies = SimpleNamespace(
        sign_in=None,
        sessions=None,
        authenticator=Authenticator(),
        limits=RateLimiter(10),
        exchange=None,
        gateway_pods=GatewayPods(),
    )
    asyncio.run(app(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in messages[1:])
    return messages[0]["status"], json.loads(body), read


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/workspaces"), ("PUT", "/v1/secrets/one"), ("POST", "/v1/identity/sts")]
)
def test_an_endless_body_is_refused(method: str, path: str) -> None:
    code, document, read = send_parts(method, path, TOKEN, parts=1000)
    assert code in {413, 422}
    assert document["way_out"]
    assert read <= MAX_BYTES // PART + 1


def test_a_body_with_a_declared_length_beyond_the_limit_is_not_read() -> None:
    length = (b"content-length", str(1000 * PART).encode())
    code, document, read = send_parts("POST", "/v1/workspaces", TOKEN, length, parts=1000)
    assert (code, read) == (413, 0)
    assert str(MAX_BYTES) in document["detail"]


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/workspaces"), ("PUT", "/v1/secrets/one")])
def test_a_body_without_a_token_is_not_read(method: str, path: str) -> None:
    code, _document, read = send_parts(method, path, parts=1000)
    assert (code, read) == (401, 0)
