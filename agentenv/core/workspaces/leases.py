"""Leases on workspaces: who may hold them at the same time. Pure functions, with the time as an argument.

A workspace of mode `agent` has one lease at a time; others have several. An expired lease is ignored, whether or not it
was removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from agentenv.core.workspaces.workspace import Lease, Workspace

# More than ever share a workspace, and few enough for an annotation.
MAX_LEASES = 32


class LeaseRefused(ValueError):
    """A lease is not possible now; the message names the holder."""


def attach_lease(workspace: Workspace, lease: Lease, now: datetime) -> tuple[Lease, ...]:
    """Return the leases with this one added or renewed."""
    others = [each for each in workspace.held(now) if each.holder != lease.holder]
    if workspace.mode == "agent" and others:
        raise LeaseRefused(f"{others[0].holder} holds it until {others[0].until:%H:%M:%S} UTC, and it is for one agent")
    if len(others) >= MAX_LEASES:
        raise LeaseRefused(f"it already has {MAX_LEASES} leases")
    return (*others, lease)


def detach_lease(leases: Sequence[Lease], holder: str, now: datetime) -> tuple[Lease, ...]:
    """Return the leases without that of a holder, and without expired ones."""
    return tuple(lease for lease in leases if lease.holder != holder and lease.until > now)
