"""A relay passes everything on at once, answers nothing while it hangs, and ends connections while it is cut."""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from agentenv.rehearsal.controlplane.auth.certificates import Authority
from agentenv.rehearsal.controlplane.client import until
from agentenv.rehearsal.controlplane.ports import HOST
from agentenv.service.http.auth.issuer import Issuer, issuer_client
from tests.fast.service.http.auth.issuer import AUDIENCE, FakeIssuer
from tests.relay import Relay, connect_every_host, exchange
from tests.stub_server import Request, Response, stub_server

TIMEOUT = 180.0


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """Return a certificate for this machine, of an authority that only SSL_CERT_FILE names."""
    authority = Authority(tmp_path / "authority")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.server("relay", [HOST]))
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    return tls


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield both ends of a TCP connection."""
    with socket.create_server((HOST, 0)) as listener, socket.create_connection(listener.getsockname()) as near:
        far, _ = listener.accept()
        with far:
            yield near, far


def test_issuer_of_a_private_authority_is_reached_through_a_relay(issuer: FakeIssuer, tls: ssl.SSLContext) -> None:
    async def act() -> None:
        async with issuer_client() as client:
            assert (await Issuer(issuer.url, AUDIENCE, client).verify(issuer.token("ann")))["sub"] == "ann"

    with closing(Relay((HOST, urlsplit(issuer.url).port or 0), tls)) as relay:
        issuer.url = relay.address
        asyncio.run(act())
        assert relay.held == 0


def test_relay_that_hangs_answers_neither_new_nor_open_connections(tls: ssl.SSLContext) -> None:
    received: list[str] = []

    def respond(request: Request) -> Response:
        received.append(request.path)
        return Response()

    async def act(relay: Relay) -> None:
        async with issuer_client() as client, issuer_client() as another:
            assert (await client.get(relay.address)).status_code == 200
            with relay.hanging():
                open_ = asyncio.create_task(client.get(relay.address, timeout=None))
                new = asyncio.create_task(another.get(relay.address, timeout=None))
                assert await asyncio.to_thread(lambda: until(lambda: relay.held == 2, TIMEOUT))
                assert len(received) == 1
                assert not open_.done()
                assert not new.done()
            # Both end without an answer.
            for error in await asyncio.gather(open_, new, return_exceptions=True):
                assert isinstance(error, httpx2.TransportError)
            assert (await client.get(relay.address)).status_code == 200

    with stub_server(respond, keep_alive=True) as port, closing(Relay((HOST, port), tls)) as relay:
        asyncio.run(act(relay))


def test_relay_that_is_cut_ends_open_and_new_connections() -> None:
    with (
        stub_server(lambda _: Response(), keep_alive=True) as port,
        closing(Relay((HOST, port))) as relay,
        httpx2.Client(trust_env=False) as client,
        httpx2.Client(trust_env=False) as another,
    ):
        assert client.get(relay.address).status_code == 200
        relay.cut()
        for cut_off in (client, another):
            with pytest.raises(httpx2.TransportError):
                cut_off.get(relay.address)
        relay.restore()
        assert [each.get(relay.address).status_code for each in (client, another)] == [200, 200]


def test_every_host_of_a_proxy_is_the_server() -> None:
    def echo(request: Request) -> Response:
        return Response(body=request.headers["Host"].encode())

    with stub_server(echo) as port, closing(Relay((HOST, port), greet=connect_every_host)) as relay:
        where = urlsplit(relay.address)
        for host in ("api.os.localhost", "49983-w-a.os.localhost"):
            connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
            connection.set_tunnel(host, 80)
            connection.request("GET", "/")
            assert connection.getresponse().read().decode() == host
            connection.close()


def test_small_writes_do_not_wait() -> None:
    with connected() as (client, near), connected() as (far, server):
        passing = threading.Thread(target=exchange, args=(near, far))
        passing.start()
        client.sendall(b"to")
        assert server.recv(2) == b"to"
        server.sendall(b"fro")
        assert client.recv(3) == b"fro"
        assert all(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for end in (near, far))
        client.close()
        assert server.recv(1) == b""
        server.close()
        passing.join(TIMEOUT)
        assert not passing.is_alive()
