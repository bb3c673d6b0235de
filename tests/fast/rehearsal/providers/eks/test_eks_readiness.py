"""Waiting for an API server: a real one on loopback, with a certificate that nobody knows."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agentenv.rehearsal.providers.eks.readiness import is_healthy, wait_until_healthy
from tests.stub_server import Request, Response, self_signed, stub_server


@dataclass
class Server:
    """An HTTPS server that answers /healthz with the statuses it is given, the last of them for ever."""

    url: str
    statuses: list[int]
    paths: list[str] = field(default_factory=list)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server_state = Server("", [200])

    def respond(request: Request) -> Response:
        server_state.paths.append(request.path)
        statuses = server_state.statuses
        return Response(statuses.pop(0) if len(statuses) > 1 else statuses[0])

    certificate = tmp_path / "server.pem"
    self_signed(certificate, "192.0.2.1")
    with stub_server(respond, certificate=certificate) as port:
        server_state.url = f"https://127.0.0.1:{port}"
        yield server_state


def test_any_certificate_is_accepted(server: Server) -> None:
    assert is_healthy(server.url)
    assert server.paths == ["/healthz"]


@pytest.mark.parametrize("status", [401, 500, 503])
def test_only_a_healthy_server_is_ready(server: Server, status: int) -> None:
    server.statuses = [status]
    assert not is_healthy(server.url)


@pytest.mark.parametrize("endpoint", ["https://127.0.0.1:9", "http://127.0.0.1:9", "nonsense", ""])
def test_unreachable_endpoint_is_not_ready(endpoint: str) -> None:
    assert not is_healthy(endpoint)


def test_health_is_polled_until_it_succeeds(server: Server) -> None:
    server.statuses = [500, 503, 200]
    server_state: list[str] = []
    assert asyncio.run(wait_until_healthy(server.url, server_state.append, interval=0.01, attempts=10))
    assert len(server.paths) == 3
    assert [text.split(" ")[3] for text in server_state] == ["0.1", "0.09"]


def test_polling_ends_at_the_timeout(server: Server) -> None:
    server.statuses = [500]
    server_state: list[str] = []
    assert not asyncio.run(wait_until_healthy(server.url, server_state.append, interval=0.01, attempts=3))
    assert len(server.paths) == 3
