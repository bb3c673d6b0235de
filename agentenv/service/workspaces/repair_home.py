"""Puts a workspace back on its own home, where its sandbox was lost and upstream gave it another one.

What it has meanwhile is kept as well, as a deleted workspace of its owner's beside it: nobody can say that nothing was
done in it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from agentenv.core.classes.names import TASK_LABEL, WORKSPACE_LABEL
from agentenv.core.lifecycle.restore import MOVING_TO, destroy_requested
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import DELETED_AT, DESTROY_AFTER, RECORD
from agentenv.service.kube.sync_client import CLAIMS, VOLUMES, Document, KubeApi, section

# Its own home says so as long as it is on its way; it is not destroyed for being there.
RETAINED_WHILE_MOVING = timedelta(days=30)
LEFT = "-left"


def repair_home(api: KubeApi, claim: Document, has: str, home: str, now: datetime) -> bool:
    """Let a claim go, so that it is brought back on `home`; what it `has` is kept under another name."""
    about, notes = claim["metadata"], section(claim["metadata"], "annotations")
    own, other = api.find(VOLUMES, home), api.find(VOLUMES, has)
    if own is None or other is None or TASK_LABEL in section(about, "labels"):
        return False
    name = section(own["metadata"], "labels").get(WORKSPACE_LABEL, "")
    whole = own["spec"]["persistentVolumeReclaimPolicy"] == "Retain" and not own["metadata"].get("deletionTimestamp")
    if not whole or not name or destroy_requested(own) or section(own, "status").get("phase") != "Released":
        return False
    told = {key: notes[key] for key in RECORD if key in notes}
    told |= {DELETED_AT: format_timestamp(now), DESTROY_AFTER: format_timestamp(now + RETAINED_WHILE_MOVING)}
    # By this it is brought back, whoever does it.
    told[MOVING_TO] = str(about["namespace"]).removeprefix("sandbox-")
    left: Document = {"metadata": {"labels": {WORKSPACE_LABEL: f"{name}{LEFT}"}}}
    if other["spec"]["persistentVolumeReclaimPolicy"] != "Retain":
        left["spec"] = {"persistentVolumeReclaimPolicy": "Retain"}
    return (
        api.change(VOLUMES, own, {"metadata": {"annotations": told}})
        and api.change(VOLUMES, other, left)
        and api.remove(CLAIMS, claim)
    )
