"""OpenSSH through the gateway: the configuration, the connection that `ProxyCommand` makes, and the host key."""

from __future__ import annotations

import socket
import ssl
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx2

from agentenv.cli.main import CommandError

if TYPE_CHECKING:
    from typing import BinaryIO

    from agentenv.client import Client

# Hosts are `<workspace>.agentenv`.
SUFFIX = ".agentenv"
_SECONDS = 30.0
_PIECE = 1 << 16
_MOST_BYTES = 1 << 16


def configuration(command: list[str]) -> str:
    """Return the configuration for every workspace; `command` runs this program."""
    agentenv = " ".join(map(_quoted, command))
    return (
        f"# Written by `agentenv workspace ssh-config`: ssh <workspace>{SUFFIX}\n"
        f"Host *{SUFFIX}\n"
        "  User agent\n"
        f"  ProxyCommand {agentenv} workspace ssh-proxy %n\n"
        f"  KnownHostsCommand {agentenv} workspace ssh-host-key %n\n"
        "  StrictHostKeyChecking yes\n"
        "  UserKnownHostsFile /dev/null\n"
        "  ServerAliveInterval 30\n"
    )


def workspace_of(host: str) -> str:
    """Return the workspace that a host of the configuration names."""
    return host.removesuffix(SUFFIX)


def host_key(client: Client, host: str) -> str:
    """Return the line of `known_hosts` for a workspace."""
    address, headers = client.entrance(workspace_of(host))
    try:
        response = httpx2.get(f"{address}/ssh/host-key", headers=headers, timeout=_SECONDS, trust_env=False)
    except httpx2.HTTPError as error:
        raise CommandError(f"the gateway does not answer: {type(error).__name__}") from error
    if not response.is_success:
        raise CommandError(f"the gateway refused with status {response.status_code}")
    return f"{host} {response.text.strip()}\n"


def proxy(client: Client, host: str) -> None:
    """Connect standard input and output with the SSH server of a workspace."""
    address, headers = client.entrance(workspace_of(host))
    with connected(address) as connection:
        rest = _upgrade(connection, address, headers)
        threading.Thread(target=_send, args=(sys.stdin.buffer, connection), name="input", daemon=True).start()
        _receive(connection, rest, sys.stdout.buffer)


def connected(address: str) -> socket.socket:
    """Return a connection to the gateway, on which small writes are sent at once."""
    parts = urlsplit(address)
    secure = parts.scheme == "https"
    try:
        connection = socket.create_connection((parts.hostname or "", parts.port or (443 if secure else 80)), _SECONDS)
        # Else the second of two keystrokes waits until the first is acknowledged, which takes 40 ms
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if secure:
            context = ssl.create_default_context()
            context.set_alpn_protocols(["http/1.1"])  # HTTP/2 has no upgrades
            connection = context.wrap_socket(connection, server_hostname=parts.hostname)
    except OSError as error:
        raise CommandError(f"the gateway does not answer: {error}") from error
    return connection


def _upgrade(connection: socket.socket, address: str, headers: dict[str, str]) -> bytes:
    """Ask for SSH in place of HTTP; return what came after the response."""
    lines = [
        "GET /ssh HTTP/1.1",
        f"Host: {urlsplit(address).netloc}",
        "Connection: Upgrade",
        "Upgrade: ssh",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
    received = b""
    while b"\r\n\r\n" not in received:
        data = connection.recv(_PIECE)
        received += data
        if not data or len(received) > _MOST_BYTES:
            raise CommandError("the gateway closed the connection")
    head, _, rest = received.partition(b"\r\n\r\n")
    status = head.partition(b"\r\n")[0].decode("ascii", "replace")
    if " 101 " not in f"{status} ":
        raise CommandError(f"the gateway refused SSH: {status}")
    connection.settimeout(None)
    return rest


def _send(source: BinaryIO, connection: socket.socket) -> None:
    try:
        while data := source.raw.read(_PIECE):  # pyright: ignore[reportAttributeAccessIssue] - without waiting for more
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the other direction ends the command


def _receive(connection: socket.socket, rest: bytes, target: BinaryIO) -> None:
    data = rest or connection.recv(_PIECE)
    while data:
        target.write(data)
        target.flush()
        data = connection.recv(_PIECE)


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text else text


def program() -> list[str]:
    """Return the command that runs this program."""
    installed = Path(sys.executable).with_name("agentenv")
    return [str(installed)] if installed.is_file() else [sys.executable, "-m", "agentenv"]
