"""The clients of a sandbox refuse what is not from one: its programs may have taken over the port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import httpx2
import pytest

from agentenv.client.connect_json import SandboxError, frame
from agentenv.client.sandbox import AsyncSandbox, Command, Sandbox

Handler = Callable[[httpx2.Request], httpx2.Response]


def _sandbox(handler: Handler) -> Sandbox:
    return Sandbox(httpx2.Client(base_url="http://sandbox", transport=httpx2.MockTransport(handler)))


def _json(document: object) -> Handler:
    return lambda _: httpx2.Response(200, content=json.dumps(document))


@pytest.mark.parametrize(
    "document", [{"processes": [{}]}, {"processes": 3}, {"processes": [{"pid": "x"}]}, {"processes": ["text"]}]
)
def test_a_list_of_another_form(document: object) -> None:
    with pytest.raises(SandboxError, match="not from a sandbox"):
        _sandbox(_json(document)).processes()


def test_an_event_of_another_form() -> None:
    body = frame({"event": {"start": {}}})
    with pytest.raises(SandboxError, match="not from a sandbox"):
        list(_sandbox(lambda _: httpx2.Response(200, content=body)).start(Command(["true"])))


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        (httpx2.ConnectError("refused"), "unavailable", "does not answer"),
        (httpx2.ReadTimeout("slow"), "deadline_exceeded", "did not answer"),
        (httpx2.RemoteProtocolError("incomplete chunked read"), "unavailable", "was lost: it may be stopping"),
    ],
)
def test_a_failed_connection(failure: Exception, code: str, message: str) -> None:
    def fail(_: httpx2.Request) -> httpx2.Response:
        raise failure

    with pytest.raises(SandboxError, match=message) as raised:
        _sandbox(fail).processes()
    assert raised.value.code == code


def test_an_endless_response_is_cut() -> None:
    async def endless() -> None:
        async def body() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * (1 << 20)

        transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=body()))
        async with httpx2.AsyncClient(base_url="http://sandbox", transport=transport) as http:
            await AsyncSandbox(http).processes()

    with pytest.raises(SandboxError, match="too long"):
        asyncio.run(endless())
