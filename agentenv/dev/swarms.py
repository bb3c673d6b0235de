"""The swarms of one machine: workspaces of a task with a folder that they share, created together or not at all."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from agentenv.core.values.errors import first_of
from agentenv.core.workspaces.swarms import Swarm, SwarmRequest, swarm, task_name
from agentenv.core.workspaces.workspace import Filter, Workspace
from agentenv.dev.records import LocalSwarm
from agentenv.service.http.problems import Problem, not_found
from agentenv.service.workspaces.backend_protocol import SwarmStatus
from agentenv.service.workspaces.swarm_creations import (
    ALL_ENDED,
    CREATE_TIMEOUT,
    SwarmCreations,
    SwarmRecord,
    invalid_swarm,
    swarm_status,
    why_not_running,
)

if TYPE_CHECKING:
    from agentenv.dev.backend import LocalBackend
    from agentenv.dev.records import Records
    from agentenv.service.catalog import Catalog


class LocalSwarms(SwarmCreations):
    """Creates swarms over the local backend, and reports their status."""

    def __init__(
        self,
        backend: LocalBackend,
        catalog: Catalog,
        records: Records,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__()
        self._backend, self._catalog, self._records, self._now = backend, catalog, records, now
        self._swarms = {row.name: row for row in records.swarms()}
        self._locks: dict[str, asyncio.Lock] = {}

    async def create(self, request: SwarmRequest, *, wait: float) -> SwarmStatus:
        """Create all of a swarm: a machine has no quota, so everything fits."""
        owner, name, of_class = request.owner, request.name, self._catalog.get(request.class_name)
        try:
            plan = swarm(of_class.plan, of_class.release(request.channel), name, request.count, owner=owner)
        except ValueError as error:
            raise invalid_swarm(error) from None
        creation = self.creation(request)
        if creation is None:
            self._check_existing(request)
            self.check_concurrency(owner)
            creation = self.begin(request, self._create(plan, request.workspace))
        return await self.result(creation, wait)

    def members(self, owner: str, name: str | None = None) -> tuple[Workspace, ...]:
        """Return the existing workspaces of a task by its name, or all of an owner's."""
        selector = Filter(owner=owner, task=name)
        rows = sorted(self._backend.all_workspaces(), key=lambda row: row.id)
        return tuple(row for row in rows if selector.matches(row))

    async def stored(self, task: str, name: str, members: tuple[Workspace, ...]) -> SwarmStatus:
        """Return the status of a swarm that is not being created."""
        row = self._swarms.get(name)
        if members:
            # A member of a deleted swarm may have been restored alone.
            restored = row is None or (row.deleted_at and any(member.state != "deleting" for member in members))
            record = SwarmRecord() if row is None or restored else _record(row)
            return swarm_status(task, members, record)
        if row is not None and row.failure:
            return SwarmStatus(task, "", 0, (), "failed", row.failure)
        if row is None or row.deleted_at is not None:
            raise not_found("swarm")
        status = SwarmStatus(task, row.class_name, row.requested, (), "creating")
        return replace(status, state="failed", why=ALL_ENDED) if row.handed_over else status

    async def end(self, owner: str, task: str, *, destroy: bool = False) -> None:
        """Delete a swarm. Its data is retained like that of workspaces, or destroyed."""
        name = task_name(owner, task)
        keep_for = timedelta(0) if destroy else self._catalog.settings.storage.retain_deleted_for
        async with self._lock(name):
            if row := self._swarms.get(name):
                now = self._now()
                if row.deleted_at is None:
                    row = replace(row, deleted_at=now, destroy_after=now + keep_for)
                self._put(replace(row, failure=""))
            for member in self.members(owner, name):
                await self._backend.delete(member.id, keep_for=keep_for)
        if destroy:
            await self.destroy_kept(owner, task)

    async def destroy_kept(self, owner: str, task: str) -> bool:
        """Request the destruction of a deleted swarm's retained data; return whether there was any."""
        name = task_name(owner, task)
        async with self._lock(name):
            deleted = self._deleted(owner, name)
            for member in deleted:
                await self._backend.delete(member.id, keep_for=timedelta(0))
            row = self._swarms.get(name)
            has_data = row is not None and row.shared and row.deleted_at is not None
            if row is not None and has_data:
                self._put(replace(row, destroy_after=row.deleted_at))
        return has_data or bool(deleted)

    def unused(self) -> list[LocalSwarm]:
        """Return the deleted swarms whose shared folder is retained, and that have no workspaces."""
        used = {workspace.task for workspace in self._backend.existing_workspaces()}
        return [row for row in self._swarms.values() if row.shared and row.deleted_at and row.name not in used]

    def destroy(self, name: str) -> None:
        """Destroy the shared folder of a swarm."""
        self._backend.destroy_shared(name)
        row = self._swarms[name]
        if row.failure:
            self._put(replace(row, shared=False))
        else:
            self._records.remove_swarm(name)
            del self._swarms[name]

    async def _create(self, plan: Swarm, first: Workspace) -> None:
        """Start the members that do not run; delete them again if one of them does not become ready."""
        name, ends = plan.task, time.monotonic() + CREATE_TIMEOUT
        ids = [claim["metadata"]["name"] for claim in plan.claims]
        await self._settled(ids, ends)
        earlier: dict[str, Workspace | None] = {}  # what the members that this request starts were before
        async with self._lock(name):
            row = self._swarms.get(name) or LocalSwarm(name, first.owner, first.class_name)
            used = bool(self.members(first.owner, name))
            was = row if used or row.shared else None
            requested = max(len(ids), row.requested if used else 0)
            begun = replace(row, class_name=first.class_name, requested=requested, shared=True, failure="")
            self._put(begun if used else replace(begun, handed_over=0, deleted_at=None, destroy_after=None))
            for id_ in ids:
                member = replace(first, id=id_, created=self._now(), claim_uid=str(uuid.uuid4()))
                existing = await self._backend.start_member(member)
                if existing is None or existing.state == "deleted":
                    earlier[id_] = existing
        await self._settled(ids, ends)
        async with self._lock(name):
            row = self._swarms[name]
            found = [self._backend.cached(id_) for id_ in ids]
            waiting = [member for member in found if member and member.state not in {"running", "suspended"}]
            if row.deleted_at is None and not waiting and all(found):
                self._put(replace(row, handed_over=max(len(ids), row.handed_over)))
                return
            for id_, before in earlier.items():
                await self._backend.undo_start(id_, before)
            if row.deleted_at is not None:
                why = "the swarm is being deleted, or was at the same time"
                raise Problem("busy", why, "retry when it is gone", retry_after=2)
            causes = first_of([why_not_running(member) for member in waiting]) if waiting else "the others were deleted"
            failure = f"{len(ids) - len(waiting)} of {len(ids)} sandboxes became ready: {causes}"
            now = self._now()
            self._put(replace(was or replace(row, deleted_at=now, destroy_after=now), failure=failure))
        await self._settled([*earlier], time.monotonic() + CREATE_TIMEOUT)
        if was is None:
            self.destroy(name)
        raise Problem("no-room", failure, "create it again when the cause is gone", retry_after=30)

    def _check_existing(self, request: SwarmRequest) -> None:
        """Refuse a swarm whose data is being destroyed, or is in another class."""
        owner, name = request.owner, request.name
        row = self._swarms.get(name)
        if row is not None and row.shared and row.destroy_after is not None and row.destroy_after <= self._now():
            why = "the swarm was deleted, and its data is being destroyed"
            raise Problem("wrong-state", why, "retry when it is gone; the new swarm will not have that data")
        members = [*self.members(owner, name), *self._deleted(owner, name)]
        classes = {member.class_name for member in members} | ({row.class_name} if row and row.shared else set())
        if other := sorted(classes - {request.class_name}):
            detail = f"the task has a swarm of class {other[0]}"
            raise Problem("key-reused", detail, "use the class that it has, or another task")

    def _deleted(self, owner: str, name: str) -> list[Workspace]:
        key = owner, name, "deleted"
        return [row for row in self._backend.all_workspaces() if (row.owner, row.task, row.state) == key]

    async def _settled(self, ids: Sequence[str], ends: float) -> None:
        for id_ in ids:
            await self._backend.settled(id_, wait=max(0.0, ends - time.monotonic()))

    def _put(self, row: LocalSwarm) -> None:
        self._records.put_swarm(row)
        self._swarms[row.name] = row

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())


def _record(row: LocalSwarm) -> SwarmRecord:
    return SwarmRecord(row.requested, row.handed_over, row.deleted_at is not None)
