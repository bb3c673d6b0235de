"""The way out of sandboxes: each connection of one is decided, and carried to where its destination is on this machine.

podnetwork asks at a Unix socket of the sandbox's own: `tcp 192.0.2.1 443`. The answer is `open`, `refuse` or `drop`, as
a network policy drops. Datagrams and messages of DNS have their length before them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, ip_address
from pathlib import Path
from typing import Literal, cast

Protocol = Literal["TCP", "UDP"]

_LOG = logging.getLogger(__name__)
_LONGEST_LINE = 64


class Refusal(Enum):
    """Why a connection does not come about."""

    DROP = "drop"  # nobody answers, as where a policy forbids it
    REFUSE = "refuse"  # nobody listens


@dataclass(frozen=True)
class Dial:
    """A port on loopback that stands for the destination."""

    host: str
    port: int


@dataclass(frozen=True)
class Enter:
    """A port of another sandbox, and the address from which it sees the connection come."""

    inbound: Path
    port: int
    source: str


@dataclass(frozen=True)
class Resolve:
    """The resolver, which answers each message."""

    answer: Callable[[bytes], bytes]


Way = Refusal | Dial | Enter | Resolve
# Called in a thread, with the protocol, address and port that a sandbox connects to.
Decide = Callable[[Protocol, IPv4Address, int], Way]


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Yield a path of the socket that is short enough to connect to, however long its folder's own path is."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


async def open_way(connection: socket.socket, decide: Decide) -> socket.socket | None:
    """Answer one request; return the socket to which its connection has to be carried, or None where it has ended."""
    loop = asyncio.get_running_loop()
    protocol, address, port = (await _line(connection)).split()
    if protocol not in {"tcp", "udp"}:
        raise ValueError(f"a sandbox connects by TCP or UDP, not by {protocol!r}")
    kind = cast("Protocol", protocol.upper())
    destination = IPv4Address(address), int(port)
    way = await loop.run_in_executor(None, decide, kind, *destination)
    if isinstance(way, Resolve):
        await loop.sock_sendall(connection, b"open\n")
        await _resolve(connection, way)
        return None
    if isinstance(way, Dial) and not ip_address(way.host).is_loopback:
        _LOG.error("%s is not on this machine: nothing else is connected to", way.host)
        way = Refusal.DROP
    if not isinstance(way, Refusal) and kind == "UDP":
        way = Refusal.DROP
    if not isinstance(way, Refusal):
        try:
            onward = await _connect(way)
        except OSError:
            way = Refusal.REFUSE
        else:
            await loop.sock_sendall(connection, b"open\n")
            return onward
    _LOG.info("%s %s:%d: %s", protocol, *destination, way.value)
    await loop.sock_sendall(connection, f"{way.value}\n".encode())
    return None


async def _connect(way: Dial | Enter) -> socket.socket:
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as failed:
        if isinstance(way, Dial):
            onward = failed.enter_context(socket.socket())
            onward.setblocking(False)
            await loop.sock_connect(onward, (way.host, way.port))
        else:
            onward = failed.enter_context(socket.socket(socket.AF_UNIX))
            onward.setblocking(False)
            with short_path(way.inbound) as path:
                await loop.sock_connect(onward, path)
            await loop.sock_sendall(onward, f"tcp {way.port} {way.source}\n".encode())
            if await _line(onward) != "open":
                raise ConnectionRefusedError
        failed.pop_all()
        return onward


async def _line(connection: socket.socket) -> str:
    """Read a line, byte by byte: what follows belongs to the connection."""
    text = b""
    while len(text) < _LONGEST_LINE:
        byte = await asyncio.get_running_loop().sock_recv(connection, 1)
        if byte in {b"", b"\n"}:
            return text.decode("ascii")
        text += byte
    raise ValueError("the line is too long")


async def _resolve(connection: socket.socket, way: Resolve) -> None:
    loop = asyncio.get_running_loop()
    while (size := await _exactly(connection, 2)) is not None:
        query = await _exactly(connection, int.from_bytes(size, "big"))
        if query is None:
            return
        message = await loop.run_in_executor(None, way.answer, query)
        await loop.sock_sendall(connection, len(message).to_bytes(2, "big") + message)


async def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        more = await asyncio.get_running_loop().sock_recv(connection, size - len(data))
        if not more:
            return None
        data += more
    return data
