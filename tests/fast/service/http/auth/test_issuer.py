"""Tokens of an issuer: forged, expired and misused ones are refused, and an issuer that hangs stalls no known key."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, TypeVar

import httpx2
import pytest

from agentenv.service.http.auth.issuer import Issuer
from agentenv.service.http.auth.keys import EXPIRE_SECONDS, REFRESH_SECONDS, RETRY_SECONDS, KeySet
from agentenv.service.http.problems import Problem, UnauthenticatedError
from tests.fast.service.http.auth.issuer import AUDIENCE, FakeIssuer, SigningKey

T = TypeVar("T")


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Verifier:
    """The issuer under test, with an event loop of its own."""

    def __init__(self, issuer: FakeIssuer, clock: Clock) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = httpx2.AsyncClient(trust_env=False)
        self.issuer = Issuer(issuer.url, AUDIENCE, self._client, clock)

    def __call__(self, token: str) -> Mapping[str, Any]:
        return self.run(self.issuer.verify(token))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(coroutine, 20))

    def close(self) -> None:
        self.run(self._client.aclose())
        self._loop.close()


@pytest.fixture
def verify(issuer: FakeIssuer, clock: Clock) -> Iterator[Verifier]:
    verifier = Verifier(issuer, clock)
    yield verifier
    verifier.close()


@pytest.mark.parametrize("algorithm", ["RS256", "PS384", "ES256"])
def test_a_token_of_the_issuer_is_accepted(issuer: FakeIssuer, verify: Verifier, algorithm: str) -> None:
    issuer.keys = [SigningKey("own", algorithm)]
    assert verify(issuer.token("ann"))["sub"] == "ann"


def _forged(issuer: FakeIssuer) -> dict[str, str]:
    now = int(time.time())
    stranger = SigningKey("first")
    good = issuer.token("ann")
    head, body, signature = good.split(".")
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "ann", "iat": now, "exp": now + 60}
    plain = json.dumps(claims).encode()

    def coded(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    es384 = json.dumps({"alg": "ES384", "kid": "first"}).encode()
    hs256 = coded(json.dumps({"alg": "HS256", "kid": "first"}).encode())
    public = json.dumps(issuer.keys[0].public).encode()
    by_public_key = hmac.digest(public, f"{hs256}.{coded(plain)}".encode(), "sha256")
    none = json.dumps({"alg": "none", "typ": "JWT"}).encode()
    other = coded(json.dumps({**claims, "sub": "bob"}).encode())
    return {
        "signed by another key of the same id": issuer.token("ann", key=stranger),
        "with the claims of another": f"{head}.{other}.{signature}",
        "without a signature": f"{head}.{body}.",
        "with algorithm none": f"{coded(none)}.{coded(plain)}.",
        "signed with the public key as a secret": f"{hs256}.{coded(plain)}.{coded(by_public_key)}",
        "with another algorithm than its key": f"{coded(es384)}.{body}.{signature}",
        "with a key in its header": issuer.token("ann", key=stranger, header={"jwk": stranger.public, "kid": "mine"}),
        "with a URL of keys in its header": issuer.token(
            "ann", key=stranger, header={"jku": "https://evil.example.com/keys", "kid": "mine"}
        ),
        "with a critical header parameter": issuer.token("ann", header={"crit": ["b64"], "b64": False}),
        "of another type": issuer.token("ann", header={"typ": "logout+jwt"}),
        "expired": issuer.token("ann", iat=now - 7200, exp=now - 3600),
        "not valid yet": issuer.token("ann", nbf=now + 600),
        "issued in the future": issuer.token("ann", iat=now + 600),
        "for another audience": issuer.token("ann", aud="another-service"),
        "without an audience": issuer.token("ann", aud=None),
        "of another issuer": issuer.token("ann", iss="https://evil.example.com"),
        "of an issuer with a similar URL": issuer.token("ann", iss=issuer.url + "/"),
        "without exp": issuer.token("ann", exp=None),
        "without iat": issuer.token("ann", iat=None),
        "without a subject": issuer.token("ann", sub=None),
        "with an invalid exp": issuer.token("ann", exp="soon"),
        "too long": issuer.token("ann", more="x" * 20_000),
        "opaque": "opaque",
        "three dots": "..",
    }


def test_forged_and_invalid_tokens_are_refused(issuer: FakeIssuer, verify: Verifier) -> None:
    for name, token in _forged(issuer).items():
        with pytest.raises(UnauthenticatedError):
            pytest.fail(f"a token {name} was accepted: {verify(token)}")


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits")
def test_a_weak_key_is_not_used(issuer: FakeIssuer, verify: Verifier) -> None:
    issuer.keys = [SigningKey("weak", "RS256", bits=1024)]
    with pytest.raises(UnauthenticatedError):
        verify(issuer.token("ann"))


def test_a_new_key_works_at_once_and_a_withdrawn_one_until_the_next_refresh(
    issuer: FakeIssuer, verify: Verifier, clock: Clock
) -> None:
    first, second = issuer.keys[0], SigningKey("second")
    assert verify(issuer.token("ann"))
    issuer.keys = [first, second]
    clock.now += RETRY_SECONDS + 1
    assert verify(issuer.token("ann", key=second))
    issuer.keys = [second]
    assert verify(issuer.token("ann", key=first))
    verify.run(verify.issuer.keys.fetch())
    clock.now += RETRY_SECONDS + 1
    with pytest.raises(UnauthenticatedError):
        verify(issuer.token("ann", key=first))


def test_unknown_key_ids_cause_one_fetch(issuer: FakeIssuer, verify: Verifier, clock: Clock) -> None:
    verify(issuer.token("ann"))
    fetched = issuer.fetched
    clock.now += RETRY_SECONDS + 1
    for number in range(50):
        with pytest.raises(UnauthenticatedError):
            verify(issuer.token("ann", key=SigningKey(f"made-up-{number}")))
    assert issuer.fetched == fetched + 1


def test_cached_keys_serve_while_the_issuer_is_down(issuer: FakeIssuer, verify: Verifier, clock: Clock) -> None:
    token = issuer.token("ann")
    verify(token)
    issuer.close()
    clock.now += REFRESH_SECONDS + 1
    assert verify(token)
    clock.now += EXPIRE_SECONDS
    with pytest.raises(Problem) as refused:
        verify(token)
    assert refused.value.kind == "unavailable"


def test_an_issuer_that_hangs_stalls_no_token_of_a_known_key(
    issuer: FakeIssuer, verify: Verifier, clock: Clock
) -> None:
    verify(issuer.token("ann"))
    with issuer.hanging():
        clock.now += REFRESH_SECONDS + 1

        async def verify_beside_a_refresh() -> None:
            refreshing = asyncio.create_task(verify.issuer.keys.refresh())
            unknown = asyncio.create_task(verify.issuer.verify(issuer.token("eve", key=SigningKey("unknown"))))
            await asyncio.to_thread(issuer.hung.wait)
            assert (await asyncio.wait_for(verify.issuer.verify(issuer.token("ann")), 0.5))["sub"] == "ann"
            assert not unknown.done()
            unknown.cancel()
            refreshing.cancel()

        verify.run(verify_beside_a_refresh())


def test_a_fetch_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """An issuer that sends a byte now and then never meets the timeout of a read."""
    monkeypatch.setattr("agentenv.service.http.auth.keys.FETCH_SECONDS", 0.2)

    async def find_while_it_sends() -> None:
        endless: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(30):
            await KeySet(lambda: asyncio.shield(endless)).find("first", "RS256")

    with pytest.raises(Problem) as refused:
        asyncio.run(find_while_it_sends())
    assert refused.value.kind == "unavailable"


@pytest.mark.parametrize(
    "row",
    [
        "not an object",
        None,
        7,
        [["kty", "EC"]],
        {"kty": ["EC"]},
        {"kty": "EC", "crv": "P-256", "x": 1, "y": None},
        {"kty": "EC", "crv": {}, "x": "AA", "y": "AA"},
        {"kty": "RSA", "n": "", "e": ""},
        {"kty": "OKP", "crv": "Ed25519", "x": "!"},
        {"kty": "EC", "alg": ["ES256"], "kid": "first"},
        {"kty": "EC", "use": {}, "kid": ["first"]},
    ],
    ids=str,
)
def test_unusable_rows_of_a_key_set_are_ignored(issuer: FakeIssuer, verify: Verifier, row: Any) -> None:
    issuer.rows = [row, issuer.keys[0].public]
    assert verify(issuer.token("ann"))


@pytest.mark.parametrize("document", [[], {}, "keys", {"keys": {}}, {"keys": None}, {"keys": []}], ids=str)
def test_the_last_good_keys_serve_where_a_key_set_has_none(
    issuer: FakeIssuer, verify: Verifier, clock: Clock, document: Any
) -> None:
    verify(issuer.token("ann"))
    issuer.key_set = document
    clock.now += REFRESH_SECONDS + 1
    verify.run(verify.issuer.keys.fetch())
    assert verify(issuer.token("ann"))


@pytest.mark.parametrize("part", [0, 1])
def test_a_token_of_nested_lists_is_refused(issuer: FakeIssuer, verify: Verifier, part: int) -> None:
    parts = issuer.token("ann").split(".")
    parts[part] = base64.urlsafe_b64encode(b"[" * 7_000).rstrip(b"=").decode()
    with pytest.raises(UnauthenticatedError):
        verify(".".join(parts))


@pytest.mark.parametrize("url", ["http://issuer.example.com", "ftp://issuer.example.com", "http://127.0.0.1.evil.com"])
def test_an_issuer_must_be_reached_by_https(url: str) -> None:
    with pytest.raises(ValueError, match="https"):
        Issuer(url, AUDIENCE, httpx2.AsyncClient())
