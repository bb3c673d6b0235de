"""A fake OpenID Connect issuer on loopback: it publishes its keys, and signs any token."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

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
        issuer = self

        class Answering(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if not issuer._released.is_set():
                    issuer.hung.set()
                    issuer._released.wait(30)
                rows = [key.public for key in issuer.keys] if issuer.rows is None else issuer.rows
                documents: dict[str, Any] = {
                    "/.well-known/openid-configuration": {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"},
                    "/keys": {"keys": rows} if issuer.key_set is None else issuer.key_set,
                }
                issuer.fetched += self.path == "/keys"
                body = json.dumps(documents.get(self.path, {})).encode()
                self.send_response(200 if self.path in documents else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @contextmanager
    def hanging(self) -> Generator[None]:
        """Leave requests without a response for a while; `hung` is set once there was one."""
        self._released.clear()
        try:
            yield
        finally:
            self._released.set()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def token(
        self, subject: str, *, key: SigningKey | None = None, header: Mapping[str, Any] | None = None, **claims: Any
    ) -> str:
        """Return a subject's token, valid for an hour unless claims say otherwise; None leaves a claim out."""
        now = int(time.time())
        defaults = {"iss": self.url, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + 3600}
        payload = {name: value for name, value in {**defaults, **claims}.items() if value is not None}
        signing = key or self.keys[0]
        return jwt.encode(payload, signing.private, signing.algorithm, {"kid": signing.name, **(header or {})})
