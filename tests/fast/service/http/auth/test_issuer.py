"""Tokens of an issuer: every way to forge, stretch or misuse one is refused, and rotation is seen at once."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2
import pytest

from agentenv.service.http.auth.issuer import LOOK_AGAIN_SECONDS, OLD_SECONDS, TOO_OLD_SECONDS, Issuer
from agentenv.service.http.problems import Problem, UnauthenticatedError
from tests.fast.service.http.auth.issuer import AUDIENCE, FakeIssuer, SigningKey


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def issuing() -> Iterator[FakeIssuer]:
    made = FakeIssuer()
    yield made
    made.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Asking:
    """The issuer under test, asked one token after the other."""

    def __init__(self, issuing: FakeIssuer, clock: Clock) -> None:
        self._issuing, self._clock = issuing, clock
        self._loop = asyncio.new_event_loop()
        self._client = httpx2.AsyncClient(trust_env=False)
        self._issuer = Issuer(issuing.url, AUDIENCE, self._client, clock)

    def __call__(self, token: str) -> Mapping[str, Any]:
        return self._loop.run_until_complete(self._issuer.verify(token))

    def close(self) -> None:
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()


@pytest.fixture
def verified(issuing: FakeIssuer, clock: Clock) -> Iterator[Asking]:
    made = Asking(issuing, clock)
    yield made
    made.close()


@pytest.mark.parametrize("algorithm", ["RS256", "PS384", "ES256"])
def test_a_token_of_the_issuer_counts(issuing: FakeIssuer, verified: Asking, algorithm: str) -> None:
    issuing.keys = [SigningKey("own", algorithm)]
    assert verified(issuing.token("ann"))["sub"] == "ann"


def _forged(issuing: FakeIssuer) -> dict[str, str]:
    now = int(time.time())
    stranger = SigningKey("first")
    good = issuing.token("ann")
    head, body, signature = good.split(".")
    claims = {"iss": issuing.url, "aud": AUDIENCE, "sub": "ann", "iat": now, "exp": now + 60}
    plain = json.dumps(claims).encode()

    def coded(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    es384 = json.dumps({"alg": "ES384", "kid": "first"}).encode()
    hs256 = coded(json.dumps({"alg": "HS256", "kid": "first"}).encode())
    public = json.dumps(issuing.keys[0].public).encode()
    by_public_key = hmac.digest(public, f"{hs256}.{coded(plain)}".encode(), "sha256")
    none = json.dumps({"alg": "none", "typ": "JWT"}).encode()
    other = coded(json.dumps({**claims, "sub": "bob"}).encode())
    return {
        "signed by somebody else under the key's name": issuing.token("ann", key=stranger),
        "with a body of another": f"{head}.{other}.{signature}",
        "with no signature": f"{head}.{body}.",
        "unsigned, and saying so": f"{coded(none)}.{coded(plain)}.",
        "signed with the public key as a secret": f"{hs256}.{coded(plain)}.{coded(by_public_key)}",
        "naming another algorithm than its key's": f"{coded(es384)}.{body}.{signature}",
        "bringing its own key": issuing.token("ann", key=stranger, header={"jwk": stranger.public, "kid": "mine"}),
        "leading to its own keys": issuing.token(
            "ann", key=stranger, header={"jku": "https://evil.example.com/keys", "kid": "mine"}
        ),
        "demanding what nobody understands": issuing.token("ann", header={"crit": ["b64"], "b64": False}),
        "of another kind": issuing.token("ann", header={"typ": "logout+jwt"}),
        "expired": issuing.token("ann", iat=now - 7200, exp=now - 3600),
        "not yet good": issuing.token("ann", nbf=now + 600),
        "from the future": issuing.token("ann", iat=now + 600),
        "for somebody else": issuing.token("ann", aud="another-service"),
        "for nobody": issuing.token("ann", aud=None),
        "of another issuer": issuing.token("ann", iss="https://evil.example.com"),
        "of an issuer with a like name": issuing.token("ann", iss=issuing.url + "/"),
        "without an end": issuing.token("ann", exp=None),
        "without a beginning": issuing.token("ann", iat=None),
        "of nobody": issuing.token("ann", sub=None),
        "with an end that is no time": issuing.token("ann", exp="soon"),
        "too long": issuing.token("ann", more="x" * 20_000),
        "no token": "opaque",
        "three dots": "..",
    }


def test_whatever_is_no_token_of_the_issuers_is_refused(issuing: FakeIssuer, verified: Asking) -> None:
    for what, token in _forged(issuing).items():
        with pytest.raises(UnauthenticatedError):
            pytest.fail(f"a token {what} counted: {verified(token)}")


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits")
def test_a_weak_key_counts_for_nothing(issuing: FakeIssuer, verified: Asking) -> None:
    issuing.keys = [SigningKey("weak", "RS256", bits=1024)]
    with pytest.raises(UnauthenticatedError):
        verified(issuing.token("ann"))


def test_a_new_key_is_good_at_once_and_a_withdrawn_one_refused_soon(
    issuing: FakeIssuer, verified: Asking, clock: Clock
) -> None:
    first, second = issuing.keys[0], SigningKey("second")
    assert verified(issuing.token("ann"))
    issuing.keys = [first, second]
    clock.now += LOOK_AGAIN_SECONDS + 1
    assert verified(issuing.token("ann", key=second))
    issuing.keys = [second]
    assert verified(issuing.token("ann", key=first)), "until its keys are looked at again"
    clock.now += OLD_SECONDS + 1
    with pytest.raises(UnauthenticatedError):
        verified(issuing.token("ann", key=first))


def test_made_up_names_of_keys_do_not_have_the_issuer_asked_each_time(
    issuing: FakeIssuer, verified: Asking, clock: Clock
) -> None:
    verified(issuing.token("ann"))
    fetched = issuing.fetched
    clock.now += LOOK_AGAIN_SECONDS + 1
    for number in range(50):
        with pytest.raises(UnauthenticatedError):
            verified(issuing.token("ann", key=SigningKey(f"made-up-{number}")))
    assert issuing.fetched == fetched + 1


def test_cached_keys_serve_while_the_issuer_is_down(issuing: FakeIssuer, verified: Asking, clock: Clock) -> None:
    token = issuing.token("ann")
    verified(token)
    issuing.close()
    clock.now += OLD_SECONDS + 1
    assert verified(token)
    clock.now += TOO_OLD_SECONDS
    with pytest.raises(Problem) as told:
        verified(token)
    assert told.value.kind == "unavailable"


@pytest.mark.parametrize("url", ["http://issuer.example.com", "ftp://issuer.example.com", "http://127.0.0.1.evil.com"])
def test_an_issuer_is_not_reached_in_clear(url: str) -> None:
    with pytest.raises(ValueError, match="https"):
        Issuer(url, AUDIENCE, httpx2.AsyncClient())
