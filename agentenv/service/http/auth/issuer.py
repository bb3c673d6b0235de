"""Tokens of an OpenID Connect issuer: whether one was signed by it, for us, and counts now.

The issuer says where its keys are; they are kept, and fetched again when they are old or when a token names one that is
not among them, so that a rotated key is good at once and a withdrawn one is refused soon. Only signatures by asymmetric
keys count, by algorithms that are listed here: what the token says of its algorithm chooses among them and no others.
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

from agentenv.service.http.auth.unauthenticated import UnauthenticatedError
from agentenv.service.http.problems import Problem

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
TYPES: Final = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
LONGEST = 16_384
LEEWAY = 30
OLD_SECONDS, TOO_OLD_SECONDS = 300.0, 3600.0
# An unknown key is looked for this often at the most, whoever sends tokens with made-up ones.
LOOK_AGAIN_SECONDS = 10.0
LARGEST_ANSWER = 1_000_000
FEWEST_RSA_BITS = 2048
FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {"RSA": ("RS", "PS"), "EC": ("ES",), "OKP": ("Ed",)}


@dataclass(frozen=True)
class _Key:
    """A key of the issuer, and the one algorithm that it is for, where it names one."""

    jwk: jwt.PyJWK
    family: str
    algorithm: str | None

    def suits(self, algorithm: str) -> bool:
        """Whether it is for an algorithm: of its family, and of its own one where it names one."""
        if self.algorithm not in {None, algorithm} or not algorithm.startswith(FAMILIES[self.family]):
            return False
        return not isinstance(self.jwk.key, RSAPublicKey) or self.jwk.key.key_size >= FEWEST_RSA_BITS


class Issuer:
    """One issuer and its keys."""

    def __init__(
        self,
        url: str,
        audience: str,
        client: httpx2.AsyncClient,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        _refuse_in_clear(url)
        self.url, self._audience, self._client, self._clock = url, audience, client, clock
        self._keys: dict[str, _Key] = {}
        self._fetched = self._tried = float("-inf")
        self._one_at_a_time = asyncio.Lock()

    async def verified(self, token: str) -> Mapping[str, Any]:
        """The claims of a token; `UnauthenticatedError` with the reason where it does not count."""
        if len(token) > LONGEST:
            raise UnauthenticatedError("the token is too long")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError:
            raise UnauthenticatedError("the token cannot be read") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise UnauthenticatedError("the token is not signed by an algorithm that counts here")
        if "crit" in header:
            raise UnauthenticatedError("the token demands what is not understood here")
        if str(header.get("typ") or "").lower() not in TYPES:
            raise UnauthenticatedError("the token is of another kind")
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
            raise UnauthenticatedError("the token is from the future") from None
        except jwt.InvalidAudienceError:
            raise UnauthenticatedError("the token is for somebody else") from None
        except jwt.InvalidIssuerError:
            raise UnauthenticatedError("the token is of another issuer") from None
        except jwt.InvalidSignatureError:
            raise UnauthenticatedError("the token's signature is wrong") from None
        except (jwt.InvalidTokenError, jwt.InvalidKeyError, TypeError, ValueError):
            raise UnauthenticatedError("the token is not as it has to be") from None

    async def _key(self, key_id: str, algorithm: str) -> jwt.PyJWK:
        await self._keys_by(self._clock() - OLD_SECONDS)
        found = self._among(key_id, algorithm)
        if found is None:
            await self._keys_by(self._clock() - LOOK_AGAIN_SECONDS)
            found = self._among(key_id, algorithm)
        if found is None:
            raise UnauthenticatedError("the token names no key of the issuer")
        return found

    def _among(self, key_id: str, algorithm: str) -> jwt.PyJWK | None:
        # Without a name only the one key that there is can be meant.
        found = self._keys.get(key_id) if key_id else next(iter(self._keys.values()), None)
        if found is None or (not key_id and len(self._keys) != 1):
            return None
        return found.jwk if found.suits(algorithm) else None

    async def _keys_by(self, moment: float) -> None:
        """Have keys that were fetched, or looked for, no longer ago than that."""
        if self._fetched >= moment:
            return
        async with self._one_at_a_time:
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
        about = await self._document(f"{self.url.rstrip('/')}/.well-known/openid-configuration")
        if about.get("issuer") != self.url:
            raise ValueError("the issuer calls itself by another name")
        where = str(about["jwks_uri"])
        _refuse_in_clear(where)
        rows = (await self._document(where))["keys"]
        found: dict[str, _Key] = {}
        for row in cast("list[dict[str, Any]]", rows)[:100]:
            if row.get("use", "sig") != "sig" or row.get("kty") not in FAMILIES:
                continue
            try:
                found[str(row.get("kid") or "")] = _Key(jwt.PyJWK(row), str(row["kty"]), row.get("alg"))
            except (jwt.PyJWKError, jwt.InvalidKeyError):
                continue
        return found

    async def _document(self, url: str) -> dict[str, Any]:
        async with self._client.stream("GET", url, timeout=5.0, follow_redirects=False) as answer:
            answer.raise_for_status()
            if answer.status_code != 200:
                raise ValueError(f"{answer.status_code} is no document")
            read = b""
            async for part in answer.aiter_bytes():
                read += part
                if len(read) > LARGEST_ANSWER:
                    raise ValueError("the answer is too large")
        return cast("dict[str, Any]", json.loads(read))


def _refuse_in_clear(url: str) -> None:
    """Whoever can change an answer on its way chooses the keys: only this machine itself is asked in clear."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    try:
        here = parts.hostname == "localhost" or ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        here = False
    if parts.scheme != "http" or not here:
        raise ValueError(f"{url} is not reached by https")
