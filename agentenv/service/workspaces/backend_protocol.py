"""The operations on workspaces that routes and loops call, without a type of what implements them.

`KubernetesBackend` and `KubernetesLoopBackend` implement them by claims of sandboxes, `LocalBackend` and
`LocalLoopBackend` by processes of one machine. A backend keeps no state that a restart would lose, and refuses an
operation of a route by a `Problem`. It does not authorize: its callers do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, Protocol

from agentenv.core.lifecycle.limits import Limits
from agentenv.core.lifecycle.retention import Home, RetentionDecision
from agentenv.core.workspaces.child_budgets import ChildBudgets
from agentenv.core.workspaces.swarms import SwarmRequest
from agentenv.core.workspaces.workspace import (
    Because,
    Changes,
    CreateRequest,
    CreateResult,
    Event,
    Filter,
    Lease,
    Page,
    Workspace,
)

if TYPE_CHECKING:
    from agentenv.service.workspaces.event_log import EventLog

# Raises a `Problem` where the caller may not have the workspace that would be restored.
RestoreCheck = Callable[[Workspace], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the workspaced of a pod is reached, and the claim that the pod belongs to."""

    pod_uid: str
    claim_uid: str
    address: str
    port: int

    @property
    def destination(self) -> str:
        """Return the address and the port."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """A warm pool: its size, and how many of its sandboxes are ready."""

    name: str
    class_name: str
    channel: str
    size: int
    ready: int
    retiring: bool


class Backend(Protocol):
    """Creates, reads, changes and deletes workspaces. Calls may be repeated, and made by several replicas at once."""

    log: EventLog  # the recent events of all workspaces, and their changes as they come

    async def create(
        self,
        request: CreateRequest,
        *,
        wait: float,
        warm_only: bool = False,
        before_restore: RestoreCheck | None = None,
    ) -> CreateResult:
        """Return the workspace of an owner and a key, created if it does not exist; wait so many seconds until it runs.

        A deleted one is restored on its data, after `before_restore` has accepted it. With `warm_only` a `Problem` is
        raised instead of a cold start.
        """
        ...

    async def get(self, id_: str) -> Workspace | None:
        """Return a workspace as it is now, also a deleted one whose data is retained."""
        ...

    def cached(self, id_: str) -> Workspace | None:
        """Return a workspace from the cache of this replica, which may be a moment old."""
        ...

    def endpoint(self, id_: str) -> Endpoint | None:
        """Return where the workspaced of a running workspace is reached, from the cache of this replica."""
        ...

    def lacks_workspaced(self, id_: str) -> bool:
        """Return whether what runs for a workspace has no workspaced, and never will before it is suspended."""
        ...

    async def reachable(self, id_: str, *, wait: float) -> Endpoint | None:
        """Return the endpoint of a workspace once it can be reached, or None after so many seconds."""
        ...

    async def settled(self, id_: str, *, wait: float) -> Workspace | None:
        """Return a workspace once it is neither being created nor being deleted, or after so many seconds."""
        ...

    async def list(self, chosen: Filter, *, limit: int, after: str | None = None) -> Page:
        """Return a page of workspaces by id, from the cache of this replica."""
        ...

    async def update(self, id_: str, changes: Changes, *, wait: float) -> CreateResult:
        """Change a workspace; another class creates it anew, cold, on the same data."""
        ...

    async def change(self, id_: str, build: Callable[[Workspace], Changes], *, wait: float = 0.0) -> CreateResult:
        """Change a workspace in one step by what `build` returns for it as it is; others change it before or after.

        A `Problem` that `build` raises changes nothing.
        """
        ...

    async def delete(self, id_: str, *, keep_for: timedelta) -> Workspace:
        """Delete a workspace; its data is retained for so long, and destroyed after that."""
        ...

    async def suspend(self, id_: str, because: Because) -> Workspace:
        """Suspend a workspace: its processes end, its files are retained."""
        ...

    async def resume(
        self,
        id_: str,
        *,
        wait: float,
        before_restore: RestoreCheck | None = None,
        on_requested: Callable[[], None] | None = None,
    ) -> CreateResult:
        """Resume a workspace; a deleted one whose data is retained is restored on it, as by `create`.

        `on_requested` is called once the start is requested, and only waiting is left. It may be called again, or not.
        """
        ...

    async def attach(self, id_: str, lease: Lease) -> Workspace:
        """Create or renew a lease, if the workspace's mode allows another one."""
        ...

    async def detach(self, id_: str, holder: str) -> Workspace:
        """Release a lease; one that does not exist is no error."""
        ...

    async def end_session(self, owner: str, archive: str) -> int:
        """Record that an owner's chat left the archive; return the number of its workspaces, deleted ones included."""
        ...

    async def events(self, id_: str) -> Sequence[Event]:
        """Return the recent events of a workspace, the latest first."""
        ...

    async def notify(self, id_: str, reason: str, message: str) -> None:
        """Record an event of a workspace that its owner sees among its events."""
        ...

    def pools(self) -> Sequence[PoolStatus]:
        """Return the warm pools of all classes."""
        ...

    def count_by_state(self) -> Mapping[tuple[str, str], int]:
        """Return the number of workspaces by class and state."""
        ...

    def existing_workspaces(self) -> Sequence[Workspace] | None:
        """Return all workspaces that are not deleted, as the loops read them; None while the cache is not synced."""
        ...

    def is_synced(self) -> bool:
        """Return whether everything was read once, and the cache is not stale."""
        ...

    def unreadable(self) -> Mapping[str, int]:
        """Return the number of objects that cannot be read, by kind."""
        ...


# `resumed`: another caller resumed it between two writes. `stopping`: its former pod has not ended yet; it is resumed
# after that, by another call or by the loops.
Outcome = Literal["done", "already", "resumed", "stopping", "overtaken", "no-sandbox"]


class Clock(Protocol):
    """A source of the current time."""

    @property
    def known(self) -> bool:
        """Return whether the time is certain; data is destroyed only then."""
        ...

    def now(self) -> datetime:
        """Return the current time."""
        ...


class CurrentWorkspace(Protocol):
    """A workspace as a loop has just read it; an action does nothing where it was changed since."""

    @property
    def workspace(self) -> Workspace:
        """Return the workspace."""
        ...

    @property
    def replaced_at(self) -> datetime | None:
        """Return when its failed sandbox was replaced last."""
        ...

    @property
    def noticed(self) -> str | None:
        """Return the month in which its owner was last notified of its budget."""
        ...

    async def suspend(self, because: Because) -> Outcome:
        """Suspend it."""
        ...

    async def resume(self, *, requested: bool = False) -> Outcome:
        """Resume it, and remove its wake time unless it is as if requested."""
        ...

    async def delete(self, keep_for: timedelta) -> bool:
        """Delete it, and retain its data for so long; return whether it is being deleted."""
        ...

    async def set_budget(self, budget: Decimal | None, children: ChildBudgets) -> bool:
        """Write its budget, and the part that its children hold."""
        ...

    async def clear_wake_time(self) -> bool:
        """Remove a time to wake that has passed."""
        ...

    async def failure(self) -> str | None:
        """Return why its sandbox failed, where another one may replace it."""
        ...

    async def is_stopped(self) -> bool:
        """Return whether nothing of its sandbox runs."""
        ...

    async def mark_replaced(self, now: datetime) -> bool:
        """Record that its failed sandbox is being replaced, and that it is suspended for that."""
        ...

    async def mark_noticed(self, month: str) -> bool:
        """Record that its owner was notified of its budget."""
        ...

    async def warn(self, reason: str, message: str, now: datetime, *, once: str = "") -> None:
        """Record an event that its owner sees; with `once` it exists once under that name."""
        ...


class RetainedHome(Protocol):
    """The data of a workspace, which may be deleted."""

    home: Home
    class_name: str

    async def apply(self, decision: RetentionDecision) -> bool:
        """Take the action of a decision; return whether something was changed."""
        ...


class LoopBackend(Protocol):
    """The operations on workspaces that loops call."""

    async def limits(self) -> Mapping[str, Limits]:
        """Return the limits of each class."""
        ...

    async def recent_workspaces(self, age: float) -> Sequence[Workspace]:
        """Return all workspaces that are not deleted, at most so many seconds old; loops share one list."""
        ...

    def every_workspace(self, failures: list[str]) -> AsyncIterator[Workspace]:
        """Yield all workspaces, deleted ones with retained data included; add those that cannot be read to failures."""
        ...

    async def reread(self, workspace: Workspace, failures: list[str]) -> CurrentWorkspace | None:
        """Return a workspace as it is now; None where it is another one by now, or its sandbox does not exist yet."""
        ...

    async def exists(self, id_: str, classes: Iterable[str]) -> bool:
        """Return whether a workspace exists in one of the classes, whatever the cache has."""
        ...

    async def sandbox_endpoint(self, workspace: Workspace) -> Endpoint | None:
        """Return where the workspaced of a workspace's sandbox is reached; None without one."""
        ...

    def retained_homes(self, failures: list[str], *, requested: bool = False) -> AsyncIterator[RetainedHome]:
        """Yield the homes about which something may have to be decided, or those whose destruction was requested."""
        ...

    async def complete_destructions(self, should_continue: Callable[[], bool]) -> int:
        """Complete the records of destroyed data that is gone; return their number."""
        ...


SwarmState = Literal["creating", "running", "failed"]


@dataclass(frozen=True)
class SwarmStatus:
    """The status of a swarm."""

    task: str
    class_name: str
    count: int
    members: tuple[Workspace, ...]
    state: SwarmState
    why: str | None = None


class Swarms(Protocol):
    """Creates, reads and deletes the swarms of owners' tasks."""

    async def create(self, request: SwarmRequest, *, wait: float) -> SwarmStatus:
        """Create all of a swarm, or as many as fit; return its status after at most `wait` seconds."""
        ...

    async def find(self, owner: str, task: str) -> SwarmStatus:
        """Return the status of a swarm."""
        ...

    async def list(self, owner: str, limit: int, after: str | None) -> list[SwarmStatus]:
        """Return the status of an owner's swarms by task."""
        ...

    async def end(self, owner: str, task: str, *, destroy: bool = False) -> None:
        """Delete a swarm. Its data is retained like that of workspaces, or destroyed."""
        ...

    async def destroy_kept(self, owner: str, task: str) -> bool:
        """Request the destruction of a deleted swarm's retained data; return whether there was any."""
        ...
