"""The relays of the benchmark of creates answer nothing while they hang, and pass everything on before and after."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from agentenv.rehearsal.controlplane.auth.certificates import Authority
from agentenv.rehearsal.controlplane.client import until
from agentenv.rehearsal.controlplane.ports import HOST
from agentenv.service.http.auth.issuer import Issuer, issuer_client
from bench.remotes import Relay
from tests.fast.service.http.auth.issuer import AUDIENCE, FakeIssuer

TIMEOUT = 180.0


@pytest.fixture
def issuer() -> Iterator[FakeIssuer]:
    fake = FakeIssuer()
    yield fake
    fake.close()


@pytest.fixture
def relay(issuer: FakeIssuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    """A relay before the issuer, with a certificate of an authority that only SSL_CERT_FILE names."""
    authority = Authority(tmp_path / "authority")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.server("issuer", [HOST]))
    relay = Relay((HOST, urlsplit(issuer.url).port or 0), tls)
    issuer.url = relay.address
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    yield relay
    relay.close()


def test_issuer_of_a_private_authority_is_reached_through_a_relay(issuer: FakeIssuer, relay: Relay) -> None:
    async def act() -> None:
        async with issuer_client() as client:
            assert (await Issuer(issuer.url, AUDIENCE, client).verify(issuer.token("ann")))["sub"] == "ann"

    asyncio.run(act())
    assert relay.held == 0


def test_relay_that_hangs_answers_neither_new_nor_open_connections(issuer: FakeIssuer, relay: Relay) -> None:
    async def act() -> None:
        async with issuer_client() as client:
            keys = f"{relay.address}/keys"
            assert (await client.get(keys)).status_code == 200
            with relay.hanging():
                open_ = asyncio.create_task(client.get(keys, timeout=None))
                new = asyncio.create_task(httpx2.AsyncClient(trust_env=False).get(keys, timeout=None))
                assert await asyncio.to_thread(lambda: until(lambda: relay.held == 2, TIMEOUT))
                assert issuer.fetched == 1
                assert not open_.done()
                assert not new.done()
            # Both end without an answer.
            for error in await asyncio.gather(open_, new, return_exceptions=True):
                assert isinstance(error, httpx2.TransportError)
            assert (await client.get(keys)).status_code == 200

    asyncio.run(act())
