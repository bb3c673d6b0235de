"""Before a workspace is handed over its volume is made to stay: the same as
`agentenv.service.workspaces.retain_volume`, with as few calls as do.

A warm sandbox's volume stood before anybody claimed it, and its name is never given twice, so the view's row names it;
it is changed only if it still is what was seen. That is begun as soon as the sandbox is known to be the claim's, which
is before the claim is ready. A cold one has its claim's name, which may have had another volume a moment ago: there
everything is read. The mark on the claim follows later; whoever is killed before is made up for by the pass that keeps
all.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from agentenv.core.classes.names import HOME, MODE_LABEL, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL
from agentenv.core.values.object_fields import owner_uids, required, strings, text
from agentenv.core.workspaces.records import has_other_owner
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import SANDBOXES, VOLUME_CLAIMS, VOLUMES, Document, KubeClient, section
from agentenv.service.kube.view import ClusterView
from agentenv.service.workspaces.assigned_sandbox import SandboxAssignments
from agentenv.service.workspaces.retain_volume import FOREIGN_VOLUME, audit_foreign_volume

ATTEMPTS = 5
PAUSE = 0.1


async def retain_volume(kube: KubeClient, view: ClusterView, workspace: Workspace) -> str | None:
    """Have the volume of a workspace stay; its name, or None where it cannot be said yet which it is.

    One that says it is somebody else's is left as it is, and the workspace is refused.
    """
    if workspace.sandbox and workspace.sandbox != workspace.id:
        row = view.home_volume(workspace.namespace, f"{HOME}-{workspace.sandbox}")
        if row and row.bound:
            seen = {
                "metadata": {"name": row.name, "uid": row.uid, "resourceVersion": row.version, "labels": row.labels},
                "spec": {"persistentVolumeReclaimPolicy": "Retain" if row.retained else "Delete"},
            }
            changes = _changes(workspace, seen)
            is_foreign = has_other_owner(seen, workspace.owner)
            if not is_foreign and (not changes or await kube.patch(VOLUMES, seen, changes)):
                return row.name
    for attempt in range(ATTEMPTS):
        volume = await _bound_volume(kube, workspace)
        if volume is not None:
            if has_other_owner(volume, workspace.owner):
                audit_foreign_volume(volume, workspace.owner, workspace.namespace, workspace.id)
                raise Problem("refused", FOREIGN_VOLUME, "delete it and make it anew; tell whoever runs the platform")
            changes = _changes(workspace, volume)
            if not changes or await kube.patch(VOLUMES, volume, changes):
                return str(volume["metadata"]["name"])
        await asyncio.sleep(PAUSE * (attempt + 1))
    return None


class EagerVolumeRetention:
    """The volume of a claim's sandbox made to stay while the claim is still on its way to say which sandbox it has."""

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
        """For the claim of a workspace that was just made."""
        self._work = asyncio.create_task(self._retain(created))

    async def retained_volume(self, workspace: Workspace) -> str | None:
        """The volume, if it was begun with that of the sandbox that the workspace has."""
        if self._work is None or not self._sandbox or self._sandbox != workspace.sandbox:
            return None
        return await self._work

    async def _retain(self, created: Workspace) -> str | None:
        self._sandbox = await self._assignments.sandbox_for(created.claim_uid)
        return await retain_volume(self._kube, self._view, replace(created, sandbox=self._sandbox))


async def volume_of(kube: KubeClient, workspace: Workspace) -> Document | None:
    """The volume that a workspace's sandbox has as its home, as it is now; None where there is none of its own yet."""
    volume = await _bound_volume(kube, workspace)
    return None if volume is None or has_other_owner(volume, workspace.owner) else volume


async def _bound_volume(kube: KubeClient, workspace: Workspace) -> Document | None:
    if not workspace.sandbox:
        return None
    sandbox, volume_claim = await asyncio.gather(
        kube.find(SANDBOXES, workspace.sandbox, workspace.namespace),
        kube.find(VOLUME_CLAIMS, f"{HOME}-{workspace.sandbox}", workspace.namespace),
    )
    if volume_claim is None or workspace.claim_uid not in owner_uids(sandbox):
        return None
    bound = text(section(volume_claim, "spec"), "volumeName")
    volume = await kube.find(VOLUMES, bound) if bound else None
    uid = text(section(section(volume, "spec"), "claimRef"), "uid")
    if volume is None or uid != required(volume_claim, "metadata", "uid"):
        return None
    return volume


def _changes(workspace: Workspace, volume: Document) -> Document:
    labels = {USER_LABEL: workspace.owner, WORKSPACE_LABEL: workspace.id, MODE_LABEL: workspace.mode}
    if workspace.task:
        labels[TASK_LABEL] = workspace.task
    missing = labels.items() - strings(section(volume, "metadata"), "labels").items()
    changes: Document = {"metadata": {"labels": dict(missing)}} if missing else {}
    if section(volume, "spec").get("persistentVolumeReclaimPolicy") != "Retain":
        changes["spec"] = {"persistentVolumeReclaimPolicy": "Retain"}
    return changes
