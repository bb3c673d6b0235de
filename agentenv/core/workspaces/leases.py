"""Leases on workspaces: who may hold one beside whom, and which of them still count. Pure: the clock is told.

A workspace of mode `agent` is one agent's: one may write at a time, and nobody reads beside it. The others are held by
as many as come. A lease that ran out counts for nothing, whether or not anybody has taken it away.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from agentenv.core.workspaces.workspace import Lease, Workspace

# What fits on an object, and more than ever share one computer.
MAX_LEASES = 32


class LeaseRefused(ValueError):
    """Why there can be no such lease now; the message says who holds one."""


def attach_lease(workspace: Workspace, lease: Lease, now: datetime) -> tuple[Lease, ...]:
    """The leases with this one taken or renewed."""
    others = [one for one in workspace.held(now) if one.holder != lease.holder]
    if workspace.mode == "agent" and others:
        raise LeaseRefused(f"{others[0].holder} holds it until {others[0].until:%H:%M:%S} UTC, and it is for one agent")
    if len(others) >= MAX_LEASES:
        raise LeaseRefused(f"{MAX_LEASES} hold it already")
    return (*others, lease)


def detach_lease(leases: Sequence[Lease], holder: str, now: datetime) -> tuple[Lease, ...]:
    """The leases without a holder's."""
    return tuple(one for one in leases if one.holder != holder and one.until > now)
