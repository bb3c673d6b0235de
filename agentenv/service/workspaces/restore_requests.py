"""Restore and move workspaces for requests of the API, by the steps of `agentenv/service/workspaces/restore.py`.

A request waits a while for objects that are being deleted. After a timeout or a kill, the next request continues, and
so does the retention loop.
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
from agentenv.service.workspaces.restore import RestoreResult, restore_workspace, retained_volume, target_class
from agentenv.service.workspaces.restore_protocol import refuse_destroyed

TIMEOUT_SECONDS = 60.0
PAUSE = 0.1


class WorkspaceRestorer:
    """Restores and moves the workspaces of one cluster."""

    def __init__(
        self,
        api: KubeApi,
        *,
        timeout: float = TIMEOUT_SECONDS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api, self._timeout, self._now = api, timeout, now

    async def restore(self, volume: Document, workspace: Workspace) -> Workspace:
        """Return the restored workspace of a retained volume."""
        # Each step reads the volume again.
        return await self._restore_until(workspace.owner, workspace.id, None, target_class(volume))

    async def change_class(self, claim: Document, to: Class) -> Workspace:
        """Return the workspace of a claim after it was moved to another class on the same data."""
        workspace = workspace_of_claim(claim)
        if workspace is None:
            raise Problem("refused", "the claim has no owner", "create another workspace")
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
        """Return the reason for the cold start of a restore, which selects no pool."""
        return Choice(cold_pool(""), why)

    async def _restore_until(self, owner: str, name: str, to: str | None, within: str) -> Workspace:
        last = RestoreResult("waiting", name, "it was not attempted")
        for _ in self._attempts():
            last = await self._step(owner, name, to)
            if last.outcome in {"made", "there"}:
                claim = await self._api.find(CLAIMS, name, f"sandbox-{within}")
                workspace = workspace_of_claim(claim) if claim else None
                if workspace is not None:
                    return workspace
            self._raise_refusal(last)
            await asyncio.sleep(PAUSE)
        raise Problem(
            "busy", last.why or "it is being restored", "repeat the request: it continues from here", retry_after=5
        )

    async def _step(self, owner: str, name: str, to: str | None) -> RestoreResult:
        volume = await retained_volume(self._api, owner, name)
        if volume is None:
            return RestoreResult("refused", name, "its data does not exist any more")
        refuse_destroyed(volume, name)
        annotations = section(volume["metadata"], "annotations")
        if to is not None and DELETED_AT in annotations and annotations.get(MOVING_TO) != to:
            # A restore and a move at the same time would create two claims for the one volume.
            return RestoreResult("refused", name, "it was deleted, or moved to a third class, at the same time")
        return await restore_workspace(self._api, volume, to, shape=self._fresh, now=self._now)

    def _fresh(self, claim: Document) -> Document:
        """Set the time of the last activity to now, so that the claim is not suspended for its idle time before."""
        annotations = {**section(claim["metadata"], "annotations"), LAST_ACTIVE: format_timestamp(self._now())}
        claim["metadata"]["annotations"] = annotations
        return claim

    def _raise_refusal(self, result: RestoreResult) -> None:
        if result.outcome == "refused":
            raise Problem("refused", result.why, "ask the platform team: the retained data is not changed")

    def _attempts(self) -> range:
        """Return the attempts that fit into the timeout."""
        return range(max(int(self._timeout / PAUSE), 1))
