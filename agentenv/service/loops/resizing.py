"""Complete resizes that a request began, and let sandboxes grow that are near their memory limit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agentenv.core.lifecycle.resize import next_size
from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.kube.client import CLAIMS
from agentenv.service.loops.context import Context
from agentenv.service.loops.scheduler import PassResult, ShouldContinue, isolated
from agentenv.service.workspaced.client import WorkspacedClient, WorkspacedError
from agentenv.service.workspaces.resize import Resizer

AGE = 10.0
# How many sandboxes are asked at once; each has three seconds.
_AT_ONCE = 20
_MOST = 50


async def resize_sandboxes(context: Context, should_continue: ShouldContinue) -> PassResult:
    """Give sandboxes the sizes that were requested, and request the next size of those near their memory limit."""
    resizer = context.resizer
    if resizer is None:
        return PassResult()
    steps = 0
    failures: list[str] = []
    running = [workspace for workspace in await context.backend.recent_workspaces(AGE) if workspace.state == "running"]
    requested = [workspace for workspace in running if workspace.resizing or workspace.size_pending is not None]
    growing = await _near_limit(context, resizer, [workspace for workspace in running if _may_grow(workspace, resizer)])
    for workspace in [*requested, *growing]:
        if steps >= _MOST or not should_continue():
            break
        with isolated(failures, workspace.id):
            resized = await resizer.resize(workspace)
            steps += (resized.current_size, resized.size_pending) != (workspace.current_size, workspace.size_pending)
    return PassResult(steps, steps >= _MOST, tuple(failures))


def _may_grow(workspace: Workspace, resizer: Resizer) -> bool:
    """Return whether a workspace has its requested size, and its class a larger one."""
    sizes = list(resizer.sizes_of(workspace))
    settled = workspace.size == workspace.current_size and workspace.size_pending is None
    return settled and workspace.size in sizes[:-1]


async def _near_limit(context: Context, resizer: Resizer, candidates: Sequence[Workspace]) -> list[Workspace]:
    """Request the next size of the workspaces that are near their memory limit, and return them."""
    workspaced = context.workspaced
    if workspaced is None:
        return []
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def grown(workspace: Workspace) -> Workspace | None:
        async with at_once:
            return await _grown(context, resizer, workspaced, workspace)

    return [found for found in await asyncio.gather(*map(grown, candidates)) if found is not None]


async def _grown(
    context: Context, resizer: Resizer, workspaced: WorkspacedClient, workspace: Workspace
) -> Workspace | None:
    endpoint = await context.backend.sandbox_endpoint(workspace)
    if endpoint is None:
        return None
    try:
        used = await workspaced.used_memory(endpoint)
    except WorkspacedError:
        return None  # it is starting, or too busy to answer
    size = next_size(resizer.sizes_of(workspace), workspace.current_size, used)
    claim = await context.api.find(CLAIMS, workspace.id, workspace.namespace) if size is not None else None
    current = workspace_of_claim(claim) if claim is not None else None
    if size is None or claim is None or current is None or current.claim_uid != workspace.claim_uid:
        return None
    if not _may_grow(current, resizer) or current.size != workspace.size:
        return None  # its owner chose a size meanwhile
    message = f"it uses {used >> 20} MiB, near the limit of size {current.size}: it grows to {size}"
    return current if await resizer.request(claim, size, "NearMemoryLimit", message) else None
