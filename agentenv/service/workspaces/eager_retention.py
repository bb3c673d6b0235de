"""Retain the volume of a workspace before its creation is answered, with as few requests as possible.

The protocol is that of `agentenv/service/workspaces/retain_volume.py`. A warm sandbox's volume existed before the
claim, so the cached row names it. The patch requires the cached version, and starts as soon as the sandbox has the
claim's uid, before the claim is ready. A cold sandbox has its claim's name, and an earlier sandbox of that name may
have had another volume: there everything is read from the API server. The annotation of the claim follows later. After
a kill before that, the loop that retains all volumes writes it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from agentenv.core.classes.names import HOME, MODE_LABEL, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import KubeClient
from agentenv.service.kube.view import ClusterView
from agentenv.service.workspaces.assigned_sandbox import SandboxAssignments
from agentenv.service.workspaces.retain_volume import (
    FOREIGN_VOLUME,
    audit_foreign_volume,
    read_home,
    retain_for,
    volume_of,
)

ATTEMPTS = 5
PAUSE = 0.1


async def retain_volume(kube: KubeClient, view: ClusterView, workspace: Workspace) -> str | None:
    """Retain the volume of a workspace and return its name, or None if it is not known yet.

    Another owner's volume is not changed, and a `Problem` is raised.
    """
    labels = {USER_LABEL: workspace.owner, WORKSPACE_LABEL: workspace.id, MODE_LABEL: workspace.mode}
    labels |= {TASK_LABEL: workspace.task} if workspace.task else {}
    if workspace.sandbox and workspace.sandbox != workspace.id:
        row = view.home_volume(workspace.namespace, f"{HOME}-{workspace.sandbox}")
        if row and row.bound:
            seen = {
                "metadata": {"name": row.name, "uid": row.uid, "resourceVersion": row.version, "labels": row.labels},
                "spec": {"persistentVolumeReclaimPolicy": "Retain" if row.retained else "Delete"},
            }
            if await retain_for(kube, labels, seen) in {"kept", "already"}:
                return row.name
    for attempt in range(ATTEMPTS):
        volume = volume_of(workspace.claim_uid, await read_home(kube, workspace.namespace, workspace.sandbox or ""))
        if not isinstance(volume, str):
            retained = await retain_for(kube, labels, volume)
            if retained == "foreign":
                audit_foreign_volume(volume, workspace.owner, workspace.namespace, workspace.id)
                fix = "delete the workspace and create it again, and report it to the platform team"
                raise Problem("refused", FOREIGN_VOLUME, fix)
            if retained != "overtaken":
                return str(volume["metadata"]["name"])
        await asyncio.sleep(PAUSE * (attempt + 1))
    return None


class EagerVolumeRetention:
    """Retain the volume of a claim's sandbox while the claim itself is not ready yet."""

    def __init__(self, kube: KubeClient, view: ClusterView, assignments: SandboxAssignments) -> None:
        self._kube, self._view, self._assignments = kube, view, assignments
        self._sandbox = ""
        self._work: asyncio.Task[str | None] | None = None

    async def __aenter__(self) -> EagerVolumeRetention:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    def start(self, created: Workspace) -> None:
        """Start for the claim of a workspace that was just created."""
        self._work = asyncio.create_task(self._retain(created))

    async def retained_volume(self, workspace: Workspace) -> str | None:
        """Return the volume that was retained early, if it belongs to the workspace's sandbox."""
        if self._work is None or not self._sandbox or self._sandbox != workspace.sandbox:
            return None
        return await self._work

    async def _retain(self, created: Workspace) -> str | None:
        self._sandbox = await self._assignments.sandbox_for(created.claim_uid)
        return await retain_volume(self._kube, self._view, replace(created, sandbox=self._sandbox))
