"""The relay: accepts connections on the pods' addresses, and enters their sandboxes by Unix sockets; their way out too.

One thread serves every pod of a plane. Half-closed connections stay half-closed, and a slow reader holds its writer
back, as between a node and its pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from agentenv.local.sandboxes import way_out
from agentenv.local.sandboxes.way_out import short_path

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
_BACKLOG = 128
_STOP_SECONDS = 5.0


@dataclass(eq=False)
class Entrance:
    """A listening address that leads to one sandbox at a time."""

    listener: socket.socket
    connections: set[_End] = field(default_factory=set)
    target: Path | None = None  # the socket; None refuses connections


@dataclass(eq=False)
class Exit:
    """A Unix socket at which the connections of one sandbox are taken."""

    listener: socket.socket
    decide: way_out.Decide
    connections: set[_End] = field(default_factory=set)
    opening: set[asyncio.Task[None]] = field(default_factory=set)


class _End(asyncio.Protocol):
    """One end of a relayed connection; what it receives goes to the other end."""

    def __init__(self, entrance: Entrance | Exit) -> None:
        self._entrance = entrance
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None
        self.ended = False  # whether this end sends no more

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._entrance.connections.add(self)
        # asyncio does this for sockets that name their protocol, which an accepted one does not. Without it the second
        # of two writes waits for an acknowledgement, which takes 40 ms.
        end = transport.get_extra_info("socket")
        if end.family == socket.AF_INET:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

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


class _Waiting(_End):
    """An end that receives nothing until the other one is there."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        cast("asyncio.Transport", transport).pause_reading()


class _Caller(_End):
    """The end towards the caller, which waits until the sandbox has accepted."""

    _entrance: Entrance

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        cast("asyncio.Transport", transport).pause_reading()
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        assert self.transport is not None  # noqa: S101 - set before the task was created
        try:
            if self._entrance.target is None:
                raise ConnectionRefusedError
            inner = _End(self._entrance)
            inner.other = self
            with short_path(self._entrance.target) as path:
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
        self._accepted: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._thread.start()

    def open(self, ip: str, port: int) -> Entrance:
        """Listen on a pod's address; OSError if the port is taken. It leads nowhere yet."""
        return self._run(self._open(ip, port))

    def lead_to(self, entrance: Entrance, target: Path | None) -> None:
        """Lead an entrance to another sandbox, and end the connections to the one before."""
        self._run(self._lead_to(entrance, target))

    def close(self, entrance: Entrance) -> None:
        """Stop to listen, and end every connection."""
        self._run(self._close(entrance))

    def open_exit(self, path: Path, decide: way_out.Decide) -> Exit:
        """Take the connections of a sandbox at a socket, to where `decide` says."""
        return self._run(self._open_exit(path, decide))

    def close_exit(self, exit_: Exit) -> None:
        """Take no more connections, and end every one."""
        self._run(self._close_exit(exit_))

    def stop(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)

    async def _open(self, ip: str, port: int) -> Entrance:
        listener = socket.create_server((ip, port), backlog=_BACKLOG)
        listener.setblocking(False)
        entrance = Entrance(listener)
        self._loop.add_reader(listener, self._accept, entrance)
        return entrance

    def _accept(self, entrance: Entrance) -> None:
        # Not asyncio's server: that forgets, and never closes, what it accepts while it is closed
        with contextlib.suppress(BlockingIOError, ConnectionError):
            connection, _ = entrance.listener.accept()
            connection.setblocking(False)
            task = self._loop.create_task(self._loop.connect_accepted_socket(lambda: _Caller(entrance), connection))
            self._accepted.add(task)
            task.add_done_callback(self._accepted.discard)

    async def _lead_to(self, entrance: Entrance, target: Path | None) -> None:
        entrance.target = target
        for end in list(entrance.connections):
            if end.transport is not None:
                end.transport.abort()

    async def _close(self, entrance: Entrance) -> None:
        self._loop.remove_reader(entrance.listener)
        entrance.listener.close()
        await self._lead_to(entrance, None)

    async def _open_exit(self, path: Path, decide: way_out.Decide) -> Exit:
        listener = socket.socket(socket.AF_UNIX)
        with short_path(path) as short:
            listener.bind(short)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        exit_ = Exit(listener, decide)
        self._loop.add_reader(listener, self._leave, exit_)
        return exit_

    def _leave(self, exit_: Exit) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            connection, _ = exit_.listener.accept()
            connection.setblocking(False)
            task = self._loop.create_task(self._carry(exit_, connection))
            exit_.opening.add(task)
            task.add_done_callback(exit_.opening.discard)

    async def _carry(self, exit_: Exit, connection: socket.socket) -> None:
        with contextlib.ExitStack() as sockets:
            sockets.enter_context(connection)
            try:
                onward = await way_out.open_way(connection, exit_.decide)
            except (OSError, ValueError) as error:
                _LOG.debug("A connection of a sandbox ended early: %s", error)
                return
            except Exception:  # noqa: BLE001 - without an answer nothing is let out, and others go on
                _LOG.exception("A connection of a sandbox could not be decided")
                return
            if onward is None:
                return
            sockets.enter_context(onward)
            inner, outer = _Waiting(exit_), _Waiting(exit_)
            inner.other, outer.other = outer, inner
            await self._loop.connect_accepted_socket(lambda: inner, connection)
            await self._loop.connect_accepted_socket(lambda: outer, onward)
            sockets.pop_all()
            transports = [end.transport for end in (inner, outer) if end.transport is not None]
            if any(transport.is_closing() for transport in transports):
                for transport in transports:
                    transport.abort()
            else:
                for transport in transports:
                    transport.resume_reading()

    async def _close_exit(self, exit_: Exit) -> None:
        self._loop.remove_reader(exit_.listener)
        exit_.listener.close()
        for task in list(exit_.opening):
            task.cancel()
        for end in list(exit_.connections):
            if end.transport is not None:
                end.transport.abort()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
