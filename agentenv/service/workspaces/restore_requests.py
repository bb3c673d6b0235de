"""Restore and move workspaces for requests of the API, by the steps of `agentenv/service/workspaces/restore.py`.

A request waits a while for objects that are being deleted. After a timeout or a kill, the next request continues, and
so does the retention loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from agentenv.core.lifecycle.restore import MOVING_TO
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.core.workspaces.workspace import DELETED_AT, LAST_ACTIVE, Workspace
from agentenv.service.catalog import Class
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import CLAIMS, VOLUMES, Document, KubeApi, section
from agentenv.service.workspaces import change_class as change_class_steps
from agentenv.service.workspaces.delete import delete_reserved_claim
from agentenv.service.workspaces.owner_limits import OwnerLimits
from agentenv.service.workspaces.restore import (
    RestoreResult,
    refuse_destroyed,
    restore_workspace,
    retained_volume,
    target_class,
)

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
        limits: OwnerLimits | None = None,
    ) -> None:
        self._api, self._timeout, self._now, self._limits = api, timeout, now, limits

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
        try:
            return await self._restore_until(workspace.owner, workspace.id, to.name, to.name)
        except Problem as problem:
            if problem.kind != "limit-reached":
                raise
            await self._return(workspace)
            raise

    async def _return(self, workspace: Workspace) -> None:
        """Restore a workspace in its former class, as it is one too many in the other."""
        for _ in self._attempts():
            volume = await retained_volume(self._api, workspace.owner, workspace.id)
            back: Document = {"metadata": {"annotations": {MOVING_TO: workspace.class_name}}}
            if volume is None or await self._api.patch(VOLUMES, volume, back) is not None:
                break
        of_class = workspace.class_name
        await self._restore_until(workspace.owner, workspace.id, of_class, of_class, limited=False)

    async def _restore_until(
        self, owner: str, name: str, to: str | None, within: str, *, limited: bool = True
    ) -> Workspace:
        last = RestoreResult("waiting", name, "it was not attempted")
        for _ in self._attempts():
            last = await self._step(owner, name, to, limited=limited)
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

    async def _step(self, owner: str, name: str, to: str | None, *, limited: bool) -> RestoreResult:
        volume = await retained_volume(self._api, owner, name)
        if volume is None:
            return RestoreResult("refused", name, "its data does not exist any more")
        refuse_destroyed(volume, name)
        annotations = section(volume["metadata"], "annotations")
        if to is not None and DELETED_AT in annotations and annotations.get(MOVING_TO) != to:
            # A restore and a move at the same time would create two claims for the one volume.
            return RestoreResult("refused", name, "it was deleted, or moved to a third class, at the same time")
        return await restore_workspace(
            self._api, volume, to, shape=self._fresh, now=self._now, admit=self._admit if limited else None
        )

    async def _admit(self, claim: Document) -> None:
        """Delete the claim again where it is one too many. Its volume claim would keep the volume bound."""
        if self._limits is not None:
            try:
                await self._limits.admit(claim)
            except Problem:
                await delete_reserved_claim(self._api, claim)
                raise

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
