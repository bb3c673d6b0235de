"""Move a workspace back to its own home if its sandbox was lost and the controller gave it another one.

Files of the other home may be needed, too. It is retained as that of a deleted workspace of the same owner.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from agentenv.core.classes.names import TASK_LABEL, WORKSPACE_LABEL
from agentenv.core.lifecycle.restore import MOVING_TO, destroy_requested
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import DELETED_AT, DESTROY_AFTER, RECORD
from agentenv.service.kube.client import CLAIMS, VOLUMES, Document, KubeApi, section

# The home has deletion dates during the move, but a long retention, so that it is not destroyed meanwhile.
RETAINED_WHILE_MOVING = timedelta(days=30)
LEFT = "-left"


async def repair_home(api: KubeApi, claim: Document, has: str, home: str, now: datetime) -> bool:
    """Delete a claim to restore it on its volume `home`; its current volume `has` is retained under another name."""
    metadata, annotations = claim["metadata"], section(claim["metadata"], "annotations")
    home_volume, current_volume = await api.find(VOLUMES, home), await api.find(VOLUMES, has)
    if home_volume is None or current_volume is None or TASK_LABEL in section(metadata, "labels"):
        return False
    name = section(home_volume["metadata"], "labels").get(WORKSPACE_LABEL, "")
    intact = home_volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain" and not home_volume["metadata"].get(
        "deletionTimestamp"
    )
    if (
        not intact
        or not name
        or destroy_requested(home_volume)
        or section(home_volume, "status").get("phase") != "Released"
    ):
        return False
    record = {key: annotations[key] for key in RECORD if key in annotations}
    record |= {DELETED_AT: format_timestamp(now), DESTROY_AFTER: format_timestamp(now + RETAINED_WHILE_MOVING)}
    # By this annotation the retention loop restores it, if this is interrupted.
    record[MOVING_TO] = str(metadata["namespace"]).removeprefix("sandbox-")
    changes: Document = {"metadata": {"labels": {WORKSPACE_LABEL: f"{name}{LEFT}"}}}
    if current_volume["spec"]["persistentVolumeReclaimPolicy"] != "Retain":
        changes["spec"] = {"persistentVolumeReclaimPolicy": "Retain"}
    return (
        await api.patch(VOLUMES, home_volume, {"metadata": {"annotations": record}}) is not None
        and await api.patch(VOLUMES, current_volume, changes) is not None
        and await api.delete(CLAIMS, claim)
    )
