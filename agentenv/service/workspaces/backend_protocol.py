"""The operations on workspaces that routes call, without a type of what implements them.

`KubernetesBackend` implements them by claims of sandboxes. A backend keeps no state that a restart would lose, and
refuses an operation by a `Problem`. It does not authorize: its callers do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

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

    async def delete(self, id_: str, *, keep_for: timedelta) -> Workspace:
        """Delete a workspace; its data is retained for so long, and destroyed after that."""
        ...

    async def suspend(self, id_: str, because: Because) -> Workspace:
        """Suspend a workspace: its processes end, its files are retained."""
        ...

    async def resume(self, id_: str, *, wait: float, before_restore: RestoreCheck | None = None) -> CreateResult:
        """Resume a workspace; a deleted one whose data is retained is restored on it, as by `create`."""
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
