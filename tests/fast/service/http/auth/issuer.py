"""A fake OpenID Connect issuer on loopback: it publishes its keys, and signs any token."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.stub_server import Request, Response, stub_server

AUDIENCE = "agent-environment"


class SigningKey:
    """A signing key of the issuer."""

    def __init__(self, name: str, algorithm: str = "ES256", bits: int = 2048) -> None:
        self.name, self.algorithm = name, algorithm
        is_rsa = algorithm[:2] in {"RS", "PS"}
        self.private: Any = rsa.generate_private_key(65537, bits) if is_rsa else ec.generate_private_key(ec.SECP256R1())

    @property
    def public(self) -> dict[str, Any]:
        """Return the public key as a JSON Web Key."""
        family = jwt.get_algorithm_by_name(self.algorithm)
        jwk: dict[str, Any] = json.loads(family.to_jwk(self.private.public_key()))
        jwk.pop("key_ops", None)
        return {**jwk, "kid": self.name, "use": "sig", "alg": self.algorithm}


class FakeIssuer:
    """An issuer that counts how often its keys are fetched."""

    def __init__(self) -> None:
        self.keys: list[SigningKey] = [SigningKey("first")]
        self.rows: list[Any] | None = None  # of the key set, instead of those of `keys`
        self.key_set: Any = None  # instead of one with these rows
        self.fetched = 0
        self.hung = threading.Event()
        self._released = threading.Event()
        self._released.set()
        self._serving = ExitStack()
        self.url = f"http://127.0.0.1:{self._serving.enter_context(stub_server(self._respond))}"

    def _respond(self, request: Request) -> Response:
        if not self._released.is_set():
            self.hung.set()
            self._released.wait(30)
        rows = [key.public for key in self.keys] if self.rows is None else self.rows
        documents: dict[str, Any] = {
            "/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
            "/keys": {"keys": rows} if self.key_set is None else self.key_set,
        }
        self.fetched += request.path == "/keys"
        return Response(200 if request.path in documents else 404, documents.get(request.path, {}))

    @contextmanager
    def hanging(self) -> Generator[None]:
        """Leave requests without a response for a while; `hung` is set once there was one."""
        self._released.clear()
        try:
            yield
        finally:
            self._released.set()

    def close(self) -> None:
        """Stop its server."""
        self._serving.close()

    def token(
        self, subject: str, *, key: SigningKey | None = None, header: Mapping[str, Any] | None = None, **claims: Any
    ) -> str:
        """Return a subject's token, valid for an hour unless claims say otherwise; None leaves a claim out."""
        now = int(time.time())
        defaults = {"iss": self.url, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + 3600}
        payload = {name: value for name, value in {**defaults, **claims}.items() if value is not None}
        signing = key or self.keys[0]
        return jwt.encode(payload, signing.private, signing.algorithm, {"kid": signing.name, **(header or {})})
