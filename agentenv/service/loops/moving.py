"""Move workspaces from nodes that go away: they are suspended in time, and resumed on another node.

The reason `moving` on the claim tells the next pass, or the next leader, what an interrupted one began.
"""

from __future__ import annotations

from typing import Final

from agentenv.core.classes.names import CLAIM_UID_LABEL, WORKSPACE_LABEL
from agentenv.core.lifecycle.moving import LeavingNode, move_action
from agentenv.core.values.object_fields import section, strings, text
from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.kube.client import CLAIMS, Document, KubeApiError
from agentenv.service.kube.leaving_nodes import NodeSource
from agentenv.service.kube.record_event import claim_reference, record_event
from agentenv.service.loops.context import Context
from agentenv.service.loops.scheduler import PassResult, ShouldContinue
from agentenv.service.workspaces.suspend import is_stopping, is_suspended, resume, suspend

AGE: Final = 2.0
_MOST: Final = 100


async def move_workspaces(context: Context, nodes: NodeSource, should_continue: ShouldContinue) -> PassResult:
    """Suspend the workspaces on nodes that go away, and resume those whose pods have ended."""
    steps = 0
    failures: list[str] = []
    for node in nodes.leaving():
        for pod in await nodes.pods(node.name):
            if steps >= _MOST or not should_continue():
                return PassResult(steps, steps >= _MOST, tuple(failures))
            try:
                steps += await _leave(context, nodes, node, pod)
            except KubeApiError as refusal:
                if refusal.transient:
                    raise
                failures.append(f"{text(section(pod, 'metadata'), 'name')}: {refusal}")
    for workspace in [row for row in await context.backend.recent_workspaces(AGE) if row.suspended_because == "moving"]:
        if steps >= _MOST or not should_continue():
            break
        try:
            steps += await _arrive(context, workspace)
        except KubeApiError as refusal:
            if refusal.transient:
                raise
            failures.append(f"{workspace.id}: {refusal}")
    return PassResult(steps, steps >= _MOST, tuple(failures))


async def _leave(context: Context, nodes: NodeSource, node: LeavingNode, pod: Document) -> bool:
    """Suspend the workspace of a pod on a node that goes away, or warn its holders; return whether it did anything."""
    metadata = section(pod, "metadata")
    labels = strings(metadata, "labels")
    claim = await context.api.find(CLAIMS, labels.get(WORKSPACE_LABEL, ""), text(metadata, "namespace"))
    workspace = workspace_of_claim(claim) if claim is not None else None
    acted = False
    if claim is not None and workspace is not None and workspace.claim_uid == labels.get(CLAIM_UID_LABEL):
        now = context.clock.now()
        match move_action(workspace, node, now):
            case "move":
                acted = await _suspend(context, claim, workspace, node)
            case "warn":
                message = f"{node.why}: suspend it when it suits you; else it is moved once nobody uses it"
                acted = await record_event(
                    context.api, claim_reference(claim), "NodeLeaving", message, now, warning=True, suffix=node.name
                )
            case "nothing":
                pass
    # Its kubelet is gone, so nobody else reports the end of the pod before Kubernetes cleans up, a minute later.
    return (await nodes.end_pod(pod) if node.gone else False) or acted


async def _suspend(context: Context, claim: Document, workspace: Workspace, node: LeavingNode) -> bool:
    if await suspend(context.api, claim, "moving") not in {"done", "already"}:
        return False
    message = f"{node.why}: it is suspended, and resumes on another node with its files; its processes end"
    await record_event(
        context.api, claim_reference(claim), "Moving", message, context.clock.now(), warning=True, suffix=node.name
    )
    context.metrics.suspended(workspace.class_name, "moving")
    return True


async def _arrive(context: Context, workspace: Workspace) -> bool:
    """Resume a workspace that moves, once its former pod is gone; complete its suspension if that was interrupted."""
    claim = await context.api.find(CLAIMS, workspace.id, workspace.namespace)
    current = workspace_of_claim(claim) if claim is not None else None
    if claim is None or current is None or current.claim_uid != workspace.claim_uid or current.state != "moving":
        return False
    if not await is_suspended(context.api, claim):
        # Its suspension was interrupted before the second write.
        return await suspend(context.api, claim, "moving") == "done"
    if await is_stopping(context.api, claim):
        return False
    # A later time to wake stays, as for a request.
    return await resume(context.api, claim, context.clock.now(), requested=True) == "done"
