"""Review Kubernetes service account tokens by the API server.

It also checks that the token's pod still exists. The result is cached for seconds, by a hash of the token: a pod's
token ends with it, and not every request waits for the API server.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from agentenv.core.values.object_fields import text
from agentenv.service.http.problems import UnauthenticatedError
from agentenv.service.kube.client import KubeClient, section

CACHE_SECONDS = 10.0
MAX_CACHED = 10_000
MAX_TOKEN_LENGTH = 16_384
_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True)
class Account:
    """The service account of a token."""

    namespace: str
    name: str

    @property
    def user(self) -> str:
        """Return its Kubernetes user name."""
        return f"{_ACCOUNT}{self.namespace}:{self.name}"


class TokenReviewer:
    """Reviews tokens by the API server."""

    def __init__(self, kube: KubeClient, audience: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube, self._audience, self._clock = kube, audience, clock
        self._cache: OrderedDict[bytes, tuple[float, Account | None]] = OrderedDict()
        self._pending: dict[bytes, asyncio.Task[Account | None]] = {}

    def is_cached(self, token: str) -> bool:
        """Return whether a token's review is cached."""
        cached = self._cache.get(_hash(token))
        return cached is not None and cached[0] >= self._clock()

    async def review_token(self, token: str) -> Account:
        """Return the account of a token; raise `UnauthenticatedError` where it is invalid."""
        if len(token) > MAX_TOKEN_LENGTH:
            raise UnauthenticatedError("the token is too long")
        key = _hash(token)
        cached = self._cache.get(key)
        if cached is None or cached[0] < self._clock():
            # Concurrent requests with the same token share one review.
            pending = self._pending.get(key)
            if pending is None:
                pending = self._pending[key] = asyncio.create_task(self._review(token))
                pending.add_done_callback(lambda _: self._pending.pop(key, None))
            account = await asyncio.shield(pending)
            self._store(key, account)
        else:
            account = cached[1]
        if account is None:
            raise UnauthenticatedError(
                "the token is not of a service account, is not for this service, or is no longer valid"
            )
        return account

    async def _review(self, token: str) -> Account | None:
        status = await self._kube.review(token, self._audience)
        audiences: object = status.get("audiences")
        if (
            status.get("authenticated") is not True
            or not isinstance(audiences, list)
            or self._audience not in audiences
        ):
            return None
        user = text(section(status, "user"), "username")
        namespace, _, name = user.removeprefix(_ACCOUNT).partition(":")
        return Account(namespace, name) if user.startswith(_ACCOUNT) and namespace and name else None

    def _store(self, key: bytes, account: Account | None) -> None:
        self._cache[key] = (self._clock() + CACHE_SECONDS, account)
        self._cache.move_to_end(key)
        while len(self._cache) > MAX_CACHED:
            self._cache.popitem(last=False)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
