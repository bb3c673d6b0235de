"""The proxy of the benchmark of clients, and how it compares both sides."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

from bench.clients_pool import _compared, _proxy
from tests.stub_server import Request, Response, stub_server


def test_every_host_is_the_balancer() -> None:
    def echo(request: Request) -> Response:
        return Response(body=request.headers["Host"].encode())

    with stub_server(echo) as port, _proxy(f"127.0.0.1:{port}") as proxy:
        where = urlsplit(proxy)
        for host in ("api.os.localhost", "49983-w-a.os.localhost"):
            connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
            connection.set_tunnel(host, 80)
            connection.request("GET", "/")
            assert connection.getresponse().read().decode() == host
            connection.close()


def test_creation_is_compared_with_the_raw_claim() -> None:
    found = _compared([10.0, 20.0, 40.0], [30.0, 50.0, 60.0])
    assert found["added_ms"] == 30.0
    assert found["ratio"] == {"p50": 2.5, "p99": 1.5}
