"""The relay: accepts connections on the pods' addresses, and enters their sandboxes by Unix sockets.

One thread serves every pod of a plane. Half-closed connections stay half-closed, and a slow reader holds its writer
back, as between a node and its pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

T = TypeVar("T")
_BACKLOG = 128
_STOP_SECONDS = 5.0


@contextlib.contextmanager
def short_path(socket: Path) -> Iterator[str]:
    """Yield a path of a socket that is short enough to connect to, however long its folder's own path is."""
    folder = os.open(socket.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{socket.name}"
    finally:
        os.close(folder)


@dataclass(eq=False)
class Entrance:
    """A listening address that leads to one sandbox at a time."""

    connections: set[_End] = field(default_factory=set)
    socket: Path | None = None  # None refuses connections
    server: asyncio.Server | None = None


class _End(asyncio.Protocol):
    """One end of a relayed connection; what it receives goes to the other end."""

    def __init__(self, entrance: Entrance) -> None:
        self._entrance = entrance
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None
        self.ended = False  # whether this end sends no more

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._entrance.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if (transport := self._onward()) is not None:
            transport.write(data)

    def eof_received(self) -> bool:
        self.ended = True
        if (transport := self._onward()) is not None:
            transport.write_eof()
        if self.other is not None and self.other.ended:
            self.close()
            self.other.close()
        return True  # the other direction stays open

    def pause_writing(self) -> None:
        if (transport := self._onward()) is not None:
            transport.pause_reading()

    def resume_writing(self) -> None:
        if (transport := self._onward()) is not None:
            transport.resume_reading()

    def close(self) -> None:
        """Close the connection once everything is sent."""
        if self.transport is not None:
            self.transport.close()

    def _onward(self) -> asyncio.Transport | None:
        """Return the other end's transport while it can be used."""
        transport = self.other.transport if self.other is not None else None
        return None if transport is None or transport.is_closing() else transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._entrance.connections.discard(self)
        if (transport := self._onward()) is not None:
            transport.abort() if exc else transport.close()


class _Caller(_End):
    """The end towards the caller, which waits until the sandbox has accepted."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        cast("asyncio.Transport", transport).pause_reading()
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        assert self.transport is not None  # noqa: S101 - set before the task was created
        try:
            if self._entrance.socket is None:
                raise ConnectionRefusedError
            inner = _End(self._entrance)
            inner.other = self
            with short_path(self._entrance.socket) as path:
                await asyncio.get_running_loop().create_unix_connection(lambda: inner, path)
        except OSError:
            self.transport.abort()
            return
        self.other = inner
        if self.transport.is_closing():
            assert inner.transport is not None  # noqa: S101 - it is connected
            inner.transport.close()
        else:
            self.transport.resume_reading()


class Relay:
    """The thread that serves the entrances of a plane."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._thread.start()

    def open(self, ip: str, port: int) -> Entrance:
        """Listen on a pod's address; OSError if the port is taken. It leads nowhere yet."""
        return self._run(self._open(ip, port))

    def lead_to(self, entrance: Entrance, socket: Path | None) -> None:
        """Lead an entrance to another sandbox, and end the connections to the one before."""
        self._run(self._lead_to(entrance, socket))

    def close(self, entrance: Entrance) -> None:
        """Stop to listen, and end every connection."""
        self._run(self._close(entrance))

    def stop(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)

    async def _open(self, ip: str, port: int) -> Entrance:
        entrance = Entrance()
        entrance.server = await self._loop.create_server(lambda: _Caller(entrance), ip, port, backlog=_BACKLOG)
        return entrance

    async def _lead_to(self, entrance: Entrance, socket: Path | None) -> None:
        entrance.socket = socket
        for end in list(entrance.connections):
            if end.transport is not None:
                end.transport.abort()

    async def _close(self, entrance: Entrance) -> None:
        if entrance.server is not None:
            entrance.server.close()
        await self._lead_to(entrance, None)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
