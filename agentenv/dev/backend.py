"""The backend of workspaces on one machine: records in SQLite, homes as folders, sandboxes as processes.

The process is the only writer of its records. It keeps them in memory, and writes each change before it acts on it. So
a start after a kill finds what was requested last, and every workspace suspended.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentenv.core.classes.sizes import SMALL
from agentenv.core.classes.swarm import shared_claim
from agentenv.core.lifecycle.deadline import deadline_after_resume
from agentenv.core.workspaces.leases import LeaseRefused, attach_lease, detach_lease, leases_after_sharing
from agentenv.core.workspaces.workspace import (
    TRANSITIONAL,
    UNSET,
    Because,
    Changes,
    CreateRequest,
    CreateResult,
    Event,
    Filter,
    Lease,
    Page,
    State,
    Workspace,
)
from agentenv.service.http.problems import not_found
from agentenv.service.workspaces.backend_protocol import Backend, Endpoint, PoolStatus, RestoreCheck
from agentenv.service.workspaces.event_log import EventLog
from agentenv.service.workspaces.pool_selection import COLD_REASONS
from agentenv.service.workspaces.refusals import (
    lease_refused,
    no_sandbox,
    pool_empty,
    refuse_attach,
    refuse_create_while_deleting,
    refuse_deleting,
    refuse_different_request,
)

if TYPE_CHECKING:
    from agentenv.dev.records import Records
    from agentenv.dev.sandboxes import Object, Sandboxes
    from agentenv.service.catalog import Catalog

_COLD = COLD_REASONS["none-kept"]
_AT_NEXT_RESUME = "processes of this machine are not resized while they run"


class LocalBackend(Backend):
    """The workspaces of one machine."""

    def __init__(
        self,
        catalog: Catalog,
        records: Records,
        sandboxes: Sandboxes,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._catalog, self._records, self._sandboxes, self._now = catalog, records, sandboxes, now
        self._workspaces: dict[str, Workspace] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.log = EventLog()
        for number, id_, event in records.all_events():
            self.log.add(number, id_, event)
        self.log.set_listing(False)
        for workspace in records.workspaces():
            self._workspaces[workspace.id] = workspace
            if workspace.state == "deleting":
                self.put(replace(workspace, state="deleted", addresses=(), sandbox=None, leases=()))
            elif workspace.state in {"creating", "running"}:
                # Its processes ended with the process that had started them.
                self.put(replace(workspace, state="suspended", suspended_because="asked", addresses=(), leases=()))

    async def close(self) -> None:
        """Finish what runs in the background."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def create(
        self,
        request: CreateRequest,
        *,
        wait: float,
        warm_only: bool = False,
        before_restore: RestoreCheck | None = None,
    ) -> CreateResult:
        """Return the workspace of an owner and a key, created if it does not exist."""
        self._catalog.get(request.class_name).release(request.channel)
        async with self._lock(request.id):
            existing = self._workspaces.get(request.id)
            if existing is None:
                if warm_only:
                    raise pool_empty(_COLD)
                await self.start(_new(request, self._now()), "Created", "")
            else:
                refuse_create_while_deleting(existing)
                refuse_different_request(existing, request)
                if existing.state == "deleted":
                    await self._restore(existing, before_restore)
        existed = existing is not None and existing.state != "deleted"
        return await self._report(request.id, wait, existed=existed)

    async def get(self, id_: str) -> Workspace | None:
        """Return a workspace as it is now."""
        return self._workspaces.get(id_)

    def cached(self, id_: str) -> Workspace | None:
        """Return a workspace."""
        return self._workspaces.get(id_)

    def endpoint(self, id_: str) -> Endpoint | None:
        """Return where the workspaced of a running workspace is reached."""
        workspace = self._workspaces.get(id_)
        if workspace is None or workspace.state != "running" or not workspace.addresses:
            return None
        return self._sandboxes.endpoint(id_, workspace.addresses[0])

    def lacks_workspaced(self, id_: str) -> bool:  # noqa: ARG002 - all have it
        """Return False: each sandbox runs workspaced."""
        return False

    async def reachable(self, id_: str, *, wait: float) -> Endpoint | None:
        """Return the endpoint of a workspace once it can be reached, or None after so many seconds."""
        await self._wait(id_, wait, lambda _: self.endpoint(id_) is not None)
        return self.endpoint(id_)

    async def settled(self, id_: str, *, wait: float) -> Workspace | None:
        """Return a workspace once it is neither being created nor being deleted, or after so many seconds."""
        await self._wait(id_, wait, lambda workspace: workspace.state not in TRANSITIONAL)
        return self._workspaces.get(id_)

    async def list(self, chosen: Filter, *, limit: int, after: str | None = None) -> Page:
        """Return a page of workspaces by id."""
        rows = [self._workspaces[id_] for id_ in sorted(self._workspaces) if id_ > (after or "")]
        chosen_rows = [row for row in rows if chosen.matches(row)]
        page = tuple(chosen_rows[:limit])
        return Page(page, page[-1].id if len(chosen_rows) > limit else None)

    async def update(self, id_: str, changes: Changes, *, wait: float) -> CreateResult:
        """Change a workspace; another class starts it again on the same files."""
        return await self.change(id_, lambda _: changes, wait=wait)

    async def change(self, id_: str, build: Callable[[Workspace], Changes], *, wait: float = 0.0) -> CreateResult:
        """Change a workspace by what `build` returns for it, as `update` does."""
        async with self._lock(id_):
            workspace = self._existing(id_)
            changed = _changed(workspace, build(workspace))
            if changed.class_name == workspace.class_name:
                self.put(changed)
                return CreateResult(changed, ready=changed.state == "running", existed=True)
            self._catalog.get(changed.class_name)
            moved = replace(changed, claim_uid=str(uuid.uuid4()), cold=COLD_REASONS["moved"])
            await self.start(moved, "Moved", f"to class {changed.class_name}")
        return await self._report(id_, wait, existed=False)

    async def delete(self, id_: str, *, keep_for: timedelta) -> Workspace:
        """Delete a workspace; its data is retained for the given time."""
        async with self._lock(id_):
            workspace = self._required(id_)
            destroy_after = self._now() + keep_for
            if workspace.state == "deleted":
                if workspace.destroy_after is not None:
                    destroy_after = min(destroy_after, workspace.destroy_after)
                deleted = self.put(replace(workspace, destroy_after=destroy_after))
                if not keep_for:
                    self.destroy(id_)
                return deleted
            if workspace.state == "deleting":
                return workspace
            return self.delete_current(workspace, keep_for)

    def delete_current(
        self, workspace: Workspace, keep_for: timedelta, deleted_at: datetime | None = None
    ) -> Workspace:
        """Delete a workspace as it is, under its lock; `deleted_at` is now by default."""
        now = deleted_at or self._now()
        deleting = self.put(replace(workspace, state="deleting", deleted_at=now, destroy_after=now + keep_for))
        self.add_event(workspace.id, "Deleted", "its files are retained" if keep_for else "its files are destroyed")
        self._in_background(self._finish_delete(workspace.id))
        return deleting

    async def suspend(self, id_: str, because: Because) -> Workspace:
        """Suspend a workspace: its processes end, its files are retained."""
        async with self._lock(id_):
            workspace = self._existing(id_)
            if workspace.state == "creating":
                raise no_sandbox(id_)
            return await self.suspend_current(workspace, because)

    async def suspend_current(self, workspace: Workspace, because: Because) -> Workspace:
        """Suspend a workspace as it is, under its lock."""
        if workspace.state == "suspended":
            return self.put(replace(workspace, suspended_because=because))
        suspended = replace(workspace, state="suspended", suspended_because=because, addresses=(), turned=self._now())
        self.add_event(workspace.id, "Suspended", because)
        self.put(suspended)
        await self._sandboxes.stop(workspace.id)
        return suspended

    async def resume(
        self,
        id_: str,
        *,
        wait: float,
        before_restore: RestoreCheck | None = None,
        on_requested: Callable[[], None] | None = None,
    ) -> CreateResult:
        """Resume a workspace; a deleted one is restored on its data."""
        async with self._lock(id_):
            workspace = self._required(id_)
            refuse_deleting(workspace)
            if workspace.state == "deleted":
                await self._restore(workspace, before_restore)
            elif workspace.state == "running":
                self.put(replace(workspace, last_active=self._now(), deadline=self._new_deadline(workspace)))
            elif workspace.state != "creating":
                await self.start(workspace, "Resumed", "")
        if on_requested is not None:
            on_requested()
        return await self._report(id_, wait, existed=workspace.state != "deleted")

    async def attach(self, id_: str, lease: Lease) -> Workspace:
        """Add or renew a lease."""
        async with self._lock(id_):
            workspace = self._required(id_)
            refuse_attach(workspace)
            try:
                leases = attach_lease(workspace, lease, self._now())
            except LeaseRefused as error:
                raise lease_refused(error) from None
            return self.put(replace(workspace, leases=leases, last_active=self._now()))

    async def detach(self, id_: str, holder: str) -> Workspace:
        """Release a lease."""
        async with self._lock(id_):
            workspace = self._required(id_)
            leases = detach_lease(workspace.leases, holder, self._now())
            if leases == workspace.leases:
                return workspace
            return self.put(replace(workspace, leases=leases, last_active=self._now()))

    async def end_session(self, owner: str, archive: str) -> int:
        """Record that an owner's chat left the archive; return the number of its workspaces, deleted ones included."""
        ended = [
            workspace
            for workspace in self._workspaces.values()
            if (workspace.mode, workspace.owner, workspace.archive) == ("session", owner, archive)
            and workspace.archive_ended is None
        ]
        for workspace in ended:
            self.put(replace(workspace, archive_ended=self._now()))
        return len(ended)

    async def events(self, id_: str) -> Sequence[Event]:
        """Return the recent events of a workspace."""
        if id_ not in self._workspaces:
            raise not_found("workspace")
        return self._records.events(id_)

    async def notify(self, id_: str, reason: str, message: str) -> None:
        """Record an event of a workspace."""
        self.add_event(id_, reason, message, warning=True)

    def pools(self) -> Sequence[PoolStatus]:
        """Return the warm pools: there is none."""
        return ()

    def count_by_state(self) -> Mapping[tuple[str, str], int]:
        """Return the number of workspaces by class and state."""
        return Counter((row.class_name, row.state) for row in self._workspaces.values())

    def existing_workspaces(self) -> builtins.list[Workspace]:
        """Return all workspaces that are not deleted."""
        return [row for row in self._workspaces.values() if row.state != "deleted"]

    def all_workspaces(self) -> builtins.list[Workspace]:
        """Return all workspaces, deleted ones with retained data included."""
        return list(self._workspaces.values())

    def is_synced(self) -> bool:
        """Return whether everything was read once: it was, at the start."""
        return True

    def unreadable(self) -> Mapping[str, int]:
        """Return the number of objects that cannot be read: there are none."""
        return {}

    @contextlib.asynccontextmanager
    async def unchanged(self, workspace: Workspace) -> AsyncGenerator[bool]:
        """Return whether a workspace is as it was read, and let nobody change it meanwhile."""
        async with self._lock(workspace.id):
            yield self._workspaces.get(workspace.id) is workspace

    def destroy(self, id_: str) -> None:
        """Destroy the data of a deleted workspace."""
        self._sandboxes.destroy_home(id_)
        self._remove(id_)

    async def start_member(self, member: Workspace) -> Workspace | None:
        """Start a member of a swarm unless it exists; restore a deleted one; return what existed before."""
        async with self._lock(member.id):
            existing = self._workspaces.get(member.id)
            if existing is None:
                await self.start(replace(member, cold=_COLD), "Created", "")
            elif existing.state == "deleted":
                await self._restore(existing, None)
            return existing

    async def undo_start(self, id_: str, before: Workspace | None) -> None:
        """Delete a member that was started: with its files, or as it was deleted before."""
        async with self._lock(id_):
            workspace = self._workspaces.get(id_)
            if workspace is None or workspace.state in {"deleting", "deleted"}:
                return
            if before is None or before.deleted_at is None or before.destroy_after is None:
                self.delete_current(workspace, timedelta(0))
            else:
                self.delete_current(workspace, before.destroy_after - before.deleted_at, before.deleted_at)

    def destroy_shared(self, task: str) -> None:
        """Destroy the data of a swarm's shared volume."""
        self._sandboxes.destroy_home(shared_claim(task))

    def _observe(self, id_: str, status: Object) -> None:
        """Take the status that the sandbox of a workspace reports."""
        workspace = self._workspaces.get(id_)
        if workspace is None or workspace.state not in {"creating", "running", "failed"}:
            return
        state, why = _state(status)
        addresses = (status["podIP"],) if state == "running" else ()
        if (state, why, addresses) == (workspace.state, workspace.why, workspace.addresses):
            return
        self.put(replace(workspace, state=state, why=why, addresses=addresses, sandbox=id_, turned=self._now()))
        self.add_event(id_, state.capitalize(), why, warning=state == "failed")

    async def _restore(self, deleted: Workspace, before: RestoreCheck | None) -> None:
        """Start a deleted workspace again on its retained files."""
        if before is not None:
            await before(deleted)
        restored = replace(
            deleted,
            claim_uid=str(uuid.uuid4()),
            deleted_at=None,
            destroy_after=None,
            archive_ended=None,
            timeout=None,  # it has no client that would extend it
            cold=COLD_REASONS["returned"],
        )
        await self.start(restored, "Restored", "on its retained files")

    async def start(self, workspace: Workspace, reason: str, message: str) -> None:
        """Start the sandbox of a workspace, which is being created until it is ready."""
        of_class = self._catalog.get(workspace.class_name)
        starting = replace(
            workspace,
            state="creating",
            suspended_because=None,
            addresses=(),
            volume_retained=of_class.has_homes,
            current_size=workspace.size,
            size_pending=None,
            why="",
            last_active=self._now(),
            deadline=self._new_deadline(workspace),
        )
        self.put(starting)
        self.add_event(workspace.id, reason, message)
        await self._sandboxes.start(starting, of_class, self._observe)

    def _new_deadline(self, workspace: Workspace) -> datetime | None:
        return deadline_after_resume(workspace.timeout, workspace.deadline, self._now())

    async def _finish_delete(self, id_: str) -> None:
        """End the sandbox of a workspace that is being deleted, and retain its files or destroy them."""
        async with self._lock(id_):
            await self._sandboxes.stop(id_)
            deleting = self._workspaces[id_]
            if self._catalog.get(deleting.class_name).has_homes:
                self.put(replace(deleting, state="deleted", addresses=(), sandbox=None, leases=()))
                if deleting.destroy_after == deleting.deleted_at:
                    self.destroy(id_)
            else:
                self._remove(id_)

    async def _report(self, id_: str, wait: float, *, existed: bool) -> CreateResult:
        """Return the result of a start: ready, failed, or still being created after so many seconds."""
        await self._wait(id_, wait, lambda workspace: workspace.state != "creating")
        workspace = self._required(id_)
        return CreateResult(workspace, ready=workspace.state == "running", existed=existed, cold=workspace.cold)

    async def _wait(self, id_: str, seconds: float, reached: Callable[[Workspace], bool]) -> None:
        def is_reached() -> bool:
            workspace = self._workspaces.get(id_)
            return workspace is None or reached(workspace)

        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(is_reached)
        except TimeoutError:
            return

    def _required(self, id_: str) -> Workspace:
        workspace = self._workspaces.get(id_)
        if workspace is None:
            raise not_found("workspace")
        return workspace

    def _existing(self, id_: str) -> Workspace:
        """Return a workspace that is not deleted; raise a `Problem` for others."""
        workspace = self._required(id_)
        if workspace.state == "deleted":
            raise not_found("workspace")
        refuse_deleting(workspace)
        return workspace

    def put(self, workspace: Workspace) -> Workspace:
        """Write a workspace; return it."""
        self._records.put(workspace)
        self._workspaces[workspace.id] = workspace
        self._notify(workspace.id)
        return workspace

    def _remove(self, id_: str) -> None:
        self._records.remove(id_)
        self._workspaces.pop(id_, None)
        self._notify(id_)

    def _notify(self, id_: str) -> None:
        self.log.note_change(id_)

        async def notify() -> None:
            async with self._changed:
                self._changed.notify_all()

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return  # before it is served nobody waits
        self._in_background(notify())

    def add_event(self, id_: str, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an event of a workspace."""
        event = Event(self._now(), f"Workspace/{id_}", reason, message, warning=warning)
        self.log.add(self._records.add_event(id_, event), id_, event)

    def _lock(self, id_: str) -> asyncio.Lock:
        return self._locks.setdefault(id_, asyncio.Lock())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _new(request: CreateRequest, now: datetime) -> Workspace:
    return Workspace(
        id=request.id,
        owner=request.owner,
        class_name=request.class_name,
        mode=request.mode,
        state="creating",
        created=now,
        claim_uid=str(uuid.uuid4()),
        task=request.task,
        size=request.size,
        current_size=request.size,
        key=request.fingerprint,
        created_by=request.created_by,
        labels=request.labels,
        shared=request.shared,
        idle_after=request.idle_after,
        deadline=request.deadline,
        timeout=request.timeout,
        metadata=request.metadata,
        budget=request.budget,
        grants=request.grants,
        archive=request.archive,
        parent=request.parent,
        cold=_COLD,
    )


def _changed(workspace: Workspace, changes: Changes) -> Workspace:
    """Return a workspace with the fields that a change sets."""
    values = {name: value for name, value in vars(changes).items() if value is not UNSET}
    if "size" in values:
        size = values["size"] = values["size"] or SMALL
        waits = workspace.state == "running" and size != workspace.current_size
        values["size_pending"] = _AT_NEXT_RESUME if waits else None
    changed = replace(workspace, **values)
    return replace(changed, leases=leases_after_sharing(workspace, changed.shared))


def _state(status: Object) -> tuple[State, str]:
    """Return the state of a workspace by the status of its pod, and why it does not run."""
    ready = any(row["type"] == "Ready" and row["status"] == "True" for row in status["conditions"])
    if ready:
        return "running", ""
    state = status["containerStatuses"][0]["state"]
    if status["phase"] in {"Failed", "Succeeded"}:
        ended = state.get("terminated", {})
        return "failed", status.get("message") or f"it ended with {ended.get('exitCode')} ({ended.get('reason')})"
    return "creating", state.get("waiting", {}).get("message", "")
