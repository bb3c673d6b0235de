"""Record events of workspaces whose processes ended and were started again."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from agentenv.core.workspaces.pod_report import PodReport, end_text, restart_reason
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.kube.client import CLAIMS
from agentenv.service.kube.record_event import claim_reference, record_event
from agentenv.service.loops.context import Context
from agentenv.service.loops.scheduler import PassResult, ShouldContinue

# A restart that is older was recorded by an earlier leader.
RECENT: Final = timedelta(minutes=10)
_MOST: Final = 50


async def record_restarts(context: Context, _: ShouldContinue) -> PassResult:
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
    return PassResult(steps)


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
