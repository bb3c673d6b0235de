"""HTTP as the endpoint speaks it: connections that stay open, whole answers, no development server's noise.

The request handler of werkzeug closes the connection after each answer and waits for stray input; SDKs make hundreds
of calls in a row, so this one keeps the connection, which it may because the gate always reads a request to its end.
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
    """One client's connection: request after request until either side has had enough."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    # Head and body leave in one write each; Nagle's algorithm would hold the second until the first is acknowledged.
    disable_nagle_algorithm = True

    def run_wsgi(self) -> None:
        """Answer one request."""
        if self.headers.get("Expect", "").strip().lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        length = self.headers.get("Content-Length") or "0"
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            status = "413 Content Too Large" if length.isdecimal() else "400 Bad Request"
            self.turn_away(status, f"Content-Length is {length[:20]}; bodies are of 256 MiB at most.")
            return
        self.environ = environ = self.make_environ()
        # The body is read before anyone may fail, so that the next request begins where this one ends.
        try:
            body = environ["wsgi.input"].read(LARGEST_BODY + 1 if self.is_chunked() else int(length))
        except OSError as error:
            self.turn_away("400 Bad Request", f"The body cannot be read: {error}")
            return
        if len(body) > LARGEST_BODY:
            self.turn_away("413 Content Too Large", "Bodies are of 256 MiB at most.")
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
        """Whether the body comes in pieces of its own telling."""
        return "chunked" in self.headers.get("Transfer-Encoding", "").lower()

    def turn_away(self, status: str, reason: str) -> None:
        """Refuse a request whose end cannot be told, and with it the connection."""
        self.close_connection = True
        self.write(status, [("Content-Type", "text/plain; charset=utf-8")], f"{reason}\n".encode())

    def write(self, status: str, headers: list[tuple[str, str]], body: bytes) -> None:
        """Send a whole answer, with the length that lets the connection live on."""
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

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing: the journal keeps the calls."""


class Listener(ThreadedWSGIServer):
    """The listening socket; a thread for each connection."""

    def __init__(self, port: int, application: WSGIApplication) -> None:
        self.ended = False
        # Bound here and handed over: werkzeug itself ends the whole process where a port is taken.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as bound:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(("127.0.0.1", port))
            bound.listen(QUEUE)
            super().__init__("127.0.0.1", port, application, Connection, fd=bound.fileno())

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 -- werkzeug names it
        """Say nothing: a client that went away is its own business."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that break; what the application does wrong it writes down itself."""
