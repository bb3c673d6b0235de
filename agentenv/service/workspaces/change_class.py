"""Gives a workspace another class on the same data: it is let go of, and brought back in the other class.

From its first step on the volume says where it is going, so that whoever is killed in between is made up for by the
loop of retention.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from agentenv.service.kube.client import Document, KubeApi
from agentenv.service.workspaces.delete import delete_workspace
from agentenv.service.workspaces.restore import RestoreResult, restore_workspace, retained_volume
from agentenv.service.workspaces.retain_volume import retain_volume

# How long its data is kept at least, should it never arrive.
RETAINED_WHILE_MOVING = timedelta(days=30)


async def start_class_change(api: KubeApi, claim: Document, to: str, now: datetime) -> RestoreResult:
    """Let a workspace go, towards another class; `made` once it is on its way."""
    name = claim["metadata"]["name"]
    retained = await retain_volume(api, claim)
    if retained.outcome not in {"kept", "already"}:
        outcome = "refused" if retained.outcome == "refused" else "waiting"
        return RestoreResult(outcome, name, retained.why or "its sandbox has no volume yet")
    deleted = await delete_workspace(api, claim, RETAINED_WHILE_MOVING, now, moving_to=to)
    return RestoreResult("made" if deleted == "done" else "overtaken", name)


async def finish_class_change(api: KubeApi, owner: str, workspace: str, to: str) -> RestoreResult:
    """Bring it back in the other class, as soon as all that hung on it has let go of its volume."""
    volume = await retained_volume(api, owner, workspace)
    if volume is None:
        return RestoreResult("refused", workspace, "there is no volume of it")
    return await restore_workspace(api, volume, to)
