"""When a sleeping workspace is woken by itself: at the hour that was set, and where it should not be asleep.

Putting one to sleep is two writes: the claim says why, then its sandbox is told. Waking takes the reason away first. So
a sandbox that sleeps without a reason is one whose waking was cut short, or whose owner came while it was put to sleep:
it is woken, as long as there is a sign of them. One that somebody suspended by hand has neither, and sleeps on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from agentenv.core.lifecycle.clock_skew import SKEW, is_ahead
from agentenv.core.workspaces.workspace import Workspace

# A waking that was cut short is made up for within this; later its owner has asked again, or gone.
UNFINISHED = timedelta(minutes=10)
# An hour that was missed by more than this was for something that is over.
TOO_LATE = timedelta(hours=24)
# Only whoever may raise a budget or a deadline wakes what was stopped by it.
STOPPED = ("budget", "deadline")


@dataclass(frozen=True)
class WakeDecision:
    """Whether to wake it, and whether the hour that was set for it is to be forgotten."""

    wake: bool
    why: str
    forget: bool = False


def wake_decision(workspace: Workspace, now: datetime) -> WakeDecision:
    """What is to become of a sleeping workspace."""
    due = workspace.wake_at is not None and workspace.wake_at <= now
    if workspace.state not in {"suspended", "running"}:
        return WakeDecision(False, f"it is {workspace.state}")
    if workspace.state == "running":
        # Somebody was before it.
        return WakeDecision(False, "it is awake", forget=due)
    if workspace.suspended_because in STOPPED:
        return WakeDecision(False, f"it was stopped by its {workspace.suspended_because}")
    if workspace.wake_at is not None and due:
        late = now - workspace.wake_at > TOO_LATE
        return WakeDecision(
            not late, "its hour is long over" if late else "it is the hour that was set for it", forget=True
        )
    if workspace.suspended_because is None and (sign := _wake_reason(workspace, now)):
        return WakeDecision(True, sign)
    return WakeDecision(False, "nobody asked for it")


def _wake_reason(workspace: Workspace, now: datetime) -> str:
    """Of somebody who wants it, though nothing says why it sleeps."""
    if any(is_ahead(lease.until, now) for lease in workspace.leases):
        return "somebody is attached to it"
    if is_ahead(workspace.busy_until, now):
        return "a job says that it is busy"
    last = workspace.last_active
    if last is None or now - last > UNFINISHED:
        return ""
    # By the same clocks it was asked for before it fell asleep: that was somebody's own doing since.
    if workspace.turned is not None and workspace.turned - last > SKEW:
        return ""
    return "somebody asked for it"
