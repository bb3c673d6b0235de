"""Makes a kept volume somebody's again: it waits for the volume claim of a name, and that claim names the volume.

Each step is a change of what was read, of that version only, so it may be killed after any of them and asked for again.
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
    """Why a return goes no further just now."""

    def __init__(self, outcome: Outcome, why: str) -> None:
        super().__init__(why)
        self.outcome: Outcome = outcome


async def reserve_volume(api: KubeApi, volume: Document, space: str, name: str, now: Callable[[], datetime]) -> None:
    """Have a kept volume wait for the volume claim of a name."""
    if section(volume, "metadata").get("deletionTimestamp") or being_destroyed(volume):
        raise RestoreError("refused", DESTROYED)
    ref = section(section(volume, "spec"), "claimRef")
    phase = text(section(volume, "status"), "phase")
    if phase == "Bound":
        # By its uid: an earlier claim of the name may be gone, and the volume about to be released.
        volume_claim = await api.find(VOLUME_CLAIMS, name, space)
        if volume_claim is not None and text(ref, "uid") == required(volume_claim, "metadata", "uid"):
            return
        raise RestoreError("waiting", f"{text(ref, 'namespace')}/{text(ref, 'name')} still has its volume")
    if phase not in {"Released", "Available"}:
        raise RestoreError("waiting", f"its volume is {phase}")
    changes = bind_patch(volume, space, name)
    if changes:
        changes.setdefault("metadata", {})["annotations"] = {RETURNING_SINCE: format_timestamp(now())}
    if changes and not await api.patch(VOLUMES, volume, changes):
        raise RestoreError("overtaken", "its volume was changed at the same time")


async def reserved_volume(api: KubeApi, volume: Document) -> Document:
    """Return the volume as it is once it was led, unless its destruction was requested meanwhile."""
    current = await api.find(VOLUMES, required(volume, "metadata", "name"))
    if current is None:
        raise RestoreError("refused", "its volume is gone")
    if destroy_requested(current):
        raise RestoreError("refused", DESTROYED)
    return current


async def create_bound_claim(api: KubeApi, volume: Document, document: Document) -> None:
    """Create the volume claim, which names the volume and so never gets another."""
    metadata = document["metadata"]
    await api.create(VOLUME_CLAIMS, document)
    created = await api.find(VOLUME_CLAIMS, metadata["name"], metadata["namespace"])
    if text(section(created, "spec"), "volumeName") != required(volume, "metadata", "name"):
        raise RestoreError("overtaken", "its volume claim was made by somebody else")


async def clear_deletion_dates(api: KubeApi, deleted: Document) -> Document | None:
    """Take the dates of a deletion off a volume, if they are still those that were `read`; else return what it is now.

    Whoever is killed before this is made up for by the loop of retention. So is one that is overtaken too often: just
    now its volume is bound, and the API server's controller writes it.
    """
    dates = deletion_dates(deleted)
    for _ in range(MAX_CONFLICTS):
        volume = await api.find(VOLUMES, required(deleted, "metadata", "name"))
        # Other dates than were read are of somebody who has deleted or moved it since.
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
    """Return the change that keeps a volume which a pass gave up, as it did not see that somebody was returning."""
    spec, changes = section(volume, "spec"), Document()
    if text(section(spec, "claimRef"), "uid") == NOBODY:
        changes["claimRef"] = {"uid": None}
    if text(spec, "persistentVolumeReclaimPolicy") != "Retain":
        changes["persistentVolumeReclaimPolicy"] = "Retain"
    return {"spec": changes} if changes else {}
