"""The load of the gateway's benchmark counts what it sends: requests at a rate, as many as go, and open WebSockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bench import gateway_program
from bench.gateway_load import Target, at_rate, flood, websockets


def with_program(act: Callable[[Target], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with asyncio.timeout(60):
            server = await asyncio.start_server(gateway_program.serve, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            try:
                return await act(Target(("127.0.0.1", port), "host", {"X": "y"}))
            finally:
                server.close()

    return asyncio.run(run())


def test_requests_at_a_rate_are_all_timed() -> None:
    result = with_program(lambda target: at_rate(target, rate=100, seconds=0.2, connections=4))
    assert (len(result["ms"]), result["refused"]) == (20, 0)
    assert min(result["ms"]) > 0


def test_a_flood_reports_its_rate() -> None:
    result = with_program(lambda target: flood(target, seconds=0.2, connections=2))
    assert result["rps"] > 0
    assert result["refused"] == 0


def test_refused_requests_are_counted() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 503 Unavailable\r\ncontent-length: 2\r\n\r\nno")

    async def run() -> dict[str, Any]:
        async with asyncio.timeout(60):
            server = await asyncio.start_server(refuse, "127.0.0.1", 0)
            target = Target(("127.0.0.1", server.sockets[0].getsockname()[1]), "host", {})
            try:
                return await at_rate(target, rate=50, seconds=0.1, connections=1)
            finally:
                server.close()

    assert asyncio.run(run())["refused"] == 5


def test_each_websocket_is_opened_and_answers() -> None:
    async def act(target: Target) -> dict[str, Any]:
        result = await websockets([target, target], each=3)
        for stream in result.pop("streams"):
            stream.close()
        return result

    result = with_program(act)
    assert (result["opened"], len(result["ms"])) == (6, 6)
