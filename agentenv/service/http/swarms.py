"""Routes of swarms: several workspaces for one task that share a volume."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from agentenv.core.workspaces.swarms import SwarmRequest
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.http.auth.permissions import require_class_access
from agentenv.service.http.create_request import check_budget_left, check_deadline
from agentenv.service.http.dependencies import (
    AuthenticatedRoute,
    CurrentCaller,
    Dependencies,
    RequestDependencies,
    scope,
)
from agentenv.service.http.problems import Problem
from agentenv.service.http.responses import POLL_SECONDS, PROBLEMS, problems
from agentenv.service.http.schemas import SwarmCreate, SwarmPage, SwarmShape
from agentenv.service.workspaces.backend_protocol import SwarmStatus

router = APIRouter(prefix="/v1/swarms", tags=["swarms"], route_class=AuthenticatedRoute)
SETTLED_AT_ONCE = 4
TASK = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"
Task = Annotated[str, Path(pattern=TASK, description="The task.")]


@router.post(
    "",
    operation_id="createSwarm",
    openapi_extra=scope("create"),
    status_code=201,
    responses={202: {"model": SwarmShape, "description": "It is being created: read `Location`"}, **PROBLEMS},
)
async def create(
    body: SwarmCreate,
    response: Response,
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    wait: Annotated[float, Query(ge=0, le=60)] = 10.0,
) -> SwarmShape:
    """Create a swarm: all or nothing, and once per owner and task."""
    of_class = dependencies.catalog.get(body.class_)
    require_class_access(caller, of_class)
    if "agent" not in of_class.modes:
        raise Problem("mode-not-offered", f"class {of_class.name} does not offer mode agent", "choose another class")
    check_deadline(body.deadline, dependencies.now())
    request = SwarmRequest(
        caller.owner,
        of_class.name,
        body.task,
        body.count,
        fit=body.fit,
        channel=body.channel,
        deadline=body.deadline,
        limited_teams=dependencies.catalog.limited_teams(caller.teams),
    )
    check_budget_left(dependencies, request.workspace)
    status = await dependencies.swarms.create(request, wait=wait)
    response.headers["Location"] = f"/v1/swarms/{body.task}"
    if status.state == "creating":
        response.status_code = 202
        response.headers["Retry-After"] = POLL_SECONDS
    return _shape(status)


@router.get("", operation_id="listSwarms", responses=problems(401, 403, 422, 429, 503))
async def list_(
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    limit: Annotated[int, Query(ge=1, le=100)] = 100,
    after: Annotated[str | None, Query(pattern=TASK)] = None,
) -> SwarmPage:
    """List the caller's swarms by task, a page at a time."""
    rows = await dependencies.swarms.list(caller.owner, limit + 1, after)
    items = [_shape(status) for status in rows[:limit]]
    return SwarmPage(items=items, after=items[-1].task if len(rows) > limit else None)


@router.get("/{task}", operation_id="getSwarm", responses=problems(401, 403, 404, 422, 429, 503))
async def get(task: Task, caller: CurrentCaller, dependencies: RequestDependencies) -> SwarmShape:
    """Return the status of one of the caller's swarms."""
    return _shape(await dependencies.swarms.find(caller.owner, task))


@router.delete("/{task}", operation_id="deleteSwarm", status_code=202, responses=PROBLEMS)
async def delete(
    task: Task,
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    *,
    destroy: Annotated[bool, Query(description="Also destroy its data, at once.")] = False,
) -> SwarmShape:
    """Delete a swarm. The data of its workspaces and their shared volume is retained like that of others."""
    swarms = dependencies.swarms
    try:
        status = await swarms.find(caller.owner, task)
    except Problem as problem:
        if not (destroy and problem.kind == "not-found" and await swarms.destroy_kept(caller.owner, task)):
            raise
        return _shape(SwarmStatus(task, "", 0, (), "failed", "it was deleted, and its data is being destroyed"))
    await _settle(dependencies, status.members)
    await swarms.end(caller.owner, task, destroy=destroy)
    return _shape(status)


async def _settle(dependencies: Dependencies, members: Iterable[Workspace]) -> None:
    """Record the members' usage before deletion; a few at a time, as other requests share these threads."""
    settle = dependencies.settle
    if settle is None:
        return
    semaphore = asyncio.Semaphore(SETTLED_AT_ONCE)

    async def settle_member(member: Workspace) -> None:
        async with semaphore:
            await settle(member)

    await asyncio.gather(*(settle_member(member) for member in members))


def _shape(status: SwarmStatus) -> SwarmShape:
    return SwarmShape(
        task=status.task,
        class_=status.class_name,
        asked=status.count,
        ready=sum(member.state == "running" for member in status.members),
        state=status.state,
        why=status.why,
        workspaces=[member.id for member in status.members],
    )
