"""Bind a retained volume to a new volume claim: the volume reserves the claim's name, and the claim names the volume.

Each step is a write that requires the version that was read. So it may be killed after any step, and repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal

from agentenv.core.lifecycle.restore import (
    DATES,
    MARKS,
    NOBODY,
    RETURNING_SINCE,
    UNDATED,
    being_destroyed,
    bind_patch,
    destroy_requested,
)
from agentenv.core.values.object_fields import required, text
from agentenv.core.values.timestamps import format_timestamp
from agentenv.service.kube.client import VOLUME_CLAIMS, VOLUMES, Document, KubeApi, section

Outcome = Literal["made", "there", "waiting", "overtaken", "refused"]
DESTROYED = "its data is being destroyed"
MAX_CONFLICTS = 10
_PARTS = ("annotations", "labels")


class RestoreError(Exception):
    """A restore that cannot continue now."""

    def __init__(self, outcome: Outcome, why: str) -> None:
        super().__init__(why)
        self.outcome: Outcome = outcome


async def reserve_volume(api: KubeApi, volume: Document, space: str, name: str, now: Callable[[], datetime]) -> None:
    """Reserve a retained volume for the volume claim of a name."""
    if section(volume, "metadata").get("deletionTimestamp") or being_destroyed(volume):
        raise RestoreError("refused", DESTROYED)
    ref = section(section(volume, "spec"), "claimRef")
    phase = text(section(volume, "status"), "phase")
    if phase == "Bound":
        # By its uid: an earlier claim of the name may be gone, and the volume about to be released.
        volume_claim = await api.find(VOLUME_CLAIMS, name, space)
        if volume_claim is not None and text(ref, "uid") == required(volume_claim, "metadata", "uid"):
            return
        raise RestoreError("waiting", f"{text(ref, 'namespace')}/{text(ref, 'name')} still uses its volume")
    if phase not in {"Released", "Available"}:
        raise RestoreError("waiting", f"its volume is {phase}")
    changes = bind_patch(volume, space, name)
    if changes:
        changes.setdefault("metadata", {})["annotations"] = {RETURNING_SINCE: format_timestamp(now())}
    if changes and not await api.patch(VOLUMES, volume, changes):
        raise RestoreError("overtaken", "its volume was changed at the same time")


async def reserved_volume(api: KubeApi, volume: Document) -> Document:
    """Return the volume after it was reserved, unless its destruction was requested meanwhile."""
    current = await api.find(VOLUMES, required(volume, "metadata", "name"))
    if current is None:
        raise RestoreError("refused", "its volume is gone")
    if destroy_requested(current):
        raise RestoreError("refused", DESTROYED)
    return current


async def create_bound_claim(api: KubeApi, volume: Document, document: Document) -> None:
    """Create the volume claim. It names the volume, so no other volume is bound to it."""
    metadata = document["metadata"]
    await api.create(VOLUME_CLAIMS, document)
    created = await api.find(VOLUME_CLAIMS, metadata["name"], metadata["namespace"])
    if text(section(created, "spec"), "volumeName") != required(volume, "metadata", "name"):
        raise RestoreError("overtaken", "another client created its volume claim")


async def clear_deletion_dates(api: KubeApi, deleted: Document) -> Document | None:
    """Remove the deletion dates that were read from a volume; return the volume if it has others by now.

    If this is killed, or has too many conflicts, the retention loop does it. Conflicts are likely here: the volume is
    being bound, and a controller of the cluster writes to it.
    """
    dates = deletion_dates(deleted)
    for _ in range(MAX_CONFLICTS):
        volume = await api.find(VOLUMES, required(deleted, "metadata", "name"))
        # Other dates are from another deletion or class change since.
        if volume is None or deletion_dates(volume) != dates:
            return volume
        changes = {**UNDATED, **_retained_again(volume)}
        metadata = section(volume, "metadata")
        has_marks = any(section(metadata, part).keys() & UNDATED["metadata"][part].keys() for part in _PARTS)
        if not (has_marks or len(changes) > 1) or await api.patch(VOLUMES, volume, changes):
            return None
    return None


def deletion_dates(volume: Document) -> Document:
    """Return the annotations and labels of a volume that are about its deletion."""
    metadata = section(volume, "metadata")
    texts = {**section(metadata, "labels"), **section(metadata, "annotations")}
    return {key: texts[key] for key in (*DATES, *MARKS) if key in texts}


def _retained_again(volume: Document) -> Document:
    """Return the change that retains a volume again that a pass released or deleted while it was being restored."""
    spec, changes = section(volume, "spec"), Document()
    if text(section(spec, "claimRef"), "uid") == NOBODY:
        changes["claimRef"] = {"uid": None}
    if text(spec, "persistentVolumeReclaimPolicy") != "Retain":
        changes["persistentVolumeReclaimPolicy"] = "Retain"
    return {"spec": changes} if changes else {}
