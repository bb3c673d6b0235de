"""The public keys that tokens are verified with: fetched in the background, the last good ones serving meanwhile.

Only tokens that no cached key matches wait for a fetch, and a fetch ends at its deadline. So an issuer that hangs
stalls no token of a known key.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from agentenv.core.values.object_fields import Document, rows, text
from agentenv.service.http.problems import Problem

_LOG = logging.getLogger(__name__)
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {"RSA": ("RS", "PS"), "EC": ("ES",), "OKP": ("Ed",)}
REFRESH_SECONDS, EXPIRE_SECONDS = 300.0, 3600.0
# A failed fetch is repeated, and tokens that name unknown keys cause one, at most this often.
RETRY_SECONDS = 10.0
FETCH_SECONDS = 10.0
MAX_KEYS = 100
MIN_RSA_BITS = 2048


@dataclass(frozen=True)
class _Key:
    """A key, and the one algorithm it is restricted to, if any."""

    jwk: jwt.PyJWK
    family: str
    algorithm: str | None

    def supports(self, algorithm: str) -> bool:
        """Return whether the key may verify an algorithm: one of its family, and its own where it names one."""
        if self.algorithm not in {None, algorithm} or not algorithm.startswith(FAMILIES[self.family]):
            return False
        return not isinstance(self.jwk.key, RSAPublicKey) or self.jwk.key.key_size >= MIN_RSA_BITS


class KeySet:
    """The keys of one issuer."""

    def __init__(self, fetch: Callable[[], Awaitable[Document]], clock: Callable[[], float] = time.monotonic) -> None:
        """`fetch` returns a JSON Web Key Set."""
        self._read, self._clock = fetch, clock
        self._keys: dict[str, _Key] = {}
        self._fetched = self._tried = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """Fetch the keys again and again, until cancelled."""
        while True:
            await self.fetch()
            is_fresh = self._fetched >= self._tried
            await asyncio.sleep(REFRESH_SECONDS if is_fresh else RETRY_SECONDS)

    async def fetch(self) -> None:
        """Fetch the keys, or wait for the fetch in progress; the last good ones stay where it fails."""
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._replace())
            self._fetching.add_done_callback(self._end_fetch)
        await asyncio.shield(self._fetching)

    async def find(self, key_id: str, algorithm: str) -> jwt.PyJWK | None:
        """Return the key for a token's header; raise a `Problem` where there are no keys, or only expired ones."""
        key = self._find(key_id, algorithm)
        if key is None or self._is_older_than(EXPIRE_SECONDS):
            if self._fetching is not None or self._tried <= self._clock() - RETRY_SECONDS:
                await self.fetch()
            key = self._find(key_id, algorithm)
        if self._is_older_than(EXPIRE_SECONDS):
            raise Problem(
                "unavailable",
                "the keys of the tokens' issuer cannot be fetched",
                "retry in a few seconds; the platform team should check the issuer",
                retry_after=int(RETRY_SECONDS),
            )
        return key

    def _is_older_than(self, seconds: float) -> bool:
        return self._fetched < self._clock() - seconds

    def _find(self, key_id: str, algorithm: str) -> jwt.PyJWK | None:
        # A token without a key id is verified only where the issuer has a single key.
        key = self._keys.get(key_id) if key_id else next(iter(self._keys.values()), None)
        if key is None or (not key_id and len(self._keys) != 1):
            return None
        return key.jwk if key.supports(algorithm) else None

    def _end_fetch(self, _: asyncio.Task[None]) -> None:
        self._fetching = None

    async def _replace(self) -> None:
        self._tried = self._clock()
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                keys = keys_of(await self._read())
        except Exception as failure:  # noqa: BLE001 - whatever the issuer sends, the last good keys serve
            _LOG.warning("keys cannot be fetched", extra={"facts": {"why": repr(failure)}})
            return
        self._keys, self._fetched = keys, self._clock()


def keys_of(document: Document) -> dict[str, _Key]:
    """Return the usable keys of a JSON Web Key Set by id; raise `ValueError` where there is none."""
    keys: dict[str, _Key] = {}
    for row in rows(document, "keys")[:MAX_KEYS]:
        family, algorithm = text(row, "kty"), row.get("alg")
        if row.get("use", "sig") != "sig" or family not in FAMILIES or not isinstance(algorithm, str | None):
            continue
        try:
            keys[text(row, "kid")] = _Key(jwt.PyJWK(row), family, algorithm)
        except (jwt.PyJWTError, TypeError, ValueError, KeyError):
            continue
    if not keys:
        raise ValueError("the issuer publishes no usable key")
    return keys
