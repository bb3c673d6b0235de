"""Serve the simulated webhooks over HTTPS on loopback: JSON in, JSON out."""

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
Handlers = Mapping[str, Callable[[Object], Object]]

_LOG = logging.getLogger(__name__)
_MAXIMUM_BODY = 16 * 2**20


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # pods are made in bursts
    allow_reuse_address = True  # the port is reserved by a socket that does not listen
    handlers: Handlers
    context: ssl.SSLContext

    def get_request(self) -> tuple[socket.socket, Any]:
        plain, address = super().get_request()
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The handshake waits for the first read, which the connection's own thread does
        return self.context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken connections; a failing handler logs its own error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._respond(200 if self.path == "/healthz" else 404, {})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        handler = self._handlers().get(self.path.partition("?")[0])
        if handler is None or length > _MAXIMUM_BODY:
            self.close_connection = True
            self._respond(404, {})
            return
        try:
            self._respond(200, handler(json.loads(self.rfile.read(length))))
        except Exception:  # noqa: BLE001 - the server is told, and this goes on
            _LOG.exception("The webhook %s failed", self.path)
            self._respond(500, {})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Log nothing: requests carry tokens."""

    def _handlers(self) -> Handlers:
        assert isinstance(self.server, _Server)  # noqa: S101 - nobody else makes handlers of this class
        return self.server.handlers

    def _respond(self, status: int, content: Object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(port: int, certificate: Path, key: Path, handlers: Handlers) -> ThreadingHTTPServer:
    """Serve in the background until the server is shut down."""
    server = _Server((HOST, port), _Handler)
    server.handlers = handlers
    server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.context.load_cert_chain(certificate, key)
    threading.Thread(target=server.serve_forever, args=(0.2,), name="webhooks", daemon=True).start()
    return server
