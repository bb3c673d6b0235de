"""Replace the failed sandboxes of workspaces.

A pod fails when its node evicts it or shuts down, and it stays failed: the sandbox controller creates a pod only where
there is none. So a pass suspends such a workspace, which deletes the pod, and resumes it once the pod is gone. Its home
stays. The reason `failed` tells the next pass what an interrupted one began.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.loops.context import LoopContext
from agentenv.service.loops.scheduler import PassResult, ShouldContinue, isolated

AGE: Final = 3.0
# A pod that fails again within this time is left, so that a workspace that cannot run does not restart all the time.
AGAIN: Final = timedelta(minutes=1)
# A restart that is older was recorded by an earlier leader.
RECENT: Final = timedelta(minutes=10)
_MOST: Final = 50


async def replace_failed_pods(context: LoopContext, should_continue: ShouldContinue) -> PassResult:
    """Replace failed sandboxes, and complete replacements that were begun."""
    steps = 0
    failures: list[str] = []
    for workspace in [each for each in await context.backend.recent_workspaces(AGE) if _is_candidate(each)]:
        if steps >= _MOST or len(failures) >= _MOST or not should_continue():
            break
        with isolated(failures, workspace.id):
            steps += await _replace(context, workspace, failures)
    return PassResult(steps, steps >= _MOST, tuple(failures))


def _is_candidate(workspace: Workspace) -> bool:
    return workspace.state == "failed" or workspace.suspended_because == "failed"


async def _replace(context: LoopContext, workspace: Workspace, failures: list[str]) -> bool:
    """Take the next step for a workspace as it is now; return whether there was one."""
    current = await context.backend.reread(workspace, failures)
    if current is None or not _is_candidate(current.workspace):
        return False
    if current.workspace.suspended_because == "failed":
        if await current.is_stopped():
            # A later time to wake stays, as for a request.
            return await current.resume(requested=True) == "done"
        return await current.suspend("failed") == "done"
    why, now = await current.failure(), context.clock.now()
    if why is None or (current.replaced_at is not None and now - current.replaced_at < AGAIN):
        return False
    if not await current.mark_replaced(now) or await current.suspend("failed") != "done":
        return False
    message = f"its pod failed and is replaced, with the same home: {why}"
    await current.warn("PodReplaced", message, now)
    context.metrics.suspended(workspace.class_name, "failed")
    return True
