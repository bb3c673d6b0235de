"""Brings workspaces back and moves them, for whoever asks over the API: the steps of
`agentenv/service/workspaces/restore.py`, awaited.

What is still on its way out is waited for, a while; who is cut short or gives up finds it further on by asking again,
and what was begun is gone on with by the loop of retention.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from agentenv.core.classes.names import cold_pool
from agentenv.core.lifecycle.restore import MOVING_TO
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.core.workspaces.workspace import DELETED_AT, LAST_ACTIVE, Workspace
from agentenv.service.catalog import Class
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import CLAIMS, Document, KubeApi, section
from agentenv.service.workspaces import change_class as change_class_steps
from agentenv.service.workspaces.pool_selection import Choice
from agentenv.service.workspaces.restore import RestoreResult, restore_workspace, retained_volume
from agentenv.service.workspaces.restore_protocol import refuse_destroyed, restored_class

TIMEOUT_SECONDS = 60.0
PAUSE = 0.1


class WorkspaceRestorer:
    """Of one cluster."""

    def __init__(
        self,
        api: KubeApi,
        *,
        timeout: float = TIMEOUT_SECONDS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api, self._timeout, self._now = api, timeout, now

    async def restore(self, volume: Document, workspace: Workspace) -> Workspace:
        """The workspace of a volume that was kept, with a claim again."""
        # The volume itself is read again each time.
        return await self._restore_until(workspace.owner, workspace.id, None, restored_class(volume, workspace))

    async def change_class(self, claim: Document, to: Class) -> Workspace:
        """The workspace of a claim, of another class on the same data."""
        workspace = workspace_of_claim(claim)
        if workspace is None:
            raise Problem("refused", "the claim is nobody's", "make a workspace of your own")
        for _ in self._attempts():
            current = await self._api.find(CLAIMS, workspace.id, workspace.namespace)
            if (
                current is None
                or current["metadata"]["uid"] != workspace.claim_uid
                or current["metadata"].get("deletionTimestamp")
            ):
                break
            started = await change_class_steps.start_class_change(self._api, current, to.name, self._now())
            if started.outcome == "made":
                break
            self._raise_refusal(started)
            await asyncio.sleep(PAUSE)
        return await self._restore_until(workspace.owner, workspace.id, to.name, to.name)

    def choice(self, why: Literal["returned", "moved"]) -> Choice:
        """How such a start is told: no pool was chosen for it."""
        return Choice(cold_pool(""), why)

    async def _restore_until(self, owner: str, name: str, to: str | None, within: str) -> Workspace:
        last = RestoreResult("waiting", name, "it has not been looked for")
        for _ in self._attempts():
            last = await self._step(owner, name, to)
            if last.outcome in {"made", "there"}:
                claim = await self._api.find(CLAIMS, name, f"sandbox-{within}")
                workspace = workspace_of_claim(claim) if claim else None
                if workspace is not None:
                    return workspace
            self._raise_refusal(last)
            await asyncio.sleep(PAUSE)
        raise Problem("busy", last.why or "it is on its way", "ask again: it goes on from here", retry_after=5)

    async def _step(self, owner: str, name: str, to: str | None) -> RestoreResult:
        volume = await retained_volume(self._api, owner, name)
        if volume is None:
            return RestoreResult("refused", name, "its data is not there any more")
        refuse_destroyed(volume, name)
        annotations = section(volume["metadata"], "annotations")
        if to is not None and DELETED_AT in annotations and annotations.get(MOVING_TO) != to:
            # Two ways at once would end in two claims for the one volume.
            return RestoreResult("refused", name, "it was deleted, or sent to a third class, at the same time")
        return await restore_workspace(self._api, volume, to, shape=self._fresh, now=self._now)

    def _fresh(self, claim: Document) -> Document:
        """It was asked for now: it does not fall asleep again for what was before it was deleted."""
        notes = {**section(claim["metadata"], "annotations"), LAST_ACTIVE: format_timestamp(self._now())}
        claim["metadata"]["annotations"] = notes
        return claim

    def _raise_refusal(self, result: RestoreResult) -> None:
        if result.outcome == "refused":
            raise Problem("refused", result.why, "ask whoever operates the platform: what is kept is not touched")

    def _attempts(self) -> range:
        """So many tries as there is timeout for."""
        return range(max(int(self._timeout / PAUSE), 1))
