"""Before a workspace is handed over its volume is made to stay: the same as `service.keeping`, with as few calls as do.

A warm sandbox's volume stood before anybody claimed it, and its name is never given twice, so the view's row names it;
it is changed only if it still is what was seen. A cold one has its claim's name, which may have had another volume a
moment ago: there everything is read. The mark on the claim follows later; whoever is killed before is made up for by
the pass that keeps all.
"""

from __future__ import annotations

import asyncio

from model.classes.names import HOME, MODE_LABEL, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL
from model.workspaces import Workspace
from service.backend.view import View
from service.backend.wire import SANDBOXES, VOLUME_CLAIMS, VOLUMES, Document, Wire, section

ATTEMPTS = 5
PAUSE = 0.1


async def keep(wire: Wire, view: View, workspace: Workspace) -> str | None:
    """Have the volume of a workspace stay; its name, or None where it cannot be said yet which it is."""
    if workspace.sandbox and workspace.sandbox != workspace.id:
        row = view.home(workspace.namespace, f"{HOME}-{workspace.sandbox}")
        if row and row.bound:
            read = {
                "metadata": {"name": row.name, "uid": row.uid, "resourceVersion": row.version, "labels": row.labels},
                "spec": {"persistentVolumeReclaimPolicy": "Retain" if row.retained else "Delete"},
            }
            changes = _changes(workspace, read)
            if not changes or await wire.merge(VOLUMES, read, changes):
                return row.name
    for attempt in range(ATTEMPTS):
        volume = await volume_of(wire, workspace)
        if volume is not None:
            changes = _changes(workspace, volume)
            if not changes or await wire.merge(VOLUMES, volume, changes):
                return str(volume["metadata"]["name"])
        await asyncio.sleep(PAUSE * (attempt + 1))
    return None


async def volume_of(wire: Wire, workspace: Workspace) -> Document | None:
    """The volume that a workspace's sandbox has as its home, as it is now; None where there is none yet."""
    if not workspace.sandbox:
        return None
    sandbox, volume_claim = await asyncio.gather(
        wire.find(SANDBOXES, workspace.sandbox, workspace.namespace),
        wire.find(VOLUME_CLAIMS, f"{HOME}-{workspace.sandbox}", workspace.namespace),
    )
    owners: list[Document] = section(sandbox, "metadata").get("ownerReferences") or []
    if volume_claim is None or not any(owner["uid"] == workspace.claim_uid for owner in owners):
        return None
    bound = section(volume_claim, "spec").get("volumeName")
    volume = await wire.find(VOLUMES, bound) if bound else None
    if volume is None or section(volume["spec"], "claimRef").get("uid") != volume_claim["metadata"]["uid"]:
        return None
    return volume


def _changes(workspace: Workspace, volume: Document) -> Document:
    whose = {USER_LABEL: workspace.owner, WORKSPACE_LABEL: workspace.id, MODE_LABEL: workspace.mode}
    if workspace.task:
        whose[TASK_LABEL] = workspace.task
    missing = whose.items() - section(volume["metadata"], "labels").items()
    changes: Document = {"metadata": {"labels": dict(missing)}} if missing else {}
    if volume["spec"]["persistentVolumeReclaimPolicy"] != "Retain":
        changes["spec"] = {"persistentVolumeReclaimPolicy": "Retain"}
    return changes
