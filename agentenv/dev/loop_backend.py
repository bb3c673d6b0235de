"""The operations of the service's loops on the workspaces of one machine: each requires the record that was read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from agentenv.core.lifecycle.limits import Limits
from agentenv.core.lifecycle.retention import Home, RetentionDecision
from agentenv.core.workspaces.child_budgets import ChildBudgets
from agentenv.core.workspaces.workspace import Because, Workspace
from agentenv.service.workspaces.backend_protocol import CurrentWorkspace, LoopBackend, Outcome, RetainedHome

if TYPE_CHECKING:
    from agentenv.dev.backend import LocalBackend
    from agentenv.dev.swarms import LocalSwarms
    from agentenv.service.catalog import Catalog
    from agentenv.service.workspaces.backend_protocol import Endpoint


@dataclass
class Remembered:
    """The state of workspaces that loops hold while the process runs."""

    replaced: dict[str, datetime] = field(default_factory=dict[str, datetime])
    noticed: dict[str, str] = field(default_factory=dict[str, str])
    warned: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])


class CurrentRecord(CurrentWorkspace):
    """A workspace by its record as it was read."""

    def __init__(self, backend: LocalBackend, remembered: Remembered, workspace: Workspace) -> None:
        self._backend, self._remembered, self._workspace = backend, remembered, workspace

    @property
    def workspace(self) -> Workspace:
        """Return the workspace."""
        return self._workspace

    @property
    def replaced_at(self) -> datetime | None:
        """Return when its failed sandbox was replaced last."""
        return self._remembered.replaced.get(self._workspace.id)

    @property
    def noticed(self) -> str | None:
        """Return the month in which its owner was last notified of its budget."""
        return self._remembered.noticed.get(self._workspace.id)

    async def suspend(self, because: Because) -> Outcome:
        """End its processes."""
        async with self._backend.unchanged(self._workspace) as unchanged:
            if not unchanged:
                return "overtaken"
            await self._backend.suspend_current(self._workspace, because)
        return "already" if self._workspace.state == "suspended" else "done"

    async def resume(self, *, requested: bool = False) -> Outcome:
        """Start its processes."""
        async with self._backend.unchanged(self._workspace) as unchanged:
            if not unchanged:
                return "overtaken"
            await self._backend.start(
                replace(self._workspace, wake_at=self._workspace.wake_at if requested else None), "Resumed", ""
            )
        return "done"

    async def delete(self, keep_for: timedelta) -> bool:
        """Delete it."""
        async with self._backend.unchanged(self._workspace) as unchanged:
            if unchanged:
                self._backend.delete_current(self._workspace, keep_for)
        return unchanged

    async def set_budget(self, budget: Decimal | None, children: ChildBudgets) -> bool:
        """Write its budget, and the part that its children hold."""
        async with self._backend.unchanged(self._workspace) as unchanged:
            if unchanged:
                self._backend.put(replace(self._workspace, budget=budget, child_budgets=children))
        return unchanged

    async def clear_wake_time(self) -> bool:
        """Remove a time to wake that has passed."""
        async with self._backend.unchanged(self._workspace) as unchanged:
            if unchanged:
                self._backend.put(replace(self._workspace, wake_at=None))
        return unchanged

    async def failure(self) -> str | None:
        """Return why its processes ended."""
        return self._workspace.why if self._workspace.state == "failed" else None

    async def is_stopped(self) -> bool:
        """Return whether its processes ended: a suspended workspace has none."""
        return self._workspace.state == "suspended"

    async def mark_replaced(self, now: datetime) -> bool:
        """Remember that its failed sandbox is being replaced."""
        self._remembered.replaced[self._workspace.id] = now
        return True

    async def mark_noticed(self, month: str) -> bool:
        """Remember that its owner was notified of its budget."""
        self._remembered.noticed[self._workspace.id] = month
        return True

    async def warn(self, reason: str, message: str, now: datetime, *, once: str = "") -> None:  # noqa: ARG002 - by its own clock
        """Record an event."""
        key = (self._workspace.id, reason, once)
        if not once or key not in self._remembered.warned:
            self._remembered.warned.add(key)
            self._backend.add_event(self._workspace.id, reason, message, warning=True)


@dataclass
class RetainedFolder(RetainedHome):
    """The home of a deleted workspace, which is a folder."""

    backend: LocalBackend
    workspace: Workspace
    home: Home
    class_name: str

    async def apply(self, decision: RetentionDecision) -> bool:
        """Date the deletion anew, or destroy the folder."""
        async with self.backend.unchanged(self.workspace) as unchanged:
            if not unchanged or decision.do not in {"date", "destroy"}:
                return False
            if decision.do == "destroy":
                self.backend.destroy(self.workspace.id)
            else:
                self.backend.put(replace(self.workspace, destroy_after=decision.destroy_after))
        return True


@dataclass
class SharedFolder(RetainedHome):
    """The shared folder of a deleted swarm."""

    swarms: LocalSwarms
    name: str
    home: Home
    class_name: str

    async def apply(self, decision: RetentionDecision) -> bool:
        """Destroy the folder."""
        if decision.do == "destroy":
            self.swarms.destroy(self.name)
        return decision.do == "destroy"


class LocalLoopBackend(LoopBackend):
    """The workspaces of one machine, as loops read them."""

    def __init__(self, backend: LocalBackend, catalog: Catalog, swarms: LocalSwarms) -> None:
        self._backend, self._catalog, self._swarms, self._remembered = backend, catalog, swarms, Remembered()

    async def limits(self) -> dict[str, Limits]:
        """Return the limits of each class."""
        settings = self._catalog.settings
        return {
            name: Limits(
                of_class.idle_after,
                of_class.max_lifetime,
                settings.storage.retain_deleted_for,
                settings.service.session_retention,
            )
            for name, of_class in self._catalog.classes.items()
        }

    async def recent_workspaces(self, age: float) -> list[Workspace]:  # noqa: ARG002 - they are current
        """Return all workspaces that are not deleted."""
        return self._backend.existing_workspaces()

    async def every_workspace(self, failures: list[str]) -> AsyncIterator[Workspace]:  # noqa: ARG002 - all were read at the start
        """Yield all workspaces."""
        for workspace in self._backend.all_workspaces():
            yield workspace

    async def reread(self, workspace: Workspace, failures: list[str]) -> CurrentRecord | None:  # noqa: ARG002 - as above
        """Return a workspace as it is now."""
        current = self._backend.cached(workspace.id)
        if current is None or current.claim_uid != workspace.claim_uid:
            return None
        return CurrentRecord(self._backend, self._remembered, current)

    async def exists(self, id_: str, classes: Iterable[str]) -> bool:  # noqa: ARG002 - an id has one class
        """Return whether a workspace exists, and is not deleted."""
        workspace = self._backend.cached(id_)
        return workspace is not None and workspace.state != "deleted"

    async def sandbox_endpoint(self, workspace: Workspace) -> Endpoint | None:
        """Return where the workspaced of a workspace is reached."""
        return self._backend.endpoint(workspace.id)

    async def retained_homes(self, failures: list[str], *, requested: bool = False) -> AsyncIterator[RetainedHome]:  # noqa: ARG002 - as above
        """Yield the homes of deleted workspaces, and shared folders; a home whose destruction is requested is gone."""
        for swarm in self._swarms.unused():
            if requested == (swarm.destroy_after == swarm.deleted_at):
                home = Home(
                    volume=swarm.name,
                    phase="Released",
                    owner=swarm.owner,
                    workspace=swarm.name,
                    task=swarm.name,
                    mode="agent",
                    deleted_at=swarm.deleted_at,
                    destroy_after=swarm.destroy_after,
                    destroy_requested=requested,
                    released_since=swarm.deleted_at,
                )
                yield SharedFolder(self._swarms, swarm.name, home, swarm.class_name)
        for row in [] if requested else self._backend.all_workspaces():
            if row.state == "deleted":
                home = Home(
                    volume=row.id,
                    phase="Released",
                    owner=row.owner,
                    workspace=row.id,
                    mode=row.mode,
                    deleted_at=row.deleted_at,
                    destroy_after=row.destroy_after,
                    archive_ended=row.archive_ended,
                    released_since=row.deleted_at,
                )
                yield RetainedFolder(self._backend, row, home, row.class_name)

    async def complete_destructions(self, should_continue: Callable[[], bool]) -> int:  # noqa: ARG002 - nothing is left to complete
        """Return zero: a folder is destroyed in one step."""
        return 0
