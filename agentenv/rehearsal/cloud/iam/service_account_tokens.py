"""Service account tokens: parse them, and verify them with the keys of their issuer."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

# EKS signs with RS256; IAM accepts its longer variants too, and nothing else, especially not `none`.
_HASHES = {"RS256": hashes.SHA256(), "RS384": hashes.SHA384(), "RS512": hashes.SHA512()}


class InvalidToken(Exception):
    """The text is not a signed token with an issuer and a subject."""


@dataclass(frozen=True)
class Token:
    """A parsed token whose signature has not been verified."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    signed: bytes
    signature: bytes

    @classmethod
    def read(cls, text: str) -> Token:
        """Parse a token, or raise InvalidToken."""
        parts = text.split(".")
        if len(parts) != 3:
            raise InvalidToken("it has not three parts")
        try:
            header, claims = (json.loads(_decoded(part)) for part in parts[:2])
            signature = _decoded(parts[2])
        except (ValueError, binascii.Error) as error:
            raise InvalidToken(str(error)) from None
        if not isinstance(header, dict) or not isinstance(claims, dict):
            raise InvalidToken("its parts are no objects")
        token = cls(header, claims, f"{parts[0]}.{parts[1]}".encode(), signature)
        if not token.issuer or not token.subject or not isinstance(claims.get("exp"), int | float):
            raise InvalidToken("it has no issuer, subject or expiry")
        return token

    @property
    def issuer(self) -> str:
        """Return the issuer."""
        return _text(self.claims.get("iss"))

    @property
    def subject(self) -> str:
        """Return the subject."""
        return _text(self.claims.get("sub"))

    @property
    def audiences(self) -> list[str]:
        """Return the audiences."""
        value = self.claims.get("aud", [])
        return [audience for audience in (value if isinstance(value, list) else [value]) if isinstance(audience, str)]

    @property
    def bound(self) -> Mapping[str, Any]:
        """Return the namespace, service account and pod that the API server bound it to."""
        claim = self.claims.get("kubernetes.io")
        return claim if isinstance(claim, dict) else {}

    def expired(self, now: float | None = None) -> bool:
        """Return whether it has expired."""
        return (time.time() if now is None else now) >= self.claims["exp"]

    def premature(self, now: float | None = None, leeway: float = 60.0) -> bool:
        """Return whether it is not valid yet, by more than clocks differ."""
        begins = self.claims.get("nbf", self.claims.get("iat", 0))
        return (time.time() if now is None else now) + leeway < (begins if isinstance(begins, int | float) else 0)

    def signed_by(self, keys: Iterable[Mapping[str, Any]]) -> bool:
        """Return whether one of the issuer's published keys made the signature."""
        algorithm = _HASHES.get(_text(self.header.get("alg")))
        if algorithm is None:
            return False
        for key in keys:
            if key.get("kty") != "RSA" or key.get("kid") != self.header.get("kid"):
                continue
            try:
                public = rsa.RSAPublicNumbers(_number(key["e"]), _number(key["n"])).public_key()
                public.verify(self.signature, self.signed, padding.PKCS1v15(), algorithm)
            except (InvalidSignature, ValueError, KeyError):
                continue
            return True
        return False


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _number(text: str) -> int:
    return int.from_bytes(_decoded(text))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
