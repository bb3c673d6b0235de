"""Admissions: the sessions of visitors in pods, their tokens, and their end when a right is revoked.

A session is a visitor at a door of a pod. workspaced ends what runs in a session that this replica ends, and refuses
its tokens: so a visitor whose right is back gets another session.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from agentenv.service.gateway.rights import Visitor
from agentenv.service.workspaced.client import Signer, WorkspacedError
from agentenv.service.workspaced.tokens import NoSigningKeyError
from agentenv.service.workspaces.backend_protocol import Endpoint

_LOG = logging.getLogger(__name__)
# workspaced accepts a token for a minute; one that is reused is valid for half of it at least.
REUSE_SECONDS = 25.0
# Within a minute a revoked right has ended what is open.
SWEEP_SECONDS = 15.0
MOST_SESSIONS = 50_000


class Sessions(Protocol):
    """Ends sessions in pods."""

    async def end_session(self, pod: Endpoint, session: str) -> None:
        """Cancel what runs in a session, and have its tokens refused."""
        ...


@dataclass(slots=True)
class Admission:
    """A visitor at a door of a pod."""

    workspace: str
    endpoint: Endpoint
    visitor: Visitor
    port: int
    right: str  # the scope of the right
    scope: str  # of the token, which may be narrower
    session: str = field(default_factory=lambda: secrets.token_hex(12))
    token: str = field(default="", repr=False)
    signed_at: float = float("-inf")


class Admissions:
    """The admissions of one replica, and the sessions that it ends."""

    # Whether a visitor still has the right, from memory; set by who decides about it.
    is_admitted: Callable[[Admission], bool]
    on_enter: Callable[[Admission], None]

    def __init__(
        self,
        signer: Signer,
        sessions: Sessions,
        *,
        endpoint: Callable[[str], Endpoint | None],
        monotonic: Callable[[], float],
    ) -> None:
        self._signer, self._sessions, self._endpoint = signer, sessions, endpoint
        self._monotonic = monotonic
        self._admissions: OrderedDict[tuple[str, str, str], Admission] = OrderedDict()
        self._others: dict[str, Admission] = {}  # of replicas before this one, by session
        self.is_admitted = lambda _: True
        self.on_enter = lambda _: None

    def adopt(self, admissions: Iterable[Admission]) -> None:
        """Take over the sessions that other replicas admitted, to end them when their rights end."""
        self._others |= {admission.session: admission for admission in admissions}

    async def token(self, admission: Admission) -> str:
        """Return a token for a visitor at a door of a pod, who keeps the session that the visitor has there."""
        visitor, key = admission.visitor, _key(admission)
        known = self._admissions.get(key)
        if known is not None and known.endpoint == admission.endpoint:
            admission = known
            admission.visitor = visitor
        else:
            self._admissions[key] = admission
            self.on_enter(admission)
            while len(self._admissions) > MOST_SESSIONS:
                self._admissions.popitem(last=False)
        self._admissions.move_to_end(key)
        if self._monotonic() - admission.signed_at > REUSE_SECONDS:
            signed_at = self._monotonic()
            admission.token = await self._signer.sign(
                pod_uid=admission.endpoint.pod_uid,
                scope=admission.scope,
                claim_uid=admission.endpoint.claim_uid,
                session=admission.session,
            )
            admission.signed_at = signed_at
        return admission.token

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.sweep()

    async def sweep(self) -> None:
        """End the sessions of visitors who have no right any more, and forget those of pods that are gone."""
        revoked: list[Admission] = []
        for admission in [*self._admissions.values(), *self._others.values()]:
            if self._endpoint(admission.workspace) != admission.endpoint:
                self._forget(admission)
            elif not self.is_admitted(admission):
                revoked.append(admission)
        await asyncio.gather(*(self._end(admission) for admission in revoked))

    async def _end(self, admission: Admission) -> None:
        try:
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
        self._others.pop(admission.session, None)


def _key(admission: Admission) -> tuple[str, str, str]:
    return admission.endpoint.pod_uid, admission.visitor.identity, admission.scope
