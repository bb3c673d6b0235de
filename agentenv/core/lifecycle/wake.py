"""When a suspended workspace is resumed without a request: at its wake time, or if it should not be suspended.

A suspension is two writes: the reason on the claim, then the operating mode of the sandbox. A resume removes the reason
first. So a suspended sandbox without a reason was interrupted during its resume, or its owner returned during the
suspension: it is resumed if there is a sign of its owner. One that was suspended by hand has no such sign, and stays
suspended.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from agentenv.core.lifecycle.clock_skew import SKEW, is_ahead
from agentenv.core.workspaces.workspace import Workspace

# An interrupted resume is completed within this time; later its owner has repeated the request, or left.
UNFINISHED = timedelta(minutes=10)
# A wake time that was missed by more than this is ignored.
TOO_LATE = timedelta(hours=24)
# Suspensions that only a raised budget or deadline ends.
STOPPED = ("budget", "deadline")


@dataclass(frozen=True)
class WakeDecision:
    """A decision to resume a workspace or not, and to remove its wake time or not."""

    wake: bool
    why: str
    forget: bool = False


def wake_decision(workspace: Workspace, now: datetime) -> WakeDecision:
    """Return whether to resume a suspended workspace."""
    due = workspace.wake_at is not None and workspace.wake_at <= now
    if workspace.state not in {"suspended", "running"}:
        return WakeDecision(False, f"it is {workspace.state}")
    if workspace.state == "running":
        # It was resumed by a request before.
        return WakeDecision(False, "it is running", forget=due)
    if workspace.suspended_because in STOPPED:
        return WakeDecision(False, f"it is suspended because of its {workspace.suspended_because}")
    if workspace.wake_at is not None and due:
        late = now - workspace.wake_at > TOO_LATE
        return WakeDecision(not late, "its wake time was missed" if late else "its wake time has come", forget=True)
    if workspace.suspended_because is None and (reason := _wake_reason(workspace, now)):
        return WakeDecision(True, reason)
    return WakeDecision(False, "nobody requested it")


def _wake_reason(workspace: Workspace, now: datetime) -> str:
    """Return a sign that its owner uses it, although it has no reason for its suspension; empty if there is none."""
    if any(is_ahead(lease.until, now) for lease in workspace.leases):
        return "a client is attached to it"
    if is_ahead(workspace.busy_until, now):
        return "a job reports that it is busy"
    last = workspace.last_active
    if last is None or now - last > UNFINISHED:
        return ""
    # It was requested before it was suspended, so a person suspended it since.
    if workspace.turned is not None and workspace.turned - last > SKEW:
        return ""
    return "it was requested recently"
