"""Sign in at an OIDC issuer from a terminal: the device authorization grant (RFC 8628)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx2

from agentenv.cli.main import CommandError
from agentenv.cli.workspaces.login_file import Login

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_TIMEOUT_SECONDS = 20.0
_INTERVAL_SECONDS = 5.0
_EARLY_SECONDS = 60.0  # a token is refreshed so long before it expires
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def sign_in(
    service: str,
    issuer: str,
    client_id: str,
    *,
    scopes: str,
    show: Callable[[str, str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> Login:
    """Return a login; `show` is called with the page to open and the code to enter there."""
    with httpx2.Client(timeout=_TIMEOUT_SECONDS) as http:
        metadata = _document(http.get(f"{_encrypted(issuer).rstrip('/')}/.well-known/openid-configuration"))
        if "device_authorization_endpoint" not in metadata:
            raise CommandError(f"{issuer} has no device flow; give an API key with --key-file instead")
        endpoint = _encrypted(str(metadata["token_endpoint"]))
        request = {"client_id": client_id, "scope": scopes}
        device = _document(http.post(_encrypted(str(metadata["device_authorization_endpoint"])), data=request))
        show(str(device.get("verification_uri_complete") or device["verification_uri"]), str(device["user_code"]))
        interval = float(device.get("interval", _INTERVAL_SECONDS))
        deadline = time.monotonic() + float(device["expires_in"])
        poll = {"grant_type": _GRANT, "device_code": str(device["device_code"]), "client_id": client_id}
        while time.monotonic() < deadline:
            sleep(interval)
            response = http.post(endpoint, data=poll)
            if response.is_success:
                return _with_tokens(Login(service, "", endpoint, client_id), _document(response))
            match _error(response):
                case "authorization_pending":
                    continue
                case "slow_down":
                    interval += _INTERVAL_SECONDS
                case "access_denied":
                    raise CommandError("the sign-in was denied")
                case error:
                    raise CommandError(f"the sign-in failed: {error}")
    raise CommandError("the code has expired; run `agentenv login` again")


def refreshed(login: Login) -> Login:
    """Return a login with a token that is valid for a while."""
    if not login.expires or login.expires > time.time() + _EARLY_SECONDS:
        return login
    if not login.refresh_token:
        raise CommandError("the login has expired; run `agentenv login` again")
    body = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "client_id": login.client_id}
    with httpx2.Client(timeout=_TIMEOUT_SECONDS) as http:
        response = http.post(login.token_endpoint, data=body)
    if not response.is_success:
        raise CommandError(f"the login cannot be renewed ({_error(response)}); run `agentenv login` again")
    return _with_tokens(login, _document(response))


def _with_tokens(login: Login, document: dict[str, Any]) -> Login:
    # The service verifies tokens whose audience is its own: the access token where it is a JWT, else the id token.
    access, identity = str(document.get("access_token", "")), str(document.get("id_token", ""))
    token = access if access.count(".") == 2 or not identity else identity
    return replace(
        login,
        token=token,
        refresh_token=str(document.get("refresh_token") or login.refresh_token),
        expires=time.time() + float(document.get("expires_in", 3600)),
    )


def _document(response: httpx2.Response) -> dict[str, Any]:
    try:
        document: Any = response.json()
    except ValueError:
        document = None
    if not response.is_success or not isinstance(document, dict):
        raise CommandError(f"{response.url.host} responded with status {response.status_code}: {_error(response)}")
    return document  # pyright: ignore[reportUnknownVariableType] - keys are str


def _error(response: httpx2.Response) -> str:
    try:
        return str(response.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"status {response.status_code}"


def _encrypted(url: str) -> str:
    parts = httpx2.URL(url)
    if parts.scheme != "https" and parts.host not in _LOOPBACK:
        raise CommandError(f"{url} is not encrypted; use https")
    return url
