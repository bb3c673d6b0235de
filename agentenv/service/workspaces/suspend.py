"""Puts workspaces to sleep and wakes them: two writes each, of which the first says what is meant.

To sleep: the claim says why, then its sandbox is told. To wake: the reason goes, then the sandbox is told. Each is a
change of what was read, so whoever was decided about and has changed since is left alone; and whoever finds only the
first of the two done knows how it should end (`agentenv/core/lifecycle/wake.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from agentenv.core.values.object_fields import owner_uids, text
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import LAST_ACTIVE, SUSPENDED_BECAUSE, WAKE_AT, Because
from agentenv.service.kube.client import CLAIMS, SANDBOXES, Document, KubeApi, section

RUNNING, ASLEEP = "Running", "Suspended"
Outcome = Literal["done", "already", "overtaken", "no-sandbox"]


async def sandbox_of(api: KubeApi, claim: Document) -> Document | None:
    """The sandbox that a claim has now; one of that name that is another claim's is none."""
    name = text(section(section(claim, "status"), "sandbox"), "name")
    sandbox = await api.find(SANDBOXES, name, claim["metadata"]["namespace"]) if name else None
    return sandbox if claim["metadata"]["uid"] in owner_uids(sandbox) else None


async def suspend(api: KubeApi, claim: Document, because: Because) -> Outcome:
    """Let a claim's sandbox sleep, if the claim is still as it was read."""
    sandbox = await sandbox_of(api, claim)
    if sandbox is None:
        return "no-sandbox"
    if section(claim["metadata"], "annotations").get(SUSPENDED_BECAUSE) != because and not await _annotate(
        api, claim, {SUSPENDED_BECAUSE: because}
    ):
        return "overtaken"
    if section(sandbox, "spec").get("operatingMode") == ASLEEP:
        return "already"
    applied = await _set_operating_mode(api, sandbox, ASLEEP)
    current = await api.find(CLAIMS, claim["metadata"]["name"], claim["metadata"]["namespace"])
    if current is not None and current["metadata"]["uid"] == claim["metadata"]["uid"]:
        reason = section(current["metadata"], "annotations").get(SUSPENDED_BECAUSE)
        if reason is None and (sandbox_ := await sandbox_of(api, current)) is not None:
            # Somebody came between the two writes, and found it awake still.
            await _set_operating_mode(api, sandbox_, RUNNING)
            return "overtaken"
    return "done" if applied else "overtaken"


async def resume(api: KubeApi, claim: Document, now: datetime) -> Outcome:
    """Wake a claim's sandbox; the hour that was set for it is over with that."""
    sandbox = await sandbox_of(api, claim)
    if sandbox is None:
        return "no-sandbox"
    annotations = section(claim["metadata"], "annotations")
    changes = {SUSPENDED_BECAUSE: None, WAKE_AT: None, LAST_ACTIVE: format_timestamp(now)}
    if annotations.keys() & {SUSPENDED_BECAUSE, WAKE_AT} and not await _annotate(api, claim, changes):
        return "overtaken"
    if section(sandbox, "spec").get("operatingMode") != ASLEEP:
        return "already"
    return "done" if await _set_operating_mode(api, sandbox, RUNNING) else "overtaken"


async def clear_wake_time(api: KubeApi, claim: Document) -> bool:
    """Take away an hour that is over."""
    return await _annotate(api, claim, {WAKE_AT: None})


async def _annotate(api: KubeApi, claim: Document, notes: Mapping[str, str | None]) -> bool:
    return await api.patch(CLAIMS, claim, {"metadata": {"annotations": dict(notes)}}) is not None


async def _set_operating_mode(api: KubeApi, sandbox: Document, mode: str) -> bool:
    """Tell a sandbox, however often its controller writes to it meanwhile."""
    metadata = sandbox["metadata"]
    current: Document | None = sandbox
    while current is not None and current["metadata"]["uid"] == metadata["uid"]:
        if section(current, "spec").get("operatingMode") == mode:
            return True
        if await api.patch(SANDBOXES, current, {"spec": {"operatingMode": mode}}):
            return True
        current = await api.find(SANDBOXES, metadata["name"], metadata["namespace"])
    return False
