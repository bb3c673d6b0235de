"""Move a workspace to another class on the same data: delete it, and restore it in the other class.

From the first step on, the volume records the class that it moves to. So the retention loop completes an interrupted
move.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from agentenv.service.kube.client import Document, KubeApi
from agentenv.service.workspaces.delete import delete_workspace
from agentenv.service.workspaces.restore import RestoreResult
from agentenv.service.workspaces.retain_volume import retain_volume

# The retention of the data, should the restore in the other class fail.
RETAINED_WHILE_MOVING = timedelta(days=30)


async def start_class_change(api: KubeApi, claim: Document, to: str, now: datetime) -> RestoreResult:
    """Delete a workspace to restore it in another class; `made` once it is deleted."""
    name = claim["metadata"]["name"]
    retained = await retain_volume(api, claim)
    if retained.outcome not in {"kept", "already"}:
        outcome = "refused" if retained.outcome == "refused" else "waiting"
        return RestoreResult(outcome, name, retained.why or "its sandbox has no volume yet")
    deleted = await delete_workspace(api, claim, RETAINED_WHILE_MOVING, now, moving_to=to)
    return RestoreResult("made" if deleted == "done" else "overtaken", name)
