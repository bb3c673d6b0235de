"""Signing in at an issuer from a terminal: the code is shown, the tokens are awaited, and refreshed in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs

import pytest

from agentenv.cli.main import CommandError
from agentenv.cli.workspaces.device_flow import refreshed, sign_in
from agentenv.cli.workspaces.login_file import Login
from tests.stub_server import Request, Response, stub_server

SERVICE = "https://api.example.com"
TOKENS = {"access_token": "a.b.c", "refresh_token": "refresh-1", "expires_in": 3600}


@dataclass
class FakeIssuer:
    """An issuer whose answers to requests for tokens a test chooses."""

    url: str = ""
    answers: list[tuple[int, dict[str, Any]]] = field(default_factory=list[tuple[int, dict[str, Any]]])
    forms: list[dict[str, list[str]]] = field(default_factory=list[dict[str, list[str]]])
    has_device_flow: bool = True

    def answer(self, path: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        if path.endswith("openid-configuration"):
            device = {"device_authorization_endpoint": f"{self.url}/device"} if self.has_device_flow else {}
            return 200, {"token_endpoint": f"{self.url}/token", **device}
        self.forms.append(form)
        if path == "/device":
            page = {"verification_uri": f"{self.url}/enter", "user_code": "ABCD-EFGH"}
            return 200, {**page, "device_code": "device-1", "expires_in": 60, "interval": 1}
        return self.answers.pop(0)


@pytest.fixture
def issuer() -> Iterator[FakeIssuer]:
    fake = FakeIssuer()

    def respond(request: Request) -> Response:
        return Response(*fake.answer(request.path, parse_qs(request.body.decode())))

    with stub_server(respond) as port:
        fake.url = f"http://127.0.0.1:{port}"
        yield fake


def test_the_code_is_shown_and_the_tokens_are_awaited(issuer: FakeIssuer) -> None:
    pending, slower = (400, {"error": "authorization_pending"}), (400, {"error": "slow_down"})
    issuer.answers = [pending, slower, (200, TOKENS)]
    shown, slept = list[tuple[str, str]](), list[float]()
    login = sign_in(
        SERVICE,
        issuer.url,
        "cli",
        scopes="openid",
        show=lambda page, code: shown.append((page, code)),
        sleep=slept.append,
    )
    assert shown == [(f"{issuer.url}/enter", "ABCD-EFGH")]
    assert slept == [1, 1, 6]
    assert (login.service, login.token, login.refresh_token) == (SERVICE, "a.b.c", "refresh-1")
    assert issuer.forms[0] == {"client_id": ["cli"], "scope": ["openid"]}
    assert issuer.forms[-1]["device_code"] == ["device-1"]
    assert "a.b.c" not in repr(login)


@pytest.mark.parametrize("error", ["access_denied", "expired_token"])
def test_a_refused_sign_in_is_an_error(issuer: FakeIssuer, error: str) -> None:
    issuer.answers = [(400, {"error": error})]
    with pytest.raises(CommandError, match="the sign-in"):
        sign_in(SERVICE, issuer.url, "cli", scopes="openid", show=lambda *_: None, sleep=lambda _: None)


def test_an_issuer_without_the_flow_or_without_encryption_is_an_error(issuer: FakeIssuer) -> None:
    issuer.has_device_flow = False
    with pytest.raises(CommandError, match="has no device flow"):
        sign_in(SERVICE, issuer.url, "cli", scopes="openid", show=lambda *_: None)
    with pytest.raises(CommandError, match="is not encrypted"):
        sign_in(SERVICE, "http://login.example.com", "cli", scopes="openid", show=lambda *_: None)


def test_a_token_is_refreshed_before_it_expires(issuer: FakeIssuer) -> None:
    fresh = Login(SERVICE, "old", f"{issuer.url}/token", "cli", "refresh-1", expires=time.time() + 600)
    assert refreshed(fresh) == fresh
    issuer.answers = [(200, {**TOKENS, "access_token": "d.e.f", "refresh_token": "refresh-2"})]
    renewed = refreshed(replace(fresh, expires=time.time() + 5))
    assert (renewed.token, renewed.refresh_token) == ("d.e.f", "refresh-2")
    assert renewed.expires > time.time() + 600
    assert issuer.forms[-1]["refresh_token"] == ["refresh-1"]
    issuer.answers = [(400, {"error": "invalid_grant"})]
    with pytest.raises(CommandError, match="run `agentenv login` again"):
        refreshed(replace(fresh, expires=1.0))


def test_an_opaque_access_token_gives_way_to_the_id_token(issuer: FakeIssuer) -> None:
    issuer.answers = [(200, {**TOKENS, "access_token": "opaque", "id_token": "x.y.z"})]
    login = Login(SERVICE, "old", f"{issuer.url}/token", "cli", "refresh-1", expires=1.0)
    assert refreshed(login).token == "x.y.z"
