"""Suspend and resume workspaces by two writes each, of which the first states the intent.

To suspend, the claim gets the reason, and then its sandbox is suspended. To resume, the reason is removed, and then the
sandbox runs. Each write is a change of what was read, so a workspace that has changed since the decision is left alone.
After a kill between the two writes, the reason says how it should end (`agentenv/core/lifecycle/wake.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from agentenv.core.lifecycle.deadline import deadline_after_resume
from agentenv.core.values.object_fields import owner_uids, text
from agentenv.core.values.timestamps import format_timestamp, parse_timestamp
from agentenv.core.workspaces.records import is_claim_ready, read_timeout
from agentenv.core.workspaces.workspace import (
    CURRENT_SIZE,
    DEADLINE,
    LAST_ACTIVE,
    RESIZING,
    SIZE,
    SIZE_PENDING,
    SUSPENDED_BECAUSE,
    WAKE_AT,
    Because,
)
from agentenv.service.kube.client import CLAIMS, PODS, SANDBOXES, Document, KubeApi, section
from agentenv.service.workspaces.backend_protocol import Outcome

RUNNING, SUSPENDED = "Running", "Suspended"


async def sandbox_of(api: KubeApi, claim: Document) -> Document | None:
    """Return the sandbox that a claim has now; a sandbox of that name that belongs to another claim is none."""
    name = text(section(section(claim, "status"), "sandbox"), "name")
    sandbox = await api.find(SANDBOXES, name, claim["metadata"]["namespace"]) if name else None
    return sandbox if claim["metadata"]["uid"] in owner_uids(sandbox) else None


async def suspend(api: KubeApi, claim: Document, because: Because) -> Outcome:
    """Suspend a claim's sandbox, if the claim is still as it was read."""
    sandbox = await sandbox_of(api, claim)
    if sandbox is None:
        return "no-sandbox"
    if section(claim["metadata"], "annotations").get(SUSPENDED_BECAUSE) != because and not await _annotate(
        api, claim, {SUSPENDED_BECAUSE: because}
    ):
        return "overtaken"
    if section(sandbox, "spec").get("operatingMode") == SUSPENDED:
        return "already"
    applied = await _set_operating_mode(api, sandbox, SUSPENDED)
    current = await api.find(CLAIMS, claim["metadata"]["name"], claim["metadata"]["namespace"])
    if current is not None and current["metadata"]["uid"] == claim["metadata"]["uid"]:
        reason = section(current["metadata"], "annotations").get(SUSPENDED_BECAUSE)
        if reason is None and (sandbox_ := await sandbox_of(api, current)) is not None:
            # Another caller came between the two writes, and found it running still.
            if await _pod_of(api, sandbox_) is None:
                await _set_operating_mode(api, sandbox_, RUNNING)
            return "resumed"
    return "done" if applied else "overtaken"


async def resume(api: KubeApi, claim: Document, now: datetime, *, requested: bool = False) -> Outcome:
    """Resume a claim's sandbox, if the claim is still as it was read.

    A resume that is `requested` counts as activity, and keeps the time at which the workspace wakes. One of the loops
    removes that time, which has come. A timeout that is over starts anew.

    It runs only once its former pod is gone, and the claim says so. The controller takes a pod that ends for a ready
    one, with its address.
    """
    sandbox = await sandbox_of(api, claim)
    if sandbox is None:
        return "no-sandbox"
    annotations = section(claim["metadata"], "annotations")
    changes: dict[str, str | None] = {SUSPENDED_BECAUSE: None, LAST_ACTIVE: format_timestamp(now)}
    if not requested:
        changes[WAKE_AT] = None
    current = parse_timestamp(annotations.get(DEADLINE))
    deadline = deadline_after_resume(read_timeout(annotations), current, now)
    if deadline is not None and deadline != current:
        changes[DEADLINE] = format_timestamp(deadline)
    if (
        section(sandbox, "spec").get("operatingMode") == SUSPENDED
        and annotations.get(SIZE_PENDING, RESIZING) != RESIZING
    ):
        # Its node refused to resize it; the new pod has the size.
        changes |= {SIZE_PENDING: None, CURRENT_SIZE: annotations.get(SIZE)}
    due = requested or annotations.keys() & {SUSPENDED_BECAUSE, WAKE_AT}
    if due and not await _annotate(api, claim, changes):
        return "overtaken"
    if section(sandbox, "spec").get("operatingMode") != SUSPENDED:
        return "already"
    if is_claim_ready(claim) or await _pod_of(api, sandbox) is not None:
        return "stopping"
    return "done" if await _set_operating_mode(api, sandbox, RUNNING) else "overtaken"


async def is_suspended(api: KubeApi, claim: Document) -> bool:
    """Return whether the sandbox of a claim is to have no pod."""
    return section(await sandbox_of(api, claim) or {}, "spec").get("operatingMode") == SUSPENDED


async def is_stopping(api: KubeApi, claim: Document) -> bool:
    """Return whether the sandbox of a claim is suspended, and its pod has not ended yet."""
    sandbox = await sandbox_of(api, claim)
    if sandbox is None or section(sandbox, "spec").get("operatingMode") != SUSPENDED:
        return False
    current = await api.find(CLAIMS, claim["metadata"]["name"], claim["metadata"]["namespace"])
    # A claim that is ready still has the address of the former pod.
    return is_claim_ready(current or {}) or await _pod_of(api, sandbox) is not None


async def _pod_of(api: KubeApi, sandbox: Document) -> Document | None:
    """Return the pod of a sandbox, which has its name."""
    metadata = sandbox["metadata"]
    pod = await api.find(PODS, metadata["name"], metadata["namespace"])
    return pod if metadata["uid"] in owner_uids(pod) else None


async def clear_wake_time(api: KubeApi, claim: Document) -> bool:
    """Remove a time to wake that has passed."""
    return await _annotate(api, claim, {WAKE_AT: None})


async def _annotate(api: KubeApi, claim: Document, annotations: Mapping[str, str | None]) -> bool:
    return await api.patch(CLAIMS, claim, {"metadata": {"annotations": dict(annotations)}}) is not None


async def _set_operating_mode(api: KubeApi, sandbox: Document, mode: str) -> bool:
    """Set a sandbox's mode, however often its controller writes to it meanwhile; False where it is gone."""
    metadata = sandbox["metadata"]
    current: Document | None = sandbox
    while current is not None and current["metadata"]["uid"] == metadata["uid"]:
        if section(current, "spec").get("operatingMode") == mode:
            return True
        if await api.patch(SANDBOXES, current, {"spec": {"operatingMode": mode}}):
            return True
        current = await api.find(SANDBOXES, metadata["name"], metadata["namespace"])
    return False
