"""Empty the home of a deleted workspace, in steps that may be killed and repeated.

The volume is reserved for a claim in the namespace of these Jobs, and labelled: that write requires the version that
the destruction was decided on, and nothing restores the workspace after it. Then the claim and the Job are created.
Once the Job is complete that is recorded, the volume's reclaim policy is set to Delete, and the Job and the claim are
deleted. The driver deletes the access point when the volume is released. Each step is derived from what exists.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from agentenv.core.lifecycle.restore import bind_patch
from agentenv.core.service.home_emptying import EMPTYING_LABEL, NAME, job, object_name, volume_claim
from agentenv.core.values.object_fields import required, rows, text
from agentenv.core.values.timestamps import parse_timestamp
from agentenv.service.kube.client import JOBS, VOLUME_CLAIMS, VOLUMES, Document, KubeApi, section

Step = Literal["wait", "step", "complete", "failed", "conflict"]
# A failed Job is kept for so long, for its log, and then replaced.
RETRY_AFTER = timedelta(hours=1)


async def reserve(api: KubeApi, volume: Document) -> bool:
    """Reserve a released volume for its Job; False if it was changed since it was read."""
    changes = bind_patch(volume, NAME, object_name(required(volume, "metadata", "name")))
    metadata = changes.setdefault("metadata", {})
    metadata["labels"] = {**section(metadata, "labels"), EMPTYING_LABEL: "true"}
    return await api.patch(VOLUMES, volume, changes) is not None


async def next_step(api: KubeApi, volume: Document, image: str, now: datetime) -> Step:
    """Do what is next for a volume that is being emptied; with `complete` its policy is to be set to Delete."""
    name = object_name(required(volume, "metadata", "name"))
    if text(section(volume, "spec"), "persistentVolumeReclaimPolicy") == "Delete":
        return "step" if await _clean_up(api, name) else "wait"
    latest = Document()
    for kind, document in ((VOLUME_CLAIMS, volume_claim(volume)), (JOBS, job(volume, image))):
        existing = await api.find(kind, name, NAME)
        latest = existing or latest
        if existing is None:
            return "step" if await api.create(kind, document) else "conflict"
    outcome, since = _ended(latest)
    if outcome == "Complete":
        return "complete"
    if outcome == "Failed" and (since is None or now - since >= RETRY_AFTER):
        return "step" if await api.delete(JOBS, latest) else "conflict"
    return "failed" if outcome else "wait"


async def _clean_up(api: KubeApi, name: str) -> bool:
    """Delete the Job and then the claim, which its pod still uses; return whether something was deleted."""
    for kind in (JOBS, VOLUME_CLAIMS):
        existing = await api.find(kind, name, NAME)
        if existing is not None:
            leaving = bool(section(existing, "metadata").get("deletionTimestamp"))
            return not leaving and await api.delete(kind, existing, any_version=True)
    return False


def _ended(existing: Document) -> tuple[str, datetime | None]:
    """Return whether a Job is Complete or Failed, and since when; an empty string while it runs."""
    for condition in rows(section(existing, "status"), "conditions"):
        if text(condition, "status") == "True" and text(condition, "type") in {"Complete", "Failed"}:
            return text(condition, "type"), parse_timestamp(condition.get("lastTransitionTime"))
    return "", None
