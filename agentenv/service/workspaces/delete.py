"""Delete workspaces and retain their data: first the volume records the deletion, then the claim is deleted.

After a kill in between, the workspace exists as before, and its volume records a deletion. The retention loop removes
that record after a while, unless the caller repeats the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

from agentenv.core.classes.names import USER_LABEL, WORKSPACE_LABEL
from agentenv.core.lifecycle.restore import RETURNING_LABEL, deletion_patch, home_name, shorten_retention_patch
from agentenv.core.values.object_fields import required, text
from agentenv.core.values.timestamps import parse_timestamp
from agentenv.core.workspaces.records import has_other_owner
from agentenv.core.workspaces.workspace import OWN_LABEL, RECORD
from agentenv.service.kube.client import CLAIMS, VOLUME_CLAIMS, VOLUMES, Document, KubeApi, section
from agentenv.service.workspaces.retain_volume import (
    audit_foreign_volume,
    owner_labels,
    read_home,
    sandbox_name,
    volume_of,
)

Outcome = Literal["done", "waiting", "overtaken"]


async def delete_workspace(
    api: KubeApi,
    claim: Document,
    keep_for: timedelta,
    now: datetime,
    *,
    moving_to: str | None = None,
    wait_for_volume: bool = True,
    policy: str = "Background",
) -> Outcome:
    """Delete the workspace of a claim; first record on its volume until when its data is retained.

    A sandbox without a volume may be about to get one: the outcome is `waiting`, unless `wait_for_volume` is False.
    With the propagation policy `Foreground` the claim exists until its sandbox is gone, and its state is `deleting`.
    """
    metadata = claim["metadata"]
    labels = owner_labels(claim)
    volume = volume_of(metadata["uid"], await read_home(api, metadata["namespace"], sandbox_name(claim)))
    if isinstance(volume, str):
        volume = await _reserved_volume(api, claim, labels)
        if volume is None and sandbox_name(claim) and wait_for_volume:
            return "waiting"
    if volume is not None and has_other_owner(volume, labels.get(USER_LABEL, "")):
        # The deletion dates on another owner's volume are about another workspace.
        audit_foreign_volume(volume, labels.get(USER_LABEL, ""), metadata["namespace"], metadata["name"])
        volume = None
    if volume is not None:
        created, deleting = parse_timestamp(metadata.get("creationTimestamp")), bool(metadata.get("deletionTimestamp"))
        dates, marks = deletion_patch(volume, created, now, keep_for, going=deleting, moving_to=moving_to)
        own = {key: value for key, value in section(metadata, "labels").items() if key.startswith(OWN_LABEL)}
        changes = {
            "metadata": {
                "labels": {**own, **labels, **marks},
                "annotations": {**_record(claim), **dates},
            },
            "spec": {"persistentVolumeReclaimPolicy": "Retain"},
        }
        if not await api.patch(VOLUMES, volume, changes):
            return "overtaken"
    if not await _delete_claim(api, claim, policy):
        return "overtaken"
    if not keep_for:
        await delete_reserved_claim(api, claim)
    return "done"


async def shorten_retention(api: KubeApi, volume: Document, keep_for: timedelta, now: datetime) -> Document | None:
    """Retain the data of a deleted workspace for less long, never for longer; None if the volume was changed meanwhile.

    A workspace that was moving to another class stays in its class, where later requests look for it.
    """
    annotations, marks = shorten_retention_patch(volume, now, keep_for)
    if not (annotations or marks):
        return volume
    return await api.patch(VOLUMES, volume, {"metadata": {"annotations": annotations, "labels": marks}})


async def _reserved_volume(api: KubeApi, claim: Document, owner: Mapping[str, str]) -> Document | None:
    """Return the volume of a restored workspace that has no sandbox yet: its volume claim names the volume."""
    name, namespace = claim["metadata"]["name"], claim["metadata"]["namespace"]
    volume_claim = await api.find(VOLUME_CLAIMS, home_name(name), namespace)
    volume_name = text(section(volume_claim, "spec"), "volumeName")
    volume = await api.find(VOLUMES, volume_name) if volume_name else None
    labels = section(section(volume, "metadata"), "labels")
    own = (labels.get(USER_LABEL), labels.get(WORKSPACE_LABEL)) == (owner.get(USER_LABEL), name)
    return volume if own else None


async def delete_reserved_claim(api: KubeApi, claim: Document) -> None:
    """Delete the volume claim of a restored workspace that has no sandbox yet, as nothing else would delete it."""
    metadata = claim["metadata"]
    volume_claim = await api.find(VOLUME_CLAIMS, home_name(metadata["name"]), metadata["namespace"])
    existing = section(volume_claim, "metadata")
    if volume_claim is None or existing.get("ownerReferences"):
        return
    if section(existing, "labels").get(RETURNING_LABEL) == "true":
        await api.delete(VOLUME_CLAIMS, volume_claim, any_version=True)


async def _delete_claim(api: KubeApi, claim: Document, policy: str) -> bool:
    """Delete a claim, however often its controller writes to it; return False where its record was changed."""
    metadata = claim["metadata"]
    while not await api.delete(CLAIMS, claim, policy=policy):
        current = await api.find(CLAIMS, metadata["name"], metadata["namespace"])
        if current is None or required(current, "metadata", "uid") != metadata["uid"]:
            return True
        if current["metadata"].get("deletionTimestamp"):
            return True
        if _record(current) != _record(claim):
            return False
        claim = current
    return True


def _record(claim: Document) -> dict[str, object]:
    """Return what of a claim is copied to its volume."""
    annotations = section(claim["metadata"], "annotations")
    return {key: annotations.get(key) for key in RECORD}
