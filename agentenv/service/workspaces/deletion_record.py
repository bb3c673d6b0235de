"""What stands on the volume of a workspace that is taken away: whose it was, since when, and how long it is kept."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from agentenv.core.classes.names import USER_LABEL, WORKSPACE_LABEL
from agentenv.core.lifecycle.restore import RETURNING_LABEL, deletion_patch, home_name, shorten_retention_patch
from agentenv.core.values.object_fields import text
from agentenv.core.workspaces.records import workspace_of_volume
from agentenv.core.workspaces.workspace import OWN_LABEL, RECORD, Workspace
from agentenv.service.http.problems import Problem, not_found
from agentenv.service.kube.client import VOLUME_CLAIMS, VOLUMES, Document, KubeClient, section
from agentenv.service.workspaces.eager_retention import volume_of
from agentenv.service.workspaces.read import WorkspaceReader

ATTEMPTS = 8


class DeletionRecorder:
    """Marks volumes of workspaces that go."""

    def __init__(self, kube: KubeClient, reading: WorkspaceReader, *, now: Callable[[], datetime]) -> None:
        self._kube, self._reader, self._now = kube, reading, now

    async def record(self, workspace: Workspace, claim: Document, keep_for: timedelta) -> None:
        """Have its volume say until when it is kept, and all by which it can stand again."""
        now = self._now()
        own = {key: value for key, value in section(claim["metadata"], "labels").items() if key.startswith(OWN_LABEL)}
        annotations = section(claim["metadata"], "annotations")
        record = {key: value for key, value in annotations.items() if key in RECORD}
        deleting = workspace.state == "deleting"
        pod_labels = claim["spec"]["additionalPodMetadata"]["labels"]
        for _ in range(ATTEMPTS):
            volume = await volume_of(self._kube, workspace) or await self._reserved_volume(workspace)
            if volume is None:
                return
            dates, marks = deletion_patch(volume, workspace.created, now, keep_for, going=deleting)
            changes: dict[str, Any] = {
                "metadata": {"labels": {**own, **pod_labels, **marks}, "annotations": {**record, **dates}},
                "spec": {"persistentVolumeReclaimPolicy": "Retain"},
            }
            if await self._kube.patch(VOLUMES, volume, changes) is not None:
                return
        raise Problem(
            "busy", f"the volume of {workspace.id} is changed by others all the time", "ask again", retry_after=1
        )

    async def abandon(self, workspace: Workspace) -> None:
        """Delete the volume claim of one that returned and had no sandbox yet: nobody returns by that any more."""
        volume_claim = await self._kube.find(VOLUME_CLAIMS, home_name(workspace.id), workspace.namespace)
        metadata = section(volume_claim, "metadata")
        if volume_claim is None or metadata.get("ownerReferences"):
            return
        if section(metadata, "labels").get(RETURNING_LABEL) == "true":
            await self._kube.delete(VOLUME_CLAIMS, volume_claim, any_version=True)

    async def _reserved_volume(self, workspace: Workspace) -> Document | None:
        """The volume of one that returned and has no sandbox yet: its volume claim is there, and names it."""
        volume_claim = await self._kube.find(VOLUME_CLAIMS, home_name(workspace.id), workspace.namespace)
        volume_name = text(section(volume_claim, "spec"), "volumeName")
        volume = await self._kube.find(VOLUMES, volume_name) if volume_name else None
        labels = section(section(volume, "metadata"), "labels")
        own = (labels.get(USER_LABEL), labels.get(WORKSPACE_LABEL)) == (workspace.owner, workspace.id)
        return volume if own else None

    async def shorten(self, id_: str, keep_for: timedelta) -> Workspace:
        """A deleted one whose data is to be kept for less long; never for longer, by asking again.

        One that is on its way to another class stays where it is: it would be brought back there, whatever was asked.
        """
        for _ in range(ATTEMPTS):
            volume = await self._reader.volume(id_)
            workspace = workspace_of_volume(volume) if volume else None
            if volume is None or workspace is None:
                raise not_found("workspace")
            annotations, marks = shorten_retention_patch(volume, self._now(), keep_for)
            if not (annotations or marks):
                return workspace
            changes = {"metadata": {"annotations": annotations, "labels": marks}}
            merged = await self._kube.patch(VOLUMES, volume, changes)
            if merged is not None:
                return workspace_of_volume(merged) or workspace
        raise Problem("busy", f"the volume of {id_} is changed by others all the time", "ask again", retry_after=1)
