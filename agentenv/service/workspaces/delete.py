"""Takes a workspace away and keeps its data: first its volume is told all there is to know, then its claim goes.

Killed in between, the workspace stands as before and its volume says that it was deleted; the loop of retention takes
that back after a while, unless whoever asked has asked again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from agentenv.core.lifecycle.restore import deletion_patch
from agentenv.core.values.timestamps import parse_timestamp
from agentenv.core.workspaces.workspace import OWN_LABEL, RECORD
from agentenv.service.kube.client import CLAIMS, VOLUMES, Document, KubeApi, section
from agentenv.service.workspaces.retain_volume import retain_volume

Outcome = Literal["done", "waiting", "overtaken"]


async def delete_workspace(
    api: KubeApi, claim: Document, keep_for: timedelta, now: datetime, *, moving_to: str | None = None
) -> Outcome:
    """Take away the workspace of a claim, if the claim is still as it was read."""
    retained = await retain_volume(api, claim)
    if retained.foreign:
        # What somebody else's volume says is about their workspace.
        return await _delete_claim(api, claim)
    if retained.outcome in {"overtaken", "refused"}:
        return "overtaken"
    if retained.outcome == "waiting":
        # A sandbox without a volume may be one that is about to have it.
        has_sandbox = bool(section(section(claim, "status"), "sandbox").get("name"))
        return "waiting" if has_sandbox else await _delete_claim(api, claim)
    annotations = section(claim["metadata"], "annotations")
    metadata = claim["metadata"]
    volume = await api.find(VOLUMES, retained.volume)
    if volume is None:
        return "overtaken"
    created, deleting = parse_timestamp(metadata.get("creationTimestamp")), bool(metadata.get("deletionTimestamp"))
    dates, labels = deletion_patch(volume, created, now, keep_for, going=deleting, moving_to=moving_to)
    record: dict[str, str | None] = {**{key: annotations.get(key) for key in RECORD}, **dates}
    labels |= {key: value for key, value in section(metadata, "labels").items() if key.startswith(OWN_LABEL)}
    if not await api.patch(VOLUMES, volume, {"metadata": {"annotations": record, "labels": labels}}):
        return "overtaken"
    return await _delete_claim(api, claim)


async def _delete_claim(api: KubeApi, claim: Document) -> Outcome:
    """Its claim goes in whatever state: its controller writes to it all the time, and keeping has just marked it."""
    metadata = claim["metadata"]
    current = await api.find(CLAIMS, metadata["name"], metadata["namespace"])
    while current is not None and current["metadata"]["uid"] == metadata["uid"]:
        if current["metadata"].get("deletionTimestamp") or await api.delete(CLAIMS, current):
            return "done"
        current = await api.find(CLAIMS, metadata["name"], metadata["namespace"])
    return "done"
