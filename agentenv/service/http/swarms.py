"""Swarms over HTTP: several workspaces for a task at once, all or as many as fit, that share a volume."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.http.auth.permissions import require_class_access
from agentenv.service.http.caller import CurrentCaller, RequestDependencies
from agentenv.service.http.create_request import check_budget_left, check_deadline
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.problems import Problem
from agentenv.service.http.responses import POLL_SECONDS, PROBLEMS, problems
from agentenv.service.http.schemas import SwarmAsked, SwarmShape
from agentenv.service.http.swarm_tasks import SwarmStatus, SwarmTasks

router = APIRouter(prefix="/v1/swarms", tags=["swarms"])
SETTLED_AT_ONCE = 4
Task = Annotated[str, Path(pattern=r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$", description="The task.")]


@router.post(
    "",
    operation_id="createSwarm",
    status_code=201,
    responses={202: {"model": SwarmShape, "description": "It is on its way: look at `Location`"}, **PROBLEMS},
)
async def create(
    asked: SwarmAsked,
    response: Response,
    caller: CurrentCaller,
    parts: RequestDependencies,
    wait: Annotated[float, Query(ge=0, le=60)] = 10.0,
) -> SwarmShape:
    """Ask for a swarm: it is made whole or not at all, and once for an owner and a task."""
    of_class = parts.catalog.get(asked.class_)
    require_class_access(caller, of_class)
    if "agent" not in of_class.modes:
        raise Problem("mode-not-offered", f"class {of_class.name} is not for agents", "ask for another class")
    check_deadline(asked.deadline, parts.now())
    first = Workspace(f"{asked.task}-1", caller.owner, of_class.name, "agent", "creating", task=asked.task)
    await check_budget_left(parts, first)
    told = await _swarming(parts).make(
        caller.owner,
        of_class,
        asked.task,
        asked.count,
        fit=asked.fit,
        channel=asked.channel,
        deadline=asked.deadline,
        wait=wait,
    )
    response.headers["Location"] = f"/v1/swarms/{asked.task}"
    if told.state == "creating":
        response.status_code = 202
        response.headers["Retry-After"] = POLL_SECONDS
    return _shape(told)


@router.get("/{task}", operation_id="getSwarm", responses=problems(401, 403, 404, 422, 429, 503))
async def get(task: Task, caller: CurrentCaller, parts: RequestDependencies) -> SwarmShape:
    """How it stands with a swarm of one's own."""
    return _shape(await _swarming(parts).find(caller.owner, task))


@router.delete("/{task}", operation_id="deleteSwarm", status_code=202, responses=PROBLEMS)
async def delete(
    task: Task,
    caller: CurrentCaller,
    parts: RequestDependencies,
    *,
    destroy: Annotated[bool, Query(description="Its data, too, and at once.")] = False,
) -> SwarmShape:
    """Take a swarm away. The data of its workspaces, and what they shared, is kept like that of other workspaces."""
    swarming = _swarming(parts)
    try:
        told = await swarming.find(caller.owner, task)
    except Problem as problem:
        if not (destroy and problem.kind == "not-found" and await swarming.destroy_kept(caller.owner, task)):
            raise
        return _shape(SwarmStatus(task, "", 0, (), "failed", "it was deleted, and its data is being destroyed"))
    await _settle(parts, told.members)
    await swarming.end(caller.owner, task, destroy=destroy)
    return _shape(told)


async def _settle(parts: Dependencies, members: Iterable[Workspace]) -> None:
    """Have what they used written down before they go; a few at a time, for others wait for these threads, too."""
    settle = parts.settle
    if settle is None:
        return
    few = asyncio.Semaphore(SETTLED_AT_ONCE)

    async def one(member: Workspace) -> None:
        async with few:
            await settle(member)

    await asyncio.gather(*(one(member) for member in members))


def _swarming(parts: Dependencies) -> SwarmTasks:
    if parts.swarming is None:
        raise Problem("unavailable", "swarms are not made here", "ask for workspaces one by one")
    return parts.swarming


def _shape(told: SwarmStatus) -> SwarmShape:
    return SwarmShape(
        task=told.task,
        class_=told.class_name,
        asked=told.asked,
        ready=sum(one.state == "running" for one in told.members),
        state=told.state,
        why=told.why,
        workspaces=[one.id for one in told.members],
    )
