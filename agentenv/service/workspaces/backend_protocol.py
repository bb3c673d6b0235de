"""What the API and the loops need of whatever gives workspaces: all effects go through here, so they cannot differ.

A backend keeps nothing that a restart would lose. Whatever it refuses is a `Problem`. It does not ask who may do what:
whoever calls it has asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
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

# Whether somebody may have that, which is a `Problem` where they may not.
RestoreCheck = Callable[[Workspace], Awaitable[None]]


class Backend(Protocol):
    """Gives, keeps and takes away workspaces. Every call may be made again without harm, by several at once."""

    async def create(
        self, request: CreateRequest, *, wait: float, before_restore: RestoreCheck | None = None
    ) -> CreateResult:
        """The workspace of an owner and a key, made if it is not there; waits so many seconds for it to be ready.

        Where it was deleted, and is made anew on its data, `before_restore` is asked first with what it will be.
        """
        ...

    async def get(self, id_: str) -> Workspace | None:
        """One workspace as it is now, deleted ones whose data is kept included."""
        ...

    async def settled(self, id_: str, *, wait: float) -> Workspace | None:
        """The same, once it is neither on its way nor going, or after so many seconds as it is then."""
        ...

    async def list(self, chosen: Filter, *, limit: int, after: str | None = None) -> Page:
        """A page of workspaces by id, as this replica has been told of them: a moment old at the most."""
        ...

    async def update(self, id_: str, changes: Changes, *, wait: float) -> CreateResult:
        """Change what is said of it; another class makes it anew, cold, on the same data."""
        ...

    async def delete(self, id_: str, *, keep_for: timedelta) -> Workspace:
        """Take it away; its data is kept for so long, and destroyed after that."""
        ...

    async def suspend(self, id_: str, because: Because) -> Workspace:
        """Let it sleep: its processes end, its files stay."""
        ...

    async def resume(self, id_: str, *, wait: float, before_restore: RestoreCheck | None = None) -> CreateResult:
        """Wake it; one that was deleted, and whose data is kept, is made anew on it, as by `create`."""
        ...

    async def attach(self, id_: str, lease: Lease) -> Workspace:
        """Take or renew a lease, where the workspace's mode allows one more."""
        ...

    async def detach(self, id_: str, holder: str) -> Workspace:
        """Give a lease back; one that is not there is no harm."""
        ...

    async def events(self, id_: str) -> Sequence[Event]:
        """What happened to it lately, the latest first."""
        ...

    def count_by_state(self) -> Mapping[tuple[str, str], int]:
        """How many workspaces there are, by class and state."""
        ...

    def is_synced(self) -> bool:
        """Whether it has seen everything there is once, and has been told of changes lately."""
        ...

    def unreadable(self) -> Mapping[str, int]:
        """How many objects of the cluster cannot be read, by kind."""
        ...
