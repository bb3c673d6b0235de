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
from agentenv.service.kube.sync_client import CLAIMS, VOLUMES, Document, KubeApi, section
from agentenv.service.workspaces.retain_volume import retain_volume

Outcome = Literal["done", "waiting", "overtaken"]


def delete_workspace(
    api: KubeApi, claim: Document, keep_for: timedelta, now: datetime, *, moving_to: str | None = None
) -> Outcome:
    """Take away the workspace of a claim, if the claim is still as it was read."""
    kept = retain_volume(api, claim)
    if kept.foreign:
        # What somebody else's volume says is about their workspace.
        return _delete_claim(api, claim)
    if kept.outcome in {"overtaken", "refused"}:
        return "overtaken"
    if kept.outcome == "waiting":
        # A sandbox without a volume may be one that is about to have it.
        return "waiting" if section(section(claim, "status"), "sandbox").get("name") else _delete_claim(api, claim)
    notes = section(claim["metadata"], "annotations")
    about = claim["metadata"]
    volume = api.find(VOLUMES, kept.volume)
    if volume is None:
        return "overtaken"
    created, going = parse_timestamp(about.get("creationTimestamp")), bool(about.get("deletionTimestamp"))
    dates, labels = deletion_patch(volume, created, now, keep_for, going=going, moving_to=moving_to)
    told: dict[str, str | None] = {**{key: notes.get(key) for key in RECORD}, **dates}
    labels |= {key: value for key, value in section(about, "labels").items() if key.startswith(OWN_LABEL)}
    if not api.change(VOLUMES, volume, {"metadata": {"annotations": told, "labels": labels}}):
        return "overtaken"
    return _delete_claim(api, claim)


def _delete_claim(api: KubeApi, claim: Document) -> Outcome:
    """Its claim goes in whatever state: its controller writes to it all the time, and keeping has just marked it."""
    about = claim["metadata"]
    now = api.find(CLAIMS, about["name"], about["namespace"])
    while now is not None and now["metadata"]["uid"] == about["uid"]:
        if now["metadata"].get("deletionTimestamp") or api.remove(CLAIMS, now):
            return "done"
        now = api.find(CLAIMS, about["name"], about["namespace"])
    return "done"
