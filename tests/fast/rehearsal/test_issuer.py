"""The issuer of a rehearsal is as strict as a real one, and offers both flows."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import jwt
import pytest

from agentenv.rehearsal.issuer import DEVICE_GRANT, RegisteredClient, RehearsalIssuer

BACK = "https://api.os.example.com/v1/sign-in/callback"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture
def issuer() -> Iterator[RehearsalIssuer]:
    clients = (RegisteredClient("console", "hush", frozenset({BACK})), RegisteredClient("agentenv"))
    with RehearsalIssuer(clients, groups={"bob": ("research",)}).running() as running:
        yield running


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    with httpx2.Client(trust_env=False) as client:
        yield client


def authorize(issuer: RehearsalIssuer, http: httpx2.Client, **changed: str) -> dict[str, str]:
    query = {
        "response_type": "code",
        "client_id": "console",
        "redirect_uri": BACK,
        "scope": "openid",
        "state": "s",
        "nonce": "n",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "login_hint": "bob",
    }
    response = http.get(f"{issuer.url}/authorize", params={**query, **changed})
    return dict(parse_qsl(urlsplit(response.headers.get("location", "")).query))


def exchange(issuer: RehearsalIssuer, http: httpx2.Client, code: str, **changed: str) -> Any:
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": BACK,
        "client_id": "console",
        "client_secret": "hush",
        "code_verifier": VERIFIER,
    }
    return http.post(f"{issuer.url}/token", data={**form, **changed}).json()


def claims(issuer: RehearsalIssuer, token: str, audience: str) -> dict[str, Any]:
    (key,) = jwt.PyJWKSet.from_dict(issuer.keys()).keys
    return jwt.decode(token, key.key, algorithms=["ES256"], audience=audience, issuer=issuer.url)


def test_code_is_exchanged_for_tokens_of_the_user(issuer: RehearsalIssuer, http: httpx2.Client) -> None:
    back = authorize(issuer, http)
    assert (back["state"], back["iss"]) == ("s", issuer.url)
    tokens = exchange(issuer, http, back["code"])
    identity = claims(issuer, tokens["id_token"], "console")
    assert (identity["sub"], identity["nonce"], identity["groups"]) == ("bob", "n", ["research"])
    assert claims(issuer, tokens["access_token"], "agent-environment")["sub"] == "bob"


@pytest.mark.parametrize(
    "changed",
    [
        {"redirect_uri": "https://evil.example"},
        {"code_verifier": "w" * 43},
        {"client_secret": "guess"},
        {"client_id": "agentenv"},
    ],
)
def test_a_code_is_for_one_client_challenge_and_address(
    issuer: RehearsalIssuer, http: httpx2.Client, changed: dict[str, str]
) -> None:
    assert "error" in exchange(issuer, http, authorize(issuer, http)["code"], **changed)
    assert "error" in exchange(issuer, http, "guess", **changed)


def test_a_code_is_used_once(issuer: RehearsalIssuer, http: httpx2.Client) -> None:
    code = authorize(issuer, http)["code"]
    assert "id_token" in exchange(issuer, http, code)
    assert exchange(issuer, http, code) == {"error": "invalid_grant"}


@pytest.mark.parametrize(
    "changed", [{"code_challenge_method": "plain"}, {"code_challenge": ""}, {"response_type": "token"}, {"scope": "x"}]
)
def test_a_request_without_pkce_gets_no_code(
    issuer: RehearsalIssuer, http: httpx2.Client, changed: dict[str, str]
) -> None:
    back = authorize(issuer, http, **changed)
    assert back["error"] == "invalid_request"
    assert "code" not in back


def test_unregistered_redirect_is_refused(issuer: RehearsalIssuer, http: httpx2.Client) -> None:
    assert authorize(issuer, http, redirect_uri="https://evil.example/") == {}
    assert authorize(issuer, http, client_id="unknown") == {}


def test_device_gets_tokens_after_approval(issuer: RehearsalIssuer, http: httpx2.Client) -> None:
    started = http.post(f"{issuer.url}/device_authorization", data={"client_id": "agentenv"}).json()
    form = {"grant_type": DEVICE_GRANT, "client_id": "agentenv", "device_code": started["device_code"]}
    assert http.post(f"{issuer.url}/token", data=form).json() == {"error": "authorization_pending"}
    assert http.get(started["verification_uri_complete"], params={"user": "bob"}).json() == {"error": "invalid_request"}
    page, code = started["verification_uri"], started["user_code"]
    assert http.get(page, params={"user_code": code, "user": "bob"}).json() == {"approved": "bob"}
    tokens = http.post(f"{issuer.url}/token", data=form).json()
    assert claims(issuer, tokens["access_token"], "agent-environment")["sub"] == "bob"
    assert http.post(f"{issuer.url}/token", data=form).json() == {"error": "invalid_grant"}
