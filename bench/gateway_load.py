"""Load on the gateway from a process of its own, so that it shares no event loop with what it measures.

It reads one JSON object from its arguments and prints one. With `hold` it keeps its connections until its input ends.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
from dataclasses import dataclass, field
from typing import Any

_SECONDS = 90.0
_PAYLOAD = b"0123456789"


@dataclass
class Target:
    """Where requests go: an address, and the head of a request."""

    address: tuple[str, int]
    host: str
    headers: dict[str, str]
    path: str = "/"

    def head(self, **more: str) -> bytes:
        """Return a request without a body."""
        headers = {"Host": self.host, **self.headers, **more}
        lines = [f"GET {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


@dataclass
class Connection:
    """A connection that is kept alive."""

    target: Target
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = field(default=None, repr=False)

    async def get(self) -> int:
        """Send a request, and return its status once the body has come."""
        if self.streams is None:
            self.streams = await asyncio.open_connection(*self.target.address)
        reader, writer = self.streams
        writer.write(self.target.head())
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        await reader.readexactly(length)
        return int(head.split(b" ", 2)[1])


async def at_rate(target: Target, rate: float, seconds: float, connections: int) -> dict[str, Any]:
    """Send requests at a rate, however long each takes; a duration begins when the request was due."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(connections):
        connection = Connection(target)
        await connection.get()
        free.put_nowait(connection)
    durations: list[float] = []
    refused = 0

    async def request(due: float) -> None:
        nonlocal refused
        connection = await free.get()
        refused += await connection.get() != 200
        durations.append((time.perf_counter() - due) * 1000)
        free.put_nowait(connection)

    began = time.perf_counter()
    tasks: list[asyncio.Task[None]] = []
    for number in range(int(rate * seconds)):
        due = began + number / rate
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        tasks.append(asyncio.create_task(request(due)))
    await asyncio.gather(*tasks)
    return {"ms": durations, "refused": refused}


async def flood(target: Target, seconds: float, connections: int) -> dict[str, Any]:
    """Send requests one after the other on each connection."""
    until = time.perf_counter() + seconds
    refused = 0

    async def one_connection() -> int:
        nonlocal refused
        connection, count = Connection(target), 0
        while time.perf_counter() < until:
            refused += await connection.get() != 200
            count += 1
        return count

    counts = await asyncio.gather(*(one_connection() for _ in range(connections)))
    return {"rps": sum(counts) / seconds, "refused": refused}


async def websockets(targets: list[Target], each: int) -> dict[str, Any]:
    """Open so many WebSockets to each target, and send a message on every one; they stay open."""
    at_once = asyncio.Semaphore(32)
    durations: list[float] = []

    async def opened(target: Target) -> asyncio.StreamWriter:
        async with at_once:
            reader, writer = await asyncio.open_connection(*target.address)
            key = base64.b64encode(os.urandom(16)).decode()
            upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
            writer.write(target.head(**upgrade, **{"Sec-WebSocket-Key": key}))
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 101 " not in head:
                raise AssertionError(head.decode(errors="replace"))
            began = time.perf_counter()
            writer.write(bytes([0x81, 0x80 | len(_PAYLOAD)]) + bytes(4) + _PAYLOAD)
            await reader.readexactly(2 + len(_PAYLOAD))
            durations.append((time.perf_counter() - began) * 1000)
            return writer

    open_ = await asyncio.gather(*(opened(target) for target in targets for _ in range(each)))
    return {"opened": len(open_), "ms": durations, "streams": open_}


async def run(job: dict[str, Any]) -> None:
    """Do what a job says, and print its result."""
    rows = job.pop("targets")
    targets = [Target(tuple(row["address"]), row["host"], row["headers"], row.get("path", "/")) for row in rows]
    kind = job.pop("kind")
    async with asyncio.timeout(_SECONDS + job.get("seconds", 0)):
        if kind == "rate":
            result = await at_rate(targets[0], **job)
        elif kind == "flood":
            result = await flood(targets[0], **job)
        else:
            result = await websockets(targets, **job)
    streams = result.pop("streams", None)
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
    if streams is not None:
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(run(json.loads(sys.argv[1])))
