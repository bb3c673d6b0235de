"""The swarms of all backends: their creation in the background of requests, and their status."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any

from agentenv.core.values.errors import first_of
from agentenv.core.workspaces.swarms import SwarmRequest, member, task_name
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.http.problems import Problem
from agentenv.service.workspaces.backend_protocol import Swarms, SwarmState, SwarmStatus

CREATE_TIMEOUT = 300.0
# Swarms of a list that are read at once
READ_AT_ONCE = 4
# At once, on a replica: of all, and of one owner, who cannot keep the others from theirs.
MAX_CONCURRENT, MAX_PER_OWNER = 32, 4
NOT_REPORTED = "its members run, but its creation has not finished: create it again if this stays so"
BEING_DELETED = "it is being deleted"
ALL_ENDED = "all of its workspaces have ended; its shared volume is retained"


@dataclass(frozen=True)
class SwarmCreation:
    """A swarm that this replica is creating."""

    request: SwarmRequest  # with the number of workspaces that it creates
    done: asyncio.Future[None]


@dataclass(frozen=True)
class SwarmRecord:
    """What a backend records of a swarm: the numbers of requested and assigned members, and whether it was deleted."""

    requested: int = 0
    handed_over: int = 0
    deleted: bool = False


class SwarmCreations(Swarms):
    """Creates swarms, and reports the status of swarms that this replica creates.

    Only the wait is in memory. Names follow from owner and task: a repeated request continues a creation that was
    killed.
    """

    def __init__(self) -> None:
        self._creations: dict[str, SwarmCreation] = {}

    async def find(self, owner: str, task: str) -> SwarmStatus:
        """Return the status of a swarm."""
        name = task_name(owner, task)
        members = self.members(owner, name)
        creation = self._creations.get(name)
        if creation is not None:
            return _status(creation.request, members, "creating")
        return await self.stored(task, name, members)

    async def list(self, owner: str, limit: int, after: str | None) -> list[SwarmStatus]:
        """Return the status of an owner's swarms by task."""
        names = {name for name, creation in self._creations.items() if creation.request.owner == owner}
        names |= {workspace.task for workspace in self.members(owner) if workspace.task}
        tasks = sorted(task for name in names if task_name(owner, task := name.rpartition("-")[0]) == name)
        page = [task for task in tasks if task > (after or "")][:limit]
        slots = asyncio.Semaphore(READ_AT_ONCE)

        async def find(task: str) -> SwarmStatus | None:
            async with slots:
                try:
                    return await self.find(owner, task)
                except Problem as problem:
                    if problem.kind != "not-found":
                        raise
                    return None  # it ended meanwhile

        return [status for status in await asyncio.gather(*map(find, page)) if status is not None]

    @abstractmethod
    def members(self, owner: str, name: str | None = None) -> tuple[Workspace, ...]:
        """Return the existing workspaces of a task by its name, or all of an owner's, from the cache."""

    @abstractmethod
    async def stored(self, task: str, name: str, members: tuple[Workspace, ...]) -> SwarmStatus:
        """Return the status of a swarm that this replica is not creating."""

    def creation(self, request: SwarmRequest) -> SwarmCreation | None:
        """Return the creation in progress of a task; raise a `Problem` for a request that differs from it."""
        if (creation := self._creations.get(request.name)) is None:
            return None
        started = creation.request
        if started.class_name != request.class_name:
            detail = f"the task's swarm is being created in class {started.class_name}"
            raise Problem("key-reused", detail, "delete it first, or choose another task")
        if started.count != request.count and not (request.fit and started.count < request.count):
            detail = f"the task's swarm is being created with {started.count} workspaces, not {request.count}"
            raise Problem("busy", detail, "retry when it is ready", retry_after=10)
        return creation

    def check_concurrency(self, owner: str) -> None:
        """Raise a `Problem` where too many swarms are being created."""
        owner_count = sum(creation.request.owner == owner for creation in self._creations.values())
        if owner_count >= MAX_PER_OWNER or len(self._creations) >= MAX_CONCURRENT:
            own_limit = owner_count >= MAX_PER_OWNER
            count, scope = (owner_count, "of yours") if own_limit else (len(self._creations), "of all owners")
            detail = f"{count} swarms {scope} are being created already"
            raise Problem("too-many-requests", detail, "retry when one of them is ready", retry_after=10)

    def begin(self, request: SwarmRequest, work: Coroutine[Any, Any, None]) -> SwarmCreation:
        """Begin a creation in the background."""
        name = request.name

        def ended(done: asyncio.Future[None]) -> None:
            self._creations.pop(name, None)
            if not done.cancelled():
                done.exception()  # marks it as retrieved, as no request may wait for it any more

        creation = self._creations[name] = SwarmCreation(request, asyncio.create_task(work))
        creation.done.add_done_callback(ended)
        return creation

    async def result(self, creation: SwarmCreation, wait: float) -> SwarmStatus:
        """Return the status of a creation after at most `wait` seconds; raise the error that ended it."""
        finished, _ = await asyncio.wait([creation.done], timeout=wait)
        if finished:
            creation.done.result()
        request = creation.request
        return _status(request, self.members(request.owner, request.name), "running" if finished else "creating")


def _status(request: SwarmRequest, members: tuple[Workspace, ...], state: SwarmState) -> SwarmStatus:
    return SwarmStatus(request.task, request.class_name, request.count, members, state)


def swarm_status(task: str, members: tuple[Workspace, ...], record: SwarmRecord) -> SwarmStatus:
    """Return the status of a swarm with members that no request of this replica is creating."""
    # Nothing is recorded of a swarm whose member was restored alone.
    count = max(record.requested, record.handed_over) or len(members)
    status = SwarmStatus(task, members[0].class_name, count, members, "creating")
    if record.deleted:
        return replace(status, state="failed", why=BEING_DELETED)
    if len(members) < count:
        present = {each.id for each in members}
        missing = [name for number in range(count) if (name := member(members[0].task or "", number)) not in present]
        which = f"{len(missing)} of {count} workspaces ({first_of(missing, ', ')})"
        if record.handed_over < count:
            return replace(status, why=f"{which} are being created: create it again if this stays so")
        return replace(status, state="failed", why=f"{which} are missing: create it again to restore them")
    if not_running := [each for each in members if each.state != "running"]:
        return replace(status, why=first_of([why_not_running(each) for each in not_running]))
    # Until it is handed over, the replica that creates it may still give it up.
    return replace(status, why=NOT_REPORTED) if record.handed_over < count else replace(status, state="running")


def why_not_running(workspace: Workspace) -> str:
    """Return the state of a member that does not run, with the reason."""
    why = workspace.suspended_because if workspace.state == "suspended" else workspace.why
    return f"{workspace.id} is {workspace.state}" + (f": {why}" if why else "")


def invalid_swarm(error: ValueError) -> Problem:
    """Return the problem of a swarm that a class cannot have."""
    return Problem("refused", str(error), "choose a class with `shared` storage, or a smaller count")
