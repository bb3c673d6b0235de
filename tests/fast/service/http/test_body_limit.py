"""Nobody has the service keep more of a request than any request needs, least of all somebody whom it does not know."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agentenv.service.http.app import application
from agentenv.service.http.body_limit import MAX_BYTES

PART = 65_536


def sent(method: str, path: str, *headers: tuple[bytes, bytes], parts: int) -> tuple[int, dict[str, Any], int]:
    """What is answered to somebody who sends so many parts of a body: its status, the answer, and what was read."""
    read = 0
    said: list[Any] = []

    async def receive() -> dict[str, Any]:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b"x" * PART, "more_body": read < parts}

    async def send(message: Any) -> None:
        said.append(message)

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
    asyncio.run(application()(scope, receive, send))
    body = b"".join(one.get("body", b"") for one in said[1:])
    return said[0]["status"], json.loads(body), read


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/workspaces"), ("PUT", "/v1/secrets/one"), ("POST", "/v1/identity/sts")]
)
def test_a_body_without_an_end_is_not_kept(method: str, path: str) -> None:
    code, told, read = sent(method, path, parts=1000)
    assert code in {413, 422}
    assert told["way_out"]
    assert read <= MAX_BYTES // PART + 1


def test_one_that_says_itself_that_it_is_too_long_is_not_begun_with() -> None:
    length = (b"content-length", str(1000 * PART).encode())
    code, told, read = sent("POST", "/v1/workspaces", length, parts=1000)
    assert (code, read) == (413, 0)
    assert str(MAX_BYTES) in told["detail"]
