"""The OpenID Connect issuer of a rehearsal: the code flow with PKCE for browsers, and the device flow for terminals.

Nobody types a password: `login_hint` says who signs in, and `user` who approves a device. All else is checked as a
strict issuer does: client, secret, redirect address, challenge, single use and expiry of codes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

CODE_SECONDS, DEVICE_SECONDS, TOKEN_SECONDS = 60, 600, 3600
POLL_SECONDS = 1
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_ALGORITHM = "ES256"
_SHUTDOWN_SECONDS = 0.05  # the server notices its end within this


@dataclass(frozen=True)
class RegisteredClient:
    """A client of the issuer. One without a secret is public, and has the device flow alone."""

    id: str
    secret: str | None = field(default=None, repr=False)
    redirects: frozenset[str] = frozenset()


@dataclass
class _Grant:
    client: str
    expires: float
    user: str | None = None  # None: nobody has approved it yet
    redirect: str = ""
    challenge: str = ""
    nonce: str | None = None


class _Refused(Exception):
    def __init__(self, error: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(error)
        self.error, self.status = error, status


@dataclass
class _Answer:
    document: Mapping[str, Any] = field(default_factory=dict[str, Any])
    location: str | None = None


class RehearsalIssuer:
    """An issuer on loopback, with its users' groups."""

    def __init__(
        self,
        clients: tuple[RegisteredClient, ...],
        *,
        audience: str = "agent-environment",
        groups: Mapping[str, tuple[str, ...]] | None = None,
        user: str = "alice",
        address: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        """`user` signs in where a request names nobody."""
        self._clients, self._audience, self._user = {client.id: client for client in clients}, audience, user
        self._groups = groups or {}
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._key_id = secrets.token_hex(4)
        self._codes: dict[str, _Grant] = {}
        self._devices: dict[str, _Grant] = {}
        self._user_codes: dict[str, str] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer((address, port), self._handler())
        self.url = f"http://{address}:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator[RehearsalIssuer]:
        """Serve while the context is open."""
        thread = threading.Thread(target=lambda: self._server.serve_forever(_SHUTDOWN_SECONDS), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def token(self, user: str, *, audience: str | None = None, **claims: Any) -> str:
        """Return a signed token of a user."""
        now = int(time.time())
        known: dict[str, Any] = {"iss": self.url, "sub": user, "aud": audience or self._audience, "iat": now}
        known |= {"exp": now + TOKEN_SECONDS, "groups": list(self._groups.get(user, ()))}
        return jwt.encode({**known, **claims}, self._key, algorithm=_ALGORITHM, headers={"kid": self._key_id})

    def discovery(self) -> dict[str, Any]:
        """Return the discovery document."""
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "device_authorization_endpoint": f"{self.url}/device_authorization",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [_ALGORITHM],
            "code_challenge_methods_supported": ["S256"],
            "grant_types_supported": ["authorization_code", DEVICE_GRANT],
        }

    def keys(self) -> dict[str, Any]:
        """Return the public keys."""
        jwk: dict[str, Any] = jwt.get_algorithm_by_name(_ALGORITHM).to_jwk(self._key.public_key(), as_dict=True)
        return {"keys": [{**jwk, "kid": self._key_id, "use": "sig", "alg": _ALGORITHM}]}

    def _get(self, path: str, query: Mapping[str, str]) -> _Answer:
        match path:
            case "/.well-known/openid-configuration":
                return _Answer(self.discovery())
            case "/keys":
                return _Answer(self.keys())
            case "/authorize":
                return self._authorize(query)
            case "/device":
                return self._approve(query)
            case _:
                raise _Refused("not_found", HTTPStatus.NOT_FOUND)

    def _post(self, path: str, form: Mapping[str, str], basic: tuple[str, str] | None) -> _Answer:
        client = self._client(form, basic)
        match path:
            case "/token" if form.get("grant_type") == "authorization_code":
                return _Answer(self._exchange(client, form))
            case "/token" if form.get("grant_type") == DEVICE_GRANT:
                return _Answer(self._poll(client, form))
            case "/token":
                raise _Refused("unsupported_grant_type")
            case "/device_authorization":
                return _Answer(self._start_device(client))
            case _:
                raise _Refused("not_found", HTTPStatus.NOT_FOUND)

    def _client(self, form: Mapping[str, str], basic: tuple[str, str] | None) -> RegisteredClient:
        id_, secret = basic or (form.get("client_id", ""), form.get("client_secret", ""))
        client = self._clients.get(id_)
        if client is None or (client.secret is not None and not hmac.compare_digest(secret, client.secret)):
            raise _Refused("invalid_client", HTTPStatus.UNAUTHORIZED)
        return client

    def _authorize(self, query: Mapping[str, str]) -> _Answer:
        client, redirect = self._clients.get(query.get("client_id", "")), query.get("redirect_uri", "")
        if client is None or redirect not in client.redirects:
            # Nobody is sent to an address that is not registered.
            raise _Refused("invalid_request")
        answer = {"state": query.get("state", ""), "iss": self.url}
        challenge = query.get("code_challenge", "")
        is_code = query.get("response_type") == "code" and "openid" in query.get("scope", "").split()
        if not is_code or query.get("code_challenge_method") != "S256" or len(challenge) != 43:
            answer["error"] = "invalid_request"
        else:
            user, nonce = query.get("login_hint") or self._user, query.get("nonce")
            grant = _Grant(client.id, time.monotonic() + CODE_SECONDS, user, redirect, challenge, nonce)
            answer["code"] = secrets.token_urlsafe(24)
            with self._lock:
                self._codes[answer["code"]] = grant
        joined = "&" if urlsplit(redirect).query else "?"
        return _Answer(location=f"{redirect}{joined}{urlencode(answer)}")

    def _exchange(self, client: RegisteredClient, form: Mapping[str, str]) -> dict[str, Any]:
        with self._lock:
            grant = self._codes.pop(form.get("code", ""), None)
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier).rstrip(b"=").decode()
        if (
            grant is None
            or grant.client != client.id
            or grant.expires < time.monotonic()
            or grant.redirect != form.get("redirect_uri")
            or not hmac.compare_digest(grant.challenge, challenge)
        ):
            raise _Refused("invalid_grant")
        return self._tokens(grant)

    def _start_device(self, client: RegisteredClient) -> dict[str, Any]:
        device, user_code = secrets.token_urlsafe(24), secrets.token_hex(4).upper()
        with self._lock:
            self._devices[device] = _Grant(client.id, time.monotonic() + DEVICE_SECONDS)
            self._user_codes[user_code] = device
        page = f"{self.url}/device"
        return {
            "device_code": device,
            "user_code": user_code,
            "verification_uri": page,
            "verification_uri_complete": f"{page}?user_code={user_code}",
            "expires_in": DEVICE_SECONDS,
            "interval": POLL_SECONDS,
        }

    def _approve(self, query: Mapping[str, str]) -> _Answer:
        with self._lock:
            device = self._user_codes.pop(query.get("user_code", ""), "")
            grant = self._devices.get(device)
            if grant is None:
                raise _Refused("invalid_request")
            grant.user = query.get("user") or self._user
        return _Answer({"approved": grant.user})

    def _poll(self, client: RegisteredClient, form: Mapping[str, str]) -> dict[str, Any]:
        device = form.get("device_code", "")
        with self._lock:
            grant = self._devices.get(device)
            if grant is None or grant.client != client.id:
                raise _Refused("invalid_grant")
            if grant.expires < time.monotonic():
                raise _Refused("expired_token")
            if grant.user is None:
                raise _Refused("authorization_pending")
            del self._devices[device]
        return self._tokens(grant)

    def _tokens(self, grant: _Grant) -> dict[str, Any]:
        user = grant.user or self._user
        nonce = {"nonce": grant.nonce} if grant.nonce is not None else {}
        return {
            "token_type": "Bearer",
            "expires_in": TOKEN_SECONDS,
            "access_token": self.token(user),
            "id_token": self.token(user, audience=grant.client, **nonce),
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                self._answer(lambda: issuer._get(parts.path, dict(parse_qsl(parts.query))))

            def do_POST(self) -> None:
                body = self.rfile.read(min(int(self.headers.get("Content-Length") or 0), 100_000)).decode()
                form = dict(parse_qsl(body))
                self._answer(lambda: issuer._post(urlsplit(self.path).path, form, self._basic()))

            def _basic(self) -> tuple[str, str] | None:
                kind, _, encoded = self.headers.get("Authorization", "").partition(" ")
                if kind.lower() != "basic":
                    return None
                id_, _, secret = base64.b64decode(encoded).decode().partition(":")
                return id_, secret

            def _answer(self, act: Any) -> None:
                try:
                    answer, status = act(), HTTPStatus.OK
                except _Refused as refusal:
                    answer, status = _Answer({"error": refusal.error}), refusal.status
                body = json.dumps(answer.document).encode()
                self.send_response(status if answer.location is None else HTTPStatus.FOUND)
                if answer.location is not None:
                    self.send_header("Location", answer.location)
                self.send_header("Content-Type", "application/json")
                self.send_header("Cache-Control", "no-store")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
                """Log nothing: queries hold codes."""

        return Handler
