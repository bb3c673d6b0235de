"""Verify tokens of an OpenID Connect issuer: signature, audience and time.

The issuer's keys are cached. They are fetched again when they are old or a token names an unknown key, so that a
rotated key works at once and a withdrawn one is refused soon. Only the asymmetric algorithms listed here are accepted.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from agentenv.service.http.problems import Problem, UnauthenticatedError

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
TYPES: Final = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
MAX_TOKEN_LENGTH = 16_384
LEEWAY = 30
OLD_SECONDS, TOO_OLD_SECONDS = 300.0, 3600.0
# Tokens that name unknown keys cause at most one fetch in this time.
LOOK_AGAIN_SECONDS = 10.0
MAX_DOCUMENT_BYTES = 1_000_000
MIN_RSA_BITS = 2048
FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {"RSA": ("RS", "PS"), "EC": ("ES",), "OKP": ("Ed",)}


@dataclass(frozen=True)
class _Key:
    """A key of the issuer, and the one algorithm it is restricted to, if any."""

    jwk: jwt.PyJWK
    family: str
    algorithm: str | None

    def supports(self, algorithm: str) -> bool:
        """Return whether the key may verify an algorithm: one of its family, and its own where it names one."""
        if self.algorithm not in {None, algorithm} or not algorithm.startswith(FAMILIES[self.family]):
            return False
        return not isinstance(self.jwk.key, RSAPublicKey) or self.jwk.key.key_size >= MIN_RSA_BITS


class Issuer:
    """One issuer and its keys."""

    def __init__(
        self,
        url: str,
        audience: str,
        client: httpx2.AsyncClient,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        _require_https(url)
        self.url, self._audience, self._client, self._clock = url, audience, client, clock
        self._keys: dict[str, _Key] = {}
        self._fetched = self._tried = float("-inf")
        self._lock = asyncio.Lock()

    async def verify(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token; raise `UnauthenticatedError` with the reason where it is invalid."""
        if len(token) > MAX_TOKEN_LENGTH:
            raise UnauthenticatedError("the token is too long")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError:
            raise UnauthenticatedError("the token cannot be read") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise UnauthenticatedError("the token's algorithm is not accepted")
        if "crit" in header:
            raise UnauthenticatedError("the token has critical header parameters that are not supported")
        if str(header.get("typ") or "").lower() not in TYPES:
            raise UnauthenticatedError("the token is not an access token or a plain JWT")
        key = await self._key(key_id if isinstance(key_id, str) else "", str(algorithm))
        try:
            return jwt.decode(
                token,
                key.key,
                algorithms=[str(algorithm)],
                audience=self._audience,
                issuer=self.url,
                leeway=LEEWAY,
                options={"require": ["exp", "iat", "iss", "aud", "sub"], "verify_iat": True, "verify_nbf": True},
            )
        except jwt.ExpiredSignatureError:
            raise UnauthenticatedError("the token has expired") from None
        except jwt.ImmatureSignatureError:
            raise UnauthenticatedError("the token is not valid yet") from None
        except jwt.InvalidAudienceError:
            raise UnauthenticatedError("the token is for another audience") from None
        except jwt.InvalidIssuerError:
            raise UnauthenticatedError("the token is of another issuer") from None
        except jwt.InvalidSignatureError:
            raise UnauthenticatedError("the token's signature is invalid") from None
        except (jwt.InvalidTokenError, jwt.InvalidKeyError, TypeError, ValueError):
            raise UnauthenticatedError("the token's claims are missing or invalid") from None

    async def _key(self, key_id: str, algorithm: str) -> jwt.PyJWK:
        await self._refresh_keys(self._clock() - OLD_SECONDS)
        key = self._find_key(key_id, algorithm)
        if key is None:
            await self._refresh_keys(self._clock() - LOOK_AGAIN_SECONDS)
            key = self._find_key(key_id, algorithm)
        if key is None:
            raise UnauthenticatedError("no key of the issuer matches the token")
        return key

    def _find_key(self, key_id: str, algorithm: str) -> jwt.PyJWK | None:
        # A token without a key id is verified only where the issuer has a single key.
        key = self._keys.get(key_id) if key_id else next(iter(self._keys.values()), None)
        if key is None or (not key_id and len(self._keys) != 1):
            return None
        return key.jwk if key.supports(algorithm) else None

    async def _refresh_keys(self, moment: float) -> None:
        """Fetch the keys unless that was done, or tried, since a time."""
        if self._fetched >= moment:
            return
        async with self._lock:
            if self._fetched >= moment or self._tried > self._clock() - LOOK_AGAIN_SECONDS:
                self._refuse_too_old()
                return
            self._tried = self._clock()
            try:
                self._keys = await self._fetch()
                self._fetched = self._clock()
            except (httpx2.HTTPError, ValueError, KeyError, TypeError):
                # One that is away for a while is no reason to send everybody home.
                self._refuse_too_old()

    def _refuse_too_old(self) -> None:
        if self._fetched < self._clock() - TOO_OLD_SECONDS:
            raise Problem(
                "unavailable",
                "the issuer's keys cannot be had",
                "try again in a while; whoever runs the service looks at its issuer",
                retry_after=int(LOOK_AGAIN_SECONDS),
            )

    async def _fetch(self) -> dict[str, _Key]:
        discovery = await self._document(f"{self.url.rstrip('/')}/.well-known/openid-configuration")
        if discovery.get("issuer") != self.url:
            raise ValueError("the discovery document names another issuer")
        keys_url = str(discovery["jwks_uri"])
        _require_https(keys_url)
        rows = (await self._document(keys_url))["keys"]
        keys: dict[str, _Key] = {}
        for row in cast("list[dict[str, Any]]", rows)[:100]:
            if row.get("use", "sig") != "sig" or row.get("kty") not in FAMILIES:
                continue
            try:
                keys[str(row.get("kid") or "")] = _Key(jwt.PyJWK(row), str(row["kty"]), row.get("alg"))
            except (jwt.PyJWKError, jwt.InvalidKeyError):
                continue
        return keys

    async def _document(self, url: str) -> dict[str, Any]:
        async with self._client.stream("GET", url, timeout=5.0, follow_redirects=False) as response:
            response.raise_for_status()
            if response.status_code != 200:
                raise ValueError(f"the issuer responded with status {response.status_code}")
            body = b""
            async for part in response.aiter_bytes():
                body += part
                if len(body) > MAX_DOCUMENT_BYTES:
                    raise ValueError("the response is too large")
        return cast("dict[str, Any]", json.loads(body))


def _require_https(url: str) -> None:
    """Refuse plain HTTP except to loopback: an attacker on the network could replace the keys."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    try:
        is_loopback = parts.hostname == "localhost" or ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        is_loopback = False
    if parts.scheme != "http" or not is_loopback:
        raise ValueError(f"{url} is not an https URL")
