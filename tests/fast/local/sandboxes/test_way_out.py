"""A sandbox's connections go where it was decided, and nowhere beyond this machine."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from agentenv.local.sandboxes.relay import Exit, Relay
from agentenv.local.sandboxes.way_out import Dial, Enter, Protocol, Refusal, Resolve, Way, short_path

SECONDS = 10.0


class _Upper(socketserver.StreamRequestHandler):
    """Answers once the caller has sent everything."""

    def handle(self) -> None:
        self.wfile.write(self.rfile.read().upper())


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True


@pytest.fixture
def server() -> Iterator[int]:
    with _Server(("127.0.0.1", 0), _Upper) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


class Ways:
    """Decides by a table of destinations, and remembers the requests."""

    def __init__(self, table: dict[tuple[str, str, int], Way]) -> None:
        self.table = table
        self.requests: list[tuple[str, str, int]] = []

    def decide(self, protocol: Protocol, address: IPv4Address, port: int) -> Way:
        key = (protocol, str(address), port)
        self.requests.append(key)
        if key not in self.table:
            raise KeyError(key)
        return self.table[key]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A path that is too long for an address."""
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    return folder / "relay"


def connect(path: Path, request: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(SECONDS)
    with short_path(path) as short:
        connection.connect(short)
    connection.sendall(f"{request}\n".encode())
    return connection


def answered(connection: socket.socket) -> str:
    text = b""
    with contextlib.suppress(ConnectionResetError):  # it ended before it had read everything
        while not text.endswith(b"\n") and (byte := connection.recv(1)):
            text += byte
    return text.decode().strip()


def opened(relay: Relay, path: Path, table: dict[tuple[str, str, int], Way]) -> tuple[Exit, Ways]:
    ways = Ways(table)
    return relay.open_exit(path, ways.decide), ways


def test_an_open_connection_carries_its_bytes_and_its_ends(relay: Relay, path: Path, server: int) -> None:
    exit_, ways = opened(relay, path, {("TCP", "140.82.112.3", 443): Dial("127.0.0.1", server)})
    data = b"some text " * 200_000
    with connect(path, "tcp 140.82.112.3 443") as connection:
        assert answered(connection) == "open"
        threading.Thread(target=lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR))).start()
        with connection.makefile("rb") as response:
            assert response.read() == data.upper()
    assert ways.requests == [("TCP", "140.82.112.3", 443)]
    relay.close_exit(exit_)


def test_refusals_have_reasons_and_other_machines_are_never_connected_to(relay: Relay, path: Path, server: int) -> None:
    free = socket.create_server(("127.0.0.1", 0))
    closed = free.getsockname()[1]
    free.close()
    exit_, _ = opened(relay, path, {
        ("TCP", "10.0.0.1", 80): Refusal.DROP,
        ("TCP", "10.0.0.2", 80): Refusal.REFUSE,
        ("TCP", "10.0.0.3", 80): Dial("127.0.0.1", closed),
        ("TCP", "10.0.0.4", 80): Dial("192.0.2.1", 80),
        ("UDP", "10.0.0.5", 80): Dial("127.0.0.1", server),
    })  # fmt: skip
    answers = {
        "tcp 10.0.0.1 80": "drop", "tcp 10.0.0.2 80": "refuse", "tcp 10.0.0.3 80": "refuse", "tcp 10.0.0.4 80": "drop",
        "udp 10.0.0.5 80": "drop", "tcp 10.0.0.6 80": "", "icmp 10.0.0.1 0": "", "nonsense": "", "x" * 100: "",
    }  # fmt: skip
    for request, answer in answers.items():
        with connect(path, request) as connection:
            assert answered(connection) == answer, request
    relay.close_exit(exit_)


def test_messages_to_the_resolver_are_answered_one_by_one(relay: Relay, path: Path) -> None:
    exit_, _ = opened(relay, path, {("UDP", "172.20.0.10", 53): Resolve(bytes.upper)})
    with connect(path, "udp 172.20.0.10 53") as connection:
        assert answered(connection) == "open"
        for message in (b"first", b"second"):
            connection.sendall(len(message).to_bytes(2, "big") + message)
            assert connection.recv(2, socket.MSG_WAITALL) == len(message).to_bytes(2, "big")
            assert connection.recv(len(message), socket.MSG_WAITALL) == message.upper()
    relay.close_exit(exit_)


def test_another_sandbox_is_entered_at_its_port_from_the_callers_address(relay: Relay, path: Path) -> None:
    inbound = path.with_name("inbound")
    requests: list[bytes] = []

    def sandbox(listener: socket.socket) -> None:
        for answer in (b"open\n", b"refuse\n"):
            connection, _ = listener.accept()
            requests.append(connection.recv(100))
            connection.sendall(answer + (b"hello" if answer == b"open\n" else b""))
            connection.close()

    with socket.socket(socket.AF_UNIX) as listener:
        with short_path(inbound) as short:
            listener.bind(short)
        listener.listen()
        threading.Thread(target=sandbox, args=(listener,), daemon=True).start()
        exit_, _ = opened(relay, path, {("TCP", "100.64.0.9", 8080): Enter(inbound, 8080, "100.64.0.5")})
        with connect(path, "tcp 100.64.0.9 8080") as connection:
            assert answered(connection) == "open"
            assert connection.recv(5, socket.MSG_WAITALL) == b"hello"
        with connect(path, "tcp 100.64.0.9 8080") as connection:
            assert answered(connection) == "refuse"
        assert requests == [b"tcp 8080 100.64.0.5\n"] * 2
        relay.close_exit(exit_)


def test_a_closed_exit_ends_its_connections(relay: Relay, path: Path, server: int) -> None:
    exit_, _ = opened(relay, path, {("TCP", "1.1.1.1", 443): Dial("127.0.0.1", server)})
    with connect(path, "tcp 1.1.1.1 443") as connection:
        assert answered(connection) == "open"
        relay.close_exit(exit_)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        connect(path, "tcp 1.1.1.1 443")
