"""An issuer of tokens for the tests: it signs as a cluster's API server does, and publishes its keys."""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from agentenv.rehearsal.cloud.server import Cloud


def text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


class Signer:
    """One key of one issuer."""

    def __init__(self, issuer: str, kid: str = "first") -> None:
        self.issuer = issuer
        self.kid = kid
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def keys(self) -> list[dict[str, str]]:
        numbers = self._key.public_key().public_numbers()
        return [
            {
                "kty": "RSA",
                "use": "sig",
                "alg": "RS256",
                "kid": self.kid,
                "n": text(numbers.n.to_bytes(256)),
                "e": text(numbers.e.to_bytes(3)),
            }
        ]

    def publish(self, cloud: Cloud, method: str = "POST") -> Any:
        document = json.dumps({"issuer": self.issuer, "keys": self.keys}).encode()
        request = urllib.request.Request(f"{cloud.url}/_cloud/issuers", document, method=method)  # noqa: S310 -- loopback
        with urllib.request.urlopen(request) as answer:  # noqa: S310 -- loopback
            return json.load(answer)

    def token(self, account: str, audience: str, *, pod: str = "", **claims: Any) -> str:
        """A token of `namespace/name`."""
        space, _, name = account.partition("/")
        bound: dict[str, Any] = {"namespace": space, "serviceaccount": {"name": name, "uid": "u"}}
        if pod:
            bound["pod"] = {"name": pod, "uid": "p"}
        now = int(time.time())
        document = {
            "iss": self.issuer,
            "sub": f"system:serviceaccount:{space}:{name}",
            "aud": [audience],
            "iat": now,
            "nbf": now,
            "exp": now + 3600,
            "kubernetes.io": bound,
            **claims,
        }
        return self.signed(document)

    def signed(self, claims: dict[str, Any], alg: str = "RS256") -> str:
        header = {"alg": alg, "kid": self.kid}
        parts = ".".join(text(json.dumps(part).encode()) for part in (header, claims))
        return f"{parts}.{text(self._key.sign(parts.encode(), padding.PKCS1v15(), hashes.SHA256()))}"
