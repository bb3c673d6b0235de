"""Retain the shared volumes of tasks as homes are retained: labelled, dated at their deletion, and restored.

A shared volume has labels of its owner and task, but none of a workspace, unlike the homes of the task.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from agentenv.core.classes.names import MODE_LABEL, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL
from agentenv.core.lifecycle.restore import RETURNING_SINCE, being_destroyed, deletion_patch, shared_volume_claim
from agentenv.core.values.object_fields import required, strings, text
from agentenv.core.values.timestamps import parse_timestamp
from agentenv.core.workspaces.records import has_other_owner
from agentenv.core.workspaces.workspace import DELETED_AT
from agentenv.service.kube.client import VOLUME_CLAIMS, VOLUMES, Document, KubeApi, collect, section
from agentenv.service.workspaces.bind_volume import (
    RestoreError,
    clear_deletion_dates,
    create_bound_claim,
    reserve_volume,
    reserved_volume,
)

ATTEMPTS = 10


async def of_task(api: KubeApi, owner: str, task: str) -> tuple[Document | None, dict[str, Document]]:
    """Return the retained shared volume of a task, and its retained homes by workspace: the latest of several."""
    shared: Document | None = None
    homes: dict[str, Document] = {}
    volumes = await collect(api.list(VOLUMES, labels={USER_LABEL: owner, TASK_LABEL: task}))
    for volume in sorted(volumes, key=_deleted_at):
        workspace = text(section(section(volume, "metadata"), "labels"), WORKSPACE_LABEL)
        if workspace:
            homes[workspace] = volume
        else:
            shared = volume
    return shared, homes


async def retain(api: KubeApi, volume_claim: Document, annotations: dict[str, str] | None = None) -> Document | None:
    """Retain the volume of a task's volume claim, labelled with its owner; None if it has none, or another owner's."""
    labels = strings(section(volume_claim, "metadata"), "labels")
    owner, task = labels.get(USER_LABEL), labels.get(TASK_LABEL)
    for _ in range(ATTEMPTS):
        volume = await _bound(api, volume_claim)
        if volume is None or not owner or not task or has_other_owner(volume, owner):
            return None
        metadata = section(volume, "metadata")
        missing_labels = {USER_LABEL: owner, TASK_LABEL: task, MODE_LABEL: "agent"}.items() - strings(
            metadata, "labels"
        ).items()
        missing_annotations = (annotations or {}).items() - strings(metadata, "annotations").items()
        changes: Document = {"metadata": {"labels": dict(missing_labels), "annotations": dict(missing_annotations)}}
        if not _retained(volume):
            changes["spec"] = {"persistentVolumeReclaimPolicy": "Retain"}
        if not (missing_labels or missing_annotations or "spec" in changes) or await api.patch(
            VOLUMES, volume, changes
        ):
            return volume
    return None


async def is_retained(api: KubeApi, volume_claim: Document) -> bool:
    """Return whether the volume of a task's volume claim outlives the claim."""
    volume = await _bound(api, volume_claim)
    return volume is not None and _retained(volume)


async def ensure(api: KubeApi, document: Document, now: Callable[[], datetime]) -> None:
    """Create the claim of a task's shared volume if it does not exist, on the retained volume if there is one."""
    metadata = document["metadata"]
    existing = await api.find(VOLUME_CLAIMS, metadata["name"], metadata["namespace"])
    labels = metadata["labels"]
    if existing is not None:
        existing_metadata = section(existing, "metadata")
        if section(existing_metadata, "labels").get(USER_LABEL) != labels[USER_LABEL]:
            raise RestoreError("refused", f"{metadata['name']} belongs to another owner")
        if existing_metadata.get("deletionTimestamp"):
            raise RestoreError("waiting", "the shared volume claim of its task is being deleted")
        return
    volume, _ = await of_task(api, labels[USER_LABEL], labels[TASK_LABEL])
    if volume is None or text(section(section(volume, "spec"), "claimRef"), "namespace") != metadata["namespace"]:
        await api.create(VOLUME_CLAIMS, document)
        return
    if being_destroyed(volume):
        raise RestoreError("waiting", "the shared volume of its task is being destroyed")
    await reserve_volume(api, volume, metadata["namespace"], metadata["name"], now)
    volume = await reserved_volume(api, volume)
    await create_bound_claim(api, volume, shared_volume_claim(document, volume))


async def mark_restored(api: KubeApi, document: Document) -> None:
    """Remove the deletion dates from a task's shared volume, whose claim exists again."""
    metadata = document["metadata"]
    volume_claim = await api.find(VOLUME_CLAIMS, metadata["name"], metadata["namespace"])
    volume = await _bound(api, volume_claim) if volume_claim else None
    if volume is not None and RETURNING_SINCE in section(section(volume, "metadata"), "annotations"):
        await clear_deletion_dates(api, volume)


async def delete_claim(api: KubeApi, volume_claim: Document, keep_for: timedelta | None, now: datetime) -> None:
    """Delete the claim of a task's shared volume: first retain the volume, and date it if `keep_for` is known.

    The retention loop dates a volume that has no dates. A claim that is already being deleted is left alone.
    """
    if section(volume_claim, "metadata").get("deletionTimestamp"):
        return
    name, space, uid = (required(volume_claim, "metadata", key) for key in ("name", "namespace", "uid"))
    created = parse_timestamp(section(volume_claim, "metadata").get("creationTimestamp"))
    for _ in range(ATTEMPTS):
        volume = await retain(api, volume_claim)
        if volume is None or keep_for is None:
            break
        current = await api.find(VOLUMES, required(volume, "metadata", "name"))
        if current is None:
            break
        annotations, labels = deletion_patch(current, created, now, keep_for)
        if await api.patch(VOLUMES, current, {"metadata": {"annotations": annotations, "labels": labels}}):
            break
    current = await api.find(VOLUME_CLAIMS, name, space)
    while current is not None and text(metadata := section(current, "metadata"), "uid") == uid:
        if metadata.get("deletionTimestamp") or await api.delete(VOLUME_CLAIMS, current):
            return
        current = await api.find(VOLUME_CLAIMS, name, space)


async def _bound(api: KubeApi, volume_claim: Document) -> Document | None:
    """Return the volume of a volume claim, checked by uid: an earlier claim may have had the same name."""
    name, uid = text(section(volume_claim, "spec"), "volumeName"), required(volume_claim, "metadata", "uid")
    volume = await api.find(VOLUMES, name) if name else None
    return volume if text(section(section(volume, "spec"), "claimRef"), "uid") == uid else None


def _retained(volume: Document) -> bool:
    return text(section(volume, "spec"), "persistentVolumeReclaimPolicy") == "Retain"


def _deleted_at(volume: Document) -> str:
    at = parse_timestamp(section(section(volume, "metadata"), "annotations").get(DELETED_AT))
    return at.isoformat() if at else ""
