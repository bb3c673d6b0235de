"""Addresses are held by one pod, and the relay passes bytes on as a network would."""

from __future__ import annotations

import contextlib
import itertools
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentenv.local.sandboxes import addresses
from agentenv.local.sandboxes.relay import Relay, short_path
from agentenv.rehearsal.controlplane.client import until

SECONDS = 10.0
PORT = 49983


def test_an_address_is_not_reused_while_it_is_held() -> None:
    first = addresses.hold("pod-1")
    second = addresses.hold("pod-1")
    assert first.ip != second.ip
    assert [first.ip, second.ip] == list(itertools.islice(addresses.candidates("pod-1"), 2))
    first.release()
    third = addresses.hold("pod-1")
    assert third.ip == first.ip
    second.release()
    third.release()


def test_addresses_are_loopback_and_differ_between_pods() -> None:
    ips = {next(addresses.candidates(f"pod-{number}")) for number in range(1000)}
    assert len(ips) > 990
    assert all(64 <= int(ip.split(".")[1]) < 128 and ip.startswith("127.") for ip in ips)


class _Upper(socketserver.StreamRequestHandler):
    """Answers once the caller has sent everything."""

    def handle(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.wfile.write(self.rfile.read().upper())


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Path]:
    """A server at a Unix socket whose path is too long for an address."""
    folder = tmp_path / ("long" * 20) / "socket"
    folder.mkdir(parents=True)
    with short_path(folder / "workspaced") as path, _Server(path, _Upper) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield folder / "workspaced"
        server.shutdown()


@pytest.fixture
def ip() -> Iterator[str]:
    held = addresses.hold("relayed")
    yield held.ip
    held.release()


def exchange(ip: str, data: bytes) -> bytes:
    with socket.create_connection((ip, PORT), SECONDS) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as response:
            return response.read()


def test_small_writes_are_sent_at_once(relay: Relay, ip: str, inside: Path) -> None:
    entrance = relay.open(ip, PORT)
    relay.lead_to(entrance, inside)
    with socket.create_connection((ip, PORT), SECONDS) as connection:
        connection.sendall(b"x")
        # Of both ends: the sandbox's is open before the caller's is relayed.
        assert until(lambda: len(entrance.connections) == 2, SECONDS)
        sockets = [end.transport.get_extra_info("socket") for end in entrance.connections if end.transport]
        [caller] = [each for each in sockets if each.family == socket.AF_INET]
        assert caller.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    relay.close(entrance)


def test_a_half_closed_connection_still_gets_its_answer(relay: Relay, ip: str, inside: Path) -> None:
    entrance = relay.open(ip, PORT)
    relay.lead_to(entrance, inside)
    data = b"some text " * 200_000
    assert exchange(ip, data) == data.upper()
    assert len({exchange(ip, f"n{number}".encode()) for number in range(20)}) == 20
    relay.close(entrance)


def test_without_a_sandbox_connections_are_reset_and_an_entrance_leads_to_another_later(
    relay: Relay, ip: str, inside: Path
) -> None:
    entrance = relay.open(ip, PORT)
    with pytest.raises(OSError):  # noqa: PT011 - reset, or not connected any more
        exchange(ip, b"text")
    relay.lead_to(entrance, inside.with_name("gone"))
    with pytest.raises(OSError):  # noqa: PT011 - reset, or not connected any more
        exchange(ip, b"text")
    relay.lead_to(entrance, inside)
    assert exchange(ip, b"text") == b"TEXT"
    relay.close(entrance)


def test_a_closed_entrance_ends_its_connections_and_frees_its_port(relay: Relay, ip: str, inside: Path) -> None:
    entrance = relay.open(ip, PORT)
    relay.lead_to(entrance, inside)
    with socket.create_connection((ip, PORT), SECONDS) as connection:
        connection.sendall(b"begun")
        relay.close(entrance)
        with contextlib.suppress(ConnectionResetError):  # what was sent may not have been read
            assert connection.recv(1024) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((ip, PORT), SECONDS)
    relay.close(relay.open(ip, PORT))
