"""Serves the attendant's webhooks over HTTPS on loopback: JSON in, JSON out."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agentenv.rehearsal.controlplane.ports import HOST

Object = dict[str, Any]
Answers = Mapping[str, Callable[[Object], Object]]

_LOG = logging.getLogger(__name__)
_LARGEST = 16 * 2**20


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # pods are made in bursts
    allow_reuse_address = True  # the port is held for us by a socket that does not listen
    answers: Answers
    context: ssl.SSLContext

    def get_request(self) -> tuple[socket.socket, Any]:
        plain, address = super().get_request()
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The handshake waits for the first read, which the connection's own thread does
        return self.context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections break all the time; what an answer raised was written down where it was raised."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._say(200 if self.path == "/healthz" else 404, {})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        answer = self._answers().get(self.path.partition("?")[0])
        if answer is None or length > _LARGEST:
            self.close_connection = True
            self._say(404, {})
            return
        try:
            self._say(200, answer(json.loads(self.rfile.read(length))))
        except Exception:  # noqa: BLE001 - the server is told, and this goes on
            _LOG.exception("The webhook %s failed", self.path)
            self._say(500, {})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Requests carry tokens: none is logged."""

    def _answers(self) -> Answers:
        assert isinstance(self.server, _Server)  # noqa: S101 - nobody else makes handlers of this class
        return self.server.answers

    def _say(self, status: int, thing: Object) -> None:
        body = json.dumps(thing).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(port: int, certificate: Path, key: Path, answers: Answers) -> ThreadingHTTPServer:
    """Answer in the background until the server is shut down."""
    server = _Server((HOST, port), _Handler)
    server.answers = answers
    server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.context.load_cert_chain(certificate, key)
    threading.Thread(target=server.serve_forever, args=(0.2,), name="webhooks", daemon=True).start()
    return server
