"""The proxy of the benchmark of clients, and how it compares both sides."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import urlsplit

from bench.clients_pool import _compared, _proxy


class Echo(BaseHTTPRequestHandler):
    """Answers with the host that a client named."""

    def do_GET(self) -> None:
        body = self.headers["Host"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Write nothing."""


def test_every_host_is_the_balancer() -> None:
    with HTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with _proxy(f"127.0.0.1:{server.server_port}") as proxy:
            where = urlsplit(proxy)
            for host in ("api.os.localhost", "49983-w-a.os.localhost"):
                connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
                connection.set_tunnel(host, 80)
                connection.request("GET", "/")
                assert connection.getresponse().read().decode() == host
                connection.close()
        server.shutdown()


def test_creation_is_compared_with_the_raw_claim() -> None:
    found = _compared([10.0, 20.0, 40.0], [30.0, 50.0, 60.0])
    assert found["added_ms"] == 30.0
    assert found["ratio"] == {"p50": 2.5, "p99": 1.5}
