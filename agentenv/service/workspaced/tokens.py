"""Tokens for one sandbox: who may do what in which pod, for a minute."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import jwt

from agentenv.core.service.rbac import SIGNING_KEYS
from agentenv.service.kube.client import SECRETS, KubeApi
from agentenv.service.workspaced.keys import SigningKey, signing_key
from agentenv.service.workspaced.publish import keys_of

_LOG = logging.getLogger(__name__)
# workspaced accepts no longer ones.
LIFETIME = timedelta(seconds=60)
# How long the keys are not read again: shorter than a key is published before it signs.
_REREAD_SECONDS = 30.0


class NoSigningKeyError(Exception):
    """There is no key yet: no replica has led the loops so far."""


@dataclass(frozen=True)
class Grant:
    """What a token allows in a pod. A scope besides `control` needs the claim, which workspaced pins to the pod."""

    pod_uid: str
    scope: str
    claim_uid: str = ""
    session: str = ""
    caller: str = ""  # whose requests and connections workspaced limits


def sign_token(key: SigningKey, now: datetime, grant: Grant) -> str:
    """Return a token for a pod."""
    issued = int(now.timestamp())
    claims = {"aud": grant.pod_uid, "iat": issued, "exp": issued + int(LIFETIME.total_seconds()), "scope": grant.scope}
    optional = {"claim": grant.claim_uid, "sid": grant.session, "sub": grant.caller}
    claims |= {name: value for name, value in optional.items() if value}
    return jwt.encode(claims, key.private, algorithm="EdDSA", headers={"kid": key.id})


class TokenSigner:
    """Signs tokens with the current key of the Secret."""

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        now: Callable[[], datetime],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._namespace, self._now = api, namespace, now
        self._monotonic = monotonic
        self._keys: Sequence[SigningKey] = ()
        self._read = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def sign(self, grant: Grant) -> str:
        """Return a token for a pod; raise `NoSigningKeyError` where there is no key yet."""
        if self._monotonic() - self._read > _REREAD_SECONDS and self._reading is None:
            self._reading = asyncio.create_task(self._read_keys())
            self._reading.add_done_callback(self._end_read)
        if not self._keys and self._reading is not None:
            # Later reads run in the background: no token waits for an API server that hangs.
            await asyncio.shield(self._reading)
        now = self._now()
        key = signing_key(self._keys, now)
        if key is None:
            raise NoSigningKeyError("no signing key exists yet")
        return sign_token(key, now, grant)

    async def _read_keys(self) -> None:
        self._keys = keys_of(await self._api.find(SECRETS, SIGNING_KEYS, self._namespace))
        self._read = self._monotonic()

    def _end_read(self, task: asyncio.Task[None]) -> None:
        self._reading = None
        if not task.cancelled() and (failure := task.exception()) is not None:
            _LOG.warning("the signing keys cannot be read", extra={"facts": {"why": repr(failure)}})
