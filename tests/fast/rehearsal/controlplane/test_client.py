"""A connection that is kept: used again, replaced once the server closed it, and let go after a late answer."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentenv.rehearsal.controlplane.client import ApiError, Client, Credentials


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.late = threading.Event()
        self.left = threading.Event()
        self.connections = 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server  # type: ignore[assignment]

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        if "watch=true" in self.path:
            self._watched()
            return
        if self.path == "/late":
            self.server.late.wait(30)
        listed = b'{"apiVersion": "v1", "kind": "ThingList", "metadata": {"resourceVersion": "1"}, "items": []}'
        body = listed if self.path == "/things" else b'{"path": "%s"}' % self.path.encode()
        self.send_response(200 if self.path != "/missing" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _watched(self) -> None:
        """Something happens all the time, until nobody listens any more."""
        self.send_response(200)
        self.end_headers()
        about = {"uid": "u", "resourceVersion": "2"}
        event = json.dumps({"type": "MODIFIED", "object": {"metadata": about}}).encode() + b"\n"
        with contextlib.suppress(OSError):
            while not self.server.late.wait(0.01):
                self.wfile.write(event)
        self.server.left.set()
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called there
        """Nobody reads it."""


@pytest.fixture
def server() -> Iterator[_Server]:
    server = _Server()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.late.set()
    server.shutdown()
    server.server_close()


class _Plain(Client):
    """Without a certificate."""

    def _connect(self, timeout: float | None) -> Any:
        del timeout
        return http.client.HTTPConnection(self._host, self._port, timeout=30)


@pytest.fixture
def client(server: _Server, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr("ssl.create_default_context", lambda **_: None)
    return _Plain(f"https://127.0.0.1:{server.server_port}", Path("ca"), Credentials())


def open_connection(client: Client) -> Any:
    return client._local.connection


def test_a_connection_is_used_again_also_after_a_refusal(client: Client, server: _Server) -> None:
    for path in ("/a", "/b"):
        assert client.get(path) == {"path": path}
    with pytest.raises(ApiError):
        client.get("/missing")
    assert client.get("/c") == {"path": "/c"}
    assert server.connections == 1


def test_late_response_fails_only_its_request(client: Client, server: _Server) -> None:
    client.get("/a")
    open_connection(client).sock.settimeout(0.2)
    with pytest.raises(TimeoutError):
        client.get("/late")
    assert client.get("/b") == {"path": "/b"}
    assert server.connections == 2


def test_a_connection_that_the_server_closed_is_replaced(client: Client, server: _Server) -> None:
    client.get("/a")
    open_connection(client).sock.shutdown(socket.SHUT_RDWR)
    assert client.get("/b") == {"path": "/b"}
    assert server.connections == 2


def test_stopped_watch_ends_despite_further_events(client: Client, server: _Server) -> None:
    ended = threading.Event()
    seen = 0
    for _ in client.watch("/things", ended):
        seen += 1
        ended.set()
    assert seen == 1
    assert server.left.wait(30), "its connection is closed"
