"""Count traffic as use of workspaces: one write a workspace and minute, by whichever replica saw it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from agentenv.core.workspaces.workspace import Changes, Workspace
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import KubeApiError

_LOG = logging.getLogger(__name__)
EVERY_SECONDS = 60.0
# A claim that says so much already is not written again.
RECENT = timedelta(seconds=50)
_AT_ONCE = 8

Update = Callable[[str, Changes], Awaitable[object]]


class Use:
    """The workspaces that were used since the last write."""

    def __init__(self, update: Update, cached: Callable[[str], Workspace | None], now: Callable[[], datetime]) -> None:
        self._update, self._cached, self._now = update, cached, now
        self._used: dict[str, str] = {}  # the uid of the claim by the workspace's id

    def note(self, workspace: Workspace) -> None:
        """Note that a workspace is used now."""
        self._used[workspace.id] = workspace.claim_uid

    async def run(self) -> None:
        """Write every minute until cancelled."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            await self.write()

    async def write(self) -> None:
        """Write what was used; a failure is logged, and the next traffic is written again."""
        used, self._used = self._used, {}
        at_once = asyncio.Semaphore(_AT_ONCE)

        async def record(id_: str, claim_uid: str) -> None:
            now, workspace = self._now(), self._cached(id_)
            if workspace is None or workspace.claim_uid != claim_uid or workspace.state != "running":
                return
            if workspace.last_active is not None and now - workspace.last_active < RECENT:
                # Another replica, or a request to the API, was quicker.
                return
            async with at_once:
                try:
                    await self._update(id_, Changes(last_active=now))
                except (Problem, KubeApiError) as failure:
                    facts = {"workspace": id_, "why": str(failure)}
                    _LOG.warning("the use of a workspace is not recorded", extra={"facts": facts})

        await asyncio.gather(*(record(id_, claim_uid) for id_, claim_uid in used.items()))
