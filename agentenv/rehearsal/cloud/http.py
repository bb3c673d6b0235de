"""The endpoint's HTTP server: persistent connections, complete responses, no request log.

werkzeug's request handler closes the connection after each response. SDKs send hundreds of requests in a row, so this
one keeps the connection; it may, because the application always reads a request to its end.
"""

from __future__ import annotations

import io
import socket
from typing import TYPE_CHECKING, Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import ThreadedWSGIServer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import WSGIApplication

IDLE_SECONDS = 120
LARGEST_BODY = 256 * 1024 * 1024
QUEUE = 128  # SDKs open their connections in bursts


class Connection(MotoRequestHandler):
    """One client's connection: one request after another until either side closes it."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    wbufsize = -1  # head and body leave together, unless they are large
    # Nagle's algorithm would hold the second part of a large response until the first is acknowledged.
    disable_nagle_algorithm = True

    def run_wsgi(self) -> None:
        """Answer one request."""
        if self.headers.get("Expect", "").strip().lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.wfile.flush()
        length = self.headers.get("Content-Length") or "0"
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            status = "413 Content Too Large" if length.isdecimal() else "400 Bad Request"
            self.reject(status, f"Content-Length is {length[:20]}; bodies are of 256 MiB at most.")
            return
        self.environ = environ = self.make_environ()
        # The body is read before anyone may fail, so that the next request begins where this one ends.
        try:
            body = environ["wsgi.input"].read(LARGEST_BODY + 1 if self.is_chunked() else int(length))
        except OSError as error:
            self.reject("400 Bad Request", f"The body cannot be read: {error}")
            return
        if len(body) > LARGEST_BODY:
            self.reject("413 Content Too Large", "Bodies are of 256 MiB at most.")
            return
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        began: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> Any:
            began.append((status, headers))
            return lambda _: None

        chunks: Iterable[bytes] = self.server.app(environ, start_response)
        content = b"".join(chunks)
        status, headers = began[-1]
        self.write(status, headers, content)

    def is_chunked(self) -> bool:
        """Return whether the body has chunked transfer encoding."""
        return "chunked" in self.headers.get("Transfer-Encoding", "").lower()

    def reject(self, status: str, reason: str) -> None:
        """Reject a request of unknown length and close the connection."""
        self.close_connection = True
        self.write(status, [("Content-Type", "text/plain; charset=utf-8")], f"{reason}\n".encode())

    def write(self, status: str, headers: list[tuple[str, str]], body: bytes) -> None:
        """Send a complete response, with the length that keeps the connection usable."""
        code, _, reason = status.partition(" ")
        self.send_response(int(code), reason)
        named = {name.lower() for name, _ in headers}
        for name, value in headers:
            if name.lower() not in {"connection", "transfer-encoding"}:
                self.send_header(name, value)
        if "content-length" not in named and code not in {"204", "304"}:
            self.send_header("Content-Length", str(len(body)))
        if self.close_connection or getattr(self.server, "ended", False):
            self.close_connection = True
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD" and code not in {"204", "304"}:
            self.wfile.write(body)
        self.wfile.flush()

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 -- werkzeug names it
        """Log nothing: the journal records the calls, and a connection that stays idle too long is no error."""


class Listener(ThreadedWSGIServer):
    """The listening socket, with a thread for each connection."""

    def __init__(self, port: int, application: WSGIApplication) -> None:
        self.ended = False
        # Bound here and handed over: werkzeug itself ends the whole process where a port is taken.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as bound:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(("127.0.0.1", port))
            bound.listen(QUEUE)
            super().__init__("127.0.0.1", port, application, Connection, fd=bound.fileno())

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 -- werkzeug names it
        """Log nothing: disconnected clients are no error of the server."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken connections; the application logs its own errors."""
