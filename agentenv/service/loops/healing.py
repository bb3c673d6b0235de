"""Replace the failed pods of workspaces, and record events of processes that were started again.

A pod fails when its node evicts it or shuts down, and it stays failed: the sandbox controller creates a pod only where
there is none. So a pass suspends such a workspace, which deletes the pod, and resumes it once the pod is gone. Its home
stays. The reason `failed` on the claim tells the next pass what an interrupted one began.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from agentenv.core.values.object_fields import section
from agentenv.core.values.timestamps import format_timestamp, parse_timestamp
from agentenv.core.workspaces.pod_report import PodReport, end_text, restart_reason, why_failed
from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.core.workspaces.workspace import REPLACED_AT, SUSPENDED_BECAUSE, Workspace
from agentenv.service.kube.client import CLAIMS, PODS, Document, KubeApiError
from agentenv.service.kube.record_event import claim_reference, record_event
from agentenv.service.loops.context import Context
from agentenv.service.loops.scheduler import PassResult, ShouldContinue
from agentenv.service.workspaces.suspend import resume, sandbox_of, suspend

AGE: Final = 3.0
# A pod that fails again within this time is left, so that a workspace that cannot run does not restart all the time.
AGAIN: Final = timedelta(minutes=1)
# A restart that is older was recorded by an earlier leader.
RECENT: Final = timedelta(minutes=10)
_MOST: Final = 50


async def replace_failed_pods(context: Context, should_continue: ShouldContinue) -> PassResult:
    """Replace failed pods, complete replacements that were begun, and record restarts."""
    steps = await _record_restarts(context)
    failures: list[str] = []
    for workspace in [each for each in await context.recent_workspaces(AGE) if _is_candidate(each)]:
        if steps >= _MOST or len(failures) >= _MOST or not should_continue():
            break
        try:
            steps += await _replace(context, workspace)
        except KubeApiError as refusal:
            if refusal.transient:
                raise
            failures.append(f"{workspace.id}: {refusal}")
    return PassResult(steps, steps >= _MOST, tuple(failures))


def _is_candidate(workspace: Workspace) -> bool:
    return workspace.state == "failed" or workspace.suspended_because == "failed"


async def _replace(context: Context, workspace: Workspace) -> bool:
    """Take the next step for a workspace, by its current claim; return whether there was one."""
    claim = await context.api.find(CLAIMS, workspace.id, workspace.namespace)
    current = workspace_of_claim(claim) if claim is not None else None
    if claim is None or current is None or current.claim_uid != workspace.claim_uid or not _is_candidate(current):
        return False
    sandbox = await sandbox_of(context.api, claim)
    pod = await context.api.find(PODS, sandbox["metadata"]["name"], current.namespace) if sandbox else None
    if current.suspended_because == "failed":
        if pod is None:
            # A later time to wake stays, as for a request.
            return await resume(context.api, claim, context.clock.now(), requested=True) == "done"
        return await suspend(context.api, claim, "failed") == "done"
    if pod is None or section(pod, "status").get("phase") != "Failed":
        return False
    return await _suspend_failed(context, claim, current, why_failed(pod))


async def _suspend_failed(context: Context, claim: Document, workspace: Workspace, why: str) -> bool:
    now = context.clock.now()
    last = parse_timestamp(section(claim["metadata"], "annotations").get(REPLACED_AT))
    if last is not None and now - last < AGAIN:
        return False
    # One write: after an overtaken one nothing says that the pod was replaced, and the next pass tries again.
    noted = {"metadata": {"annotations": {REPLACED_AT: format_timestamp(now), SUSPENDED_BECAUSE: "failed"}}}
    claim = await context.api.patch(CLAIMS, claim, noted) or {}
    if not claim or await suspend(context.api, claim, "failed") != "done":
        return False
    message = f"its pod failed and is replaced, with the same home: {why}"
    await record_event(context.api, claim_reference(claim), "PodReplaced", message, now, warning=True)
    context.metrics.suspended(workspace.class_name, "failed")
    return True


async def _record_restarts(context: Context) -> int:
    """Record an event of each restart that was not seen before; its name is the same for every replica."""
    reports = context.pod_reports()
    recorded = context.recorded_restarts
    current = {(report.uid, report.restarts): (workspace, report) for workspace, report in reports if report.restarts}
    context.recorded_restarts = recorded & current.keys()
    steps = 0
    for key in [key for key in current if key not in recorded][:_MOST]:
        workspace, report = current[key]
        context.recorded_restarts.add(key)
        now = context.clock.now()
        at = report.last_end.at if report.last_end is not None else None
        if at is None or now - at < RECENT:
            steps += await _record_restart(context, workspace, report, now)
    return steps


async def _record_restart(context: Context, workspace: Workspace, report: PodReport, now: datetime) -> bool:
    claim = await context.api.find(CLAIMS, workspace.id, workspace.namespace)
    if claim is None or claim["metadata"]["uid"] != workspace.claim_uid:
        return False
    why = end_text(report.last_end) if report.last_end is not None else "no reason is known"
    message = f"all its processes ended and are started again, and its address may change: {why}"
    suffix = f"{report.uid[:13]}-{report.restarts}"
    if not await record_event(
        context.api, claim_reference(claim), "Restarted", message, now, warning=True, suffix=suffix
    ):
        return False
    context.metrics.restarted(workspace.class_name, restart_reason(report))
    return True
