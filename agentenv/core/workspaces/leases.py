"""Leases on workspaces: who may hold them at the same time. Pure functions, with the time as an argument.

A workspace of mode `agent` has one lease for writing at a time; others have several. An expired lease is ignored,
whether or not it was removed. The holder of a lease is `<caller>/<name>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from agentenv.core.workspaces.workspace import TEAM, Access, Lease, Workspace

# More than ever share a workspace, and few enough for an annotation.
MAX_LEASES = 32
# Of callers that it is shared with, so that its owner can always attach.
MAX_PER_CALLER, MAX_OF_OTHERS = 4, 24


class LeaseRefused(ValueError):
    """A lease is not possible now; the message names the holder."""


def attach_lease(workspace: Workspace, lease: Lease, now: datetime) -> tuple[Lease, ...]:
    """Return the leases with this one added or renewed."""
    others = [each for each in workspace.held(now) if each.holder != lease.holder]
    writer = next((each for each in others if each.mode == "rw"), None)
    if workspace.mode == "agent" and lease.mode == "rw" and writer is not None:
        until = f"{writer.until:%Y-%m-%d %H:%M:%S}"
        raise LeaseRefused(f"{writer.holder} holds it until {until} UTC, and it is for one agent")
    if len(others) >= MAX_LEASES:
        raise LeaseRefused(f"it already has {MAX_LEASES} leases")
    caller = caller_of(lease)
    if caller != workspace.owner:
        if sum(caller_of(each) == caller for each in others) >= MAX_PER_CALLER:
            raise LeaseRefused(f"{caller} already has {MAX_PER_CALLER} leases on it")
        if sum(caller_of(each) != workspace.owner for each in others) >= MAX_OF_OTHERS:
            raise LeaseRefused(f"others than its owner already have {MAX_OF_OTHERS} leases")
    return (*others, lease)


def caller_of(lease: Lease) -> str:
    """Return the caller who holds a lease."""
    return lease.holder.rpartition("/")[0]


def leases_after_sharing(workspace: Workspace, shared: Mapping[str, Access]) -> tuple[Lease, ...]:
    """Return the leases that remain when a workspace is shared with these callers and teams.

    The teams of a holder are not known. So leases of members end when any team may do less than before.
    """
    teams = {name: access for name, access in workspace.shared.items() if name.startswith(TEAM)}
    same_teams = all(shared.get(name) in {access, "rw"} for name, access in teams.items())

    def remains(lease: Lease) -> bool:
        caller = caller_of(lease)
        if caller == workspace.owner:
            return True
        access = shared.get(caller)
        if access is None and caller not in workspace.shared:
            return same_teams
        return access in {"rw", lease.mode}

    return tuple(filter(remains, workspace.leases))


def detach_lease(leases: Sequence[Lease], holder: str, now: datetime) -> tuple[Lease, ...]:
    """Return the leases without that of a holder, and without expired ones."""
    return tuple(lease for lease in leases if lease.holder != holder and lease.until > now)
