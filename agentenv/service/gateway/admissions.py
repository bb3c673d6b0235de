"""Admissions: the sessions of visitors in pods, their tokens, and their end when a right is revoked.

A session is a visitor at a port of a pod. workspaced ends the processes of a session that this replica ends, and
refuses its tokens: a visitor with a new right gets another session. A session that leaves the memory of the replica is
ended, because its revocation would not be noticed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from agentenv.service.gateway.rights import Visitor
from agentenv.service.http.problems import Problem
from agentenv.service.workspaced.client import Signer, WorkspacedError
from agentenv.service.workspaced.tokens import Grant, NoSigningKeyError
from agentenv.service.workspaces.backend_protocol import Endpoint

_LOG = logging.getLogger(__name__)
# workspaced accepts a token for a minute; one that is reused is valid for half of it at least.
REUSE_SECONDS = 25.0
# Within a minute a revoked right has ended what is open.
SWEEP_SECONDS = 15.0
MOST_SESSIONS = 50_000
# Of a visitor in a pod. One that was not used for a while makes way, and what is open in it ends.
MOST_OPEN, UNUSED_SECONDS = 64, 600.0


ENDED_AT_ONCE = 32

_Key = tuple[str, str, str]  # the pod, the identity of the visitor, and the scope of the token


class Sessions(Protocol):
    """Ends sessions in pods."""

    async def end_session(self, pod: Endpoint, session: str) -> None:
        """Cancel what runs in a session, and have its tokens refused."""
        ...


@dataclass(slots=True)
class Admission:
    """A visitor at a port of a pod."""

    workspace: str
    endpoint: Endpoint
    visitor: Visitor
    port: int
    right: str  # the scope of the right
    scope: str  # of the token, which may be narrower
    session: str = field(default_factory=lambda: secrets.token_hex(12))
    token: str = field(default="", repr=False)
    signed_at: float = float("-inf")
    used_at: float = float("-inf")


class Admissions:
    """The admissions of one replica, and the sessions that it ends."""

    # From memory; set by who decides about it: whether a visitor still has the right, and whether the pod is gone.
    is_admitted: Callable[[Admission], bool]
    is_gone: Callable[[Admission], bool]
    on_enter: Callable[[Admission], None]

    def __init__(self, signer: Signer, sessions: Sessions, *, monotonic: Callable[[], float]) -> None:
        self._signer, self._sessions, self._monotonic = signer, sessions, monotonic
        self._admissions: OrderedDict[_Key, Admission] = OrderedDict()  # the one that was unused longest first
        self._of_visitor: dict[tuple[str, str], OrderedDict[_Key, None]] = {}  # of a visitor in a pod, in that order
        self._others: dict[str, Admission] = {}  # of other replicas, by session
        self._evicted: dict[str, Admission] = {}  # to be ended, by session
        self._has_evicted = asyncio.Event()
        self.is_admitted = lambda _: True
        self.is_gone = lambda _: False
        self.on_enter = lambda _: None

    def adopt(self, admissions: Iterable[Admission]) -> None:
        """Take over the sessions that other replicas admitted, to end them when their rights end."""
        for admission in admissions:
            own = self._admissions.get(_key(admission))
            if own is None or own.session != admission.session:
                self._others[admission.session] = admission
        while len(self._others) > MOST_SESSIONS:
            del self._others[next(iter(self._others))]

    async def token(self, admission: Admission) -> str:
        """Return a token for a visitor at a port of a pod, in the visitor's session there."""
        visitor, key, now = admission.visitor, _key(admission), self._monotonic()
        known = self._admissions.get(key)
        if known is not None and (known.endpoint, known.right) == (admission.endpoint, admission.right):
            admission = known
            admission.visitor = visitor
        else:
            if known is not None and known.endpoint == admission.endpoint:
                # Of another right, which has ended
                self._evict(known)
            self._add(key, admission, now)
        admission.used_at = now
        self._admissions.move_to_end(key)
        self._of_visitor[key[:2]].move_to_end(key)
        if now - admission.signed_at > REUSE_SECONDS:
            endpoint = admission.endpoint
            # workspaced belongs to its sandbox: it recognizes a visitor, and does not learn who that is.
            caller = hashlib.sha256(f"{endpoint.pod_uid} {visitor.identity}".encode()).hexdigest()[:32]
            admission.token = await self._signer.sign(
                Grant(endpoint.pod_uid, admission.scope, endpoint.claim_uid, admission.session, caller)
            )
            admission.signed_at = now
        return admission.token

    def _add(self, key: _Key, admission: Admission, now: float) -> None:
        keys = self._of_visitor.get(key[:2], OrderedDict())
        if len(keys) >= MOST_OPEN and key not in keys:
            oldest = self._admissions[next(iter(keys))]
            left = oldest.used_at + UNUSED_SECONDS - now
            if left > 0:
                detail = f"more than {MOST_OPEN} ports of a workspace at once"
                raise Problem("too-many-requests", detail, "use fewer ports", retry_after=math.ceil(left))
            self._evict(oldest)
        elif len(self._admissions) >= MOST_SESSIONS:
            self._evict(next(iter(self._admissions.values())))
        self._admissions[key] = admission
        self._of_visitor.setdefault((key[0], key[1]), OrderedDict())[key] = None
        self.on_enter(admission)

    def _evict(self, admission: Admission) -> None:
        self._forget(admission)
        self._evicted[admission.session] = admission
        self._has_evicted.set()

    async def run(self) -> None:
        """Sweep until cancelled; what made way is ended at once."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._has_evicted.wait(), SWEEP_SECONDS)
            self._has_evicted.clear()
            await self.sweep()

    async def sweep(self) -> None:
        """End the sessions of visitors who have no right any more, and forget those of pods that are gone."""
        ended: list[Admission] = []
        for admission in [*self._admissions.values(), *self._others.values(), *self._evicted.values()]:
            if self.is_gone(admission):
                self._forget(admission)
            elif admission.session in self._evicted or not self.is_admitted(admission):
                ended.append(admission)
        at_once = asyncio.Semaphore(ENDED_AT_ONCE)
        await asyncio.gather(*(self._end(admission, at_once) for admission in ended))

    async def _end(self, admission: Admission, at_once: asyncio.Semaphore) -> None:
        try:
            async with at_once:
                await self._sessions.end_session(admission.endpoint, admission.session)
        except (WorkspacedError, NoSigningKeyError) as failure:
            # The next sweep tries again.
            facts = {"workspace": admission.workspace, "why": str(failure)}
            _LOG.warning("a session in a pod was not ended", extra={"facts": facts})
            return
        self._forget(admission)
        _LOG.info("a session in a pod was ended", extra={"facts": {"workspace": admission.workspace}})

    def _forget(self, admission: Admission) -> None:
        key = _key(admission)
        if self._admissions.get(key) is admission:
            del self._admissions[key]
            keys = self._of_visitor[key[:2]]
            del keys[key]
            if not keys:
                del self._of_visitor[key[:2]]
        self._others.pop(admission.session, None)
        self._evicted.pop(admission.session, None)


def _key(admission: Admission) -> _Key:
    return admission.endpoint.pod_uid, admission.visitor.identity, admission.scope
