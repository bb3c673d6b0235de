"""Kubernetes service accounts: whether a token is one's, for us, and counts now; the API server says so.

It also knows whether the pod that a token was made for is still there. Its answer is kept for seconds, by a hash of the
token: a pod's token dies with it, and nobody is asked to wait for the API server at each of a hundred requests.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from agentenv.core.values.object_fields import text
from agentenv.service.http.auth.unauthenticated import UnauthenticatedError
from agentenv.service.kube.client import TOKEN_REVIEWS, Document, KubeClient, section

KEPT_SECONDS = 10.0
MOST_KEPT = 10_000
LONGEST = 16_384
_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True)
class Account:
    """A service account that a token is of."""

    namespace: str
    name: str

    @property
    def user(self) -> str:
        """Its user name."""
        return f"{_ACCOUNT}{self.namespace}:{self.name}"


class TokenReviewer:
    """Asks the API server about tokens."""

    def __init__(self, wire: KubeClient, audience: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._wire, self._audience, self._clock = wire, audience, clock
        self._kept: OrderedDict[bytes, tuple[float, Account | None]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[Account | None]] = {}

    def knows(self, token: str) -> bool:
        """Whether nobody has to be asked about a token."""
        kept = self._kept.get(_hash(token))
        return kept is not None and kept[0] >= self._clock()

    async def reviewed(self, token: str) -> Account:
        """The account of a token; `UnauthenticatedError` where it does not count."""
        if len(token) > LONGEST:
            raise UnauthenticatedError("the token is too long")
        key = _hash(token)
        kept = self._kept.get(key)
        if kept is None or kept[0] < self._clock():
            # However many requests come with it at once, it is asked about once.
            asking = self._asking.get(key)
            if asking is None:
                asking = self._asking[key] = asyncio.create_task(self._ask(token))
                asking.add_done_callback(lambda _: self._asking.pop(key, None))
            found = await asyncio.shield(asking)
            self._keep(key, found)
        else:
            found = kept[1]
        if found is None:
            raise UnauthenticatedError("the token is no service account's, or not for this service, or counts no more")
        return found

    async def _ask(self, token: str) -> Account | None:
        review: Document = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"token": token, "audiences": [self._audience]},
        }
        status = section(await self._wire.ask("POST", TOKEN_REVIEWS.path(), review), "status")
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

    def _keep(self, key: bytes, found: Account | None) -> None:
        self._kept[key] = (self._clock() + KEPT_SECONDS, found)
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
