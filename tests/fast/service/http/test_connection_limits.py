"""A client without a token cannot fill the memory of a replica, or hold its connections open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fastapi import FastAPI, Request

from agentenv.rehearsal.controlplane.ports import Ports
from agentenv.service.__main__ import serve
from agentenv.service.configuration import Configuration
from agentenv.service.http import app as service_app
from agentenv.service.telemetry.metrics import Metrics
from tests.fast.service.workspaces.stage import settings_of

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
LIMITS = "agentenv.service.http.connection_limits"


def run_with_server(monkeypatch: pytest.MonkeyPatch, act: Callable[[Connect, asyncio.Event], Awaitable[None]]) -> None:
    """Run a coroutine beside a served application with a route that waits for an event, and one that reads a body."""

    async def run() -> None:
        release = asyncio.Event()
        exits: list[Callable[[], None]] = []

        def create_app(_c: Any, _m: Any, on_watches_ended: Callable[[], None]) -> FastAPI:
            exits.append(on_watches_ended)
            app = FastAPI()

            @app.get("/healthz")
            async def alive() -> str:
                return "alive"

            @app.get("/wait")
            async def wait() -> str:
                await release.wait()
                return "released"

            @app.post("/body")
            async def body(request: Request) -> int:
                return len(await request.body())

            return app

        monkeypatch.setattr(service_app, "create_app", create_app)
        ports = Ports(("api",))
        port = ports["api"]
        configuration = Configuration(settings=settings_of(), replica="r1", host="127.0.0.1", port=port)
        serving = asyncio.create_task(serve(configuration, Metrics()))

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            while True:
                try:
                    return await asyncio.open_connection("127.0.0.1", port)
                except ConnectionRefusedError:
                    await asyncio.sleep(0.01)

        async with asyncio.timeout(30):
            try:
                await act(connect, release)
            finally:
                release.set()
                exits[0]()
                await serving
                ports.close()

    asyncio.run(run())


async def response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return the status and the body of a response."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next(line.split(":")[1] for line in head.split("\r\n") if line.startswith("content-length"))
    return int(head.split(" ")[1]), await reader.readexactly(int(length))


async def ended(reader: asyncio.StreamReader) -> bool:
    """Wait until the server closes the connection."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


def test_headers_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(connect: Connect, _: asyncio.Event) -> None:
        for header in (b"x: " + b"a" * 40_000, b"".join(b"x-%d: a\r\n" % number for number in range(5_000))):
            reader, writer = await connect()
            writer.write(b"GET /healthz HTTP/1.1\r\nhost: a\r\n" + header)
            code, document = await response(reader)
            assert (code, json.loads(document)["status"]) == (431, 431)
            assert await ended(reader)
        reader, writer = await connect()
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: a\r\nauthorization: Bearer " + b"a" * 16_384 + b"\r\n\r\n")
        assert await response(reader) == (200, b'"alive"')

    run_with_server(monkeypatch, act)


@pytest.mark.parametrize(
    ("part", "first"),
    [
        (b"", False),
        (b"GET /healthz HTTP/1.1\r\nhost: a\r\n", False),
        (b"GET /healthz HTTP/1.1\r\nhost: a\r\n", True),
        (b"POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nfour", False),
        (b"POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nfour", True),
    ],
)
def test_a_request_that_is_not_complete_in_time_is_refused(
    monkeypatch: pytest.MonkeyPatch, part: bytes, *, first: bool
) -> None:
    # A first request has to be complete in time.
    seconds = 1.0 if first else 0.3
    monkeypatch.setattr(f"{LIMITS}.HEADER_SECONDS", seconds)
    monkeypatch.setattr(f"{LIMITS}.BODY_SECONDS", seconds)

    async def act(connect: Connect, _: asyncio.Event) -> None:
        reader, writer = await connect()
        if first:
            writer.write(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
            assert await response(reader) == (200, b'"alive"')
        writer.write(part)
        code, document = await response(reader)
        assert (code, json.loads(document)["title"]) == (408, "Request Timeout")
        assert await ended(reader)

    run_with_server(monkeypatch, act)


def test_a_connection_that_sends_empty_lines_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{LIMITS}.HEADER_SECONDS", 1.0)

    async def act(connect: Connect, _: asyncio.Event) -> None:
        reader, writer = await connect()
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
        assert await response(reader) == (200, b'"alive"')

        async def send_lines() -> None:
            while not writer.transport.is_closing():
                writer.write(b"\r\n")
                await asyncio.sleep(0.05)

        sending = asyncio.create_task(send_lines())
        code, _document = await response(reader)
        assert code == 408
        sending.cancel()

    run_with_server(monkeypatch, act)


def test_unread_body_is_not_received_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(connect: Connect, _: asyncio.Event) -> None:
        reader, writer = await connect()
        writer.write(b"POST /missing HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        code, _document = await response(reader)
        assert code == 404

        async def send_body() -> None:
            while True:
                writer.write(b"8000\r\n" + b"a" * 0x8000 + b"\r\n")
                await writer.drain()

        with pytest.raises(ConnectionError):
            await send_body()

    run_with_server(monkeypatch, act)


def test_a_response_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{LIMITS}.RESPONSE_SECONDS", 0.3)

    async def act(connect: Connect, _: asyncio.Event) -> None:
        reader, writer = await connect()
        writer.write(b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n")
        assert await ended(reader)

    run_with_server(monkeypatch, act)


def test_connections_beyond_the_limit_replace_the_oldest_that_waits_for_its_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{LIMITS}.MAX_CONNECTIONS", 4)

    async def act(connect: Connect, release: asyncio.Event) -> None:
        waiting_reader, waiting_writer = await connect()
        waiting_writer.write(b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n")
        probe_reader, probe_writer = await connect()
        probe_writer.write(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
        assert await response(probe_reader) == (200, b'"alive"')
        probe_writer.close()
        assert await ended(probe_reader)
        idle = [await connect() for _ in range(3)]
        reader, writer = await connect()
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
        assert await response(reader) == (200, b'"alive"')
        assert await ended(idle[0][0])
        idle[2][1].write(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
        assert await response(idle[2][0]) == (200, b'"alive"')
        release.set()
        assert await response(waiting_reader) == (200, b'"released"')

    run_with_server(monkeypatch, act)


def test_a_connection_serves_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(connect: Connect, _: asyncio.Event) -> None:
        reader, writer = await connect()
        body = b"POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n" + b"a" * 100_000
        for _number in range(20):
            writer.write(body + b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
            assert await response(reader) == (200, b"100000")
            assert await response(reader) == (200, b'"alive"')

    run_with_server(monkeypatch, act)
