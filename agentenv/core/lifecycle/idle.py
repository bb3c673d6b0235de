"""When an idle workspace is suspended: after its class's time without attached clients, traffic or jobs.

An unknown activity keeps it running. Besides the claim's annotations, the caller passes sources of activity; each
reports when it last saw activity of a workspace, or that it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from agentenv.core.lifecycle.clock_skew import SKEW, is_ahead, latest_past
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.workspaces.workspace import Workspace


@dataclass(frozen=True)
class Activity:
    """The last activity of a workspace by one source: None for never."""

    source: str
    at: datetime | None = None
    known: bool = True
    decisive: bool = False  # whether it sees the sandbox from inside, so that what others cannot tell does not matter


@dataclass(frozen=True)
class IdleDecision:
    """A decision to suspend a workspace or not, its reason, and the time of the next check."""

    sleep: bool
    why: str
    again: datetime | None = None


def idle_decision(workspace: Workspace, limits: Limits, seen: Sequence[Activity], now: datetime) -> IdleDecision:
    """Return whether to suspend a workspace that runs, or to complete its suspension."""
    after = workspace.idle_after if workspace.idle_after is not None else limits.suspend_after
    if after is None:
        return IdleDecision(False, "it has no idle timeout")
    if running := _reason_to_run(workspace, seen, now):
        return running
    last = latest_past(
        [
            workspace.created,
            workspace.turned,
            workspace.last_active,
            _last_used(workspace),
            *(activity.at for activity in seen),
        ],
        now,
    )
    if last is None:
        return IdleDecision(False, "its creation time is unknown")
    idle_at = last + after + SKEW
    if now < idle_at:
        return IdleDecision(False, "it was used recently", idle_at)
    return IdleDecision(True, f"it was not used for {_format_interval(now - last)}")


def _reason_to_run(workspace: Workspace, seen: Sequence[Activity], now: datetime) -> IdleDecision | None:
    """Return a decision to keep it running whatever its last use, or None."""
    if workspace.state not in {"running", "suspending"}:
        return IdleDecision(False, f"it is {workspace.state}")
    if workspace.mode == "agent" and workspace.task and workspace.idle_after is None:
        # A swarm ends with its task; a swarm with suspended members would not work.
        return IdleDecision(False, "it is a member of a swarm")
    if busy := _busy(workspace, now):
        return busy
    if any(activity.known and activity.decisive for activity in seen):
        return None
    unknown = [activity.source for activity in seen if not activity.known]
    return IdleDecision(False, f"{', '.join(unknown)} does not know whether it is used") if unknown else None


def _busy(workspace: Workspace, now: datetime) -> IdleDecision | None:
    holders = [lease for lease in workspace.leases if is_ahead(lease.until, now)]
    if holders:
        return IdleDecision(False, f"{len(holders)} attached", max(lease.until for lease in holders) + SKEW)
    if is_ahead(workspace.busy_until, now):
        return IdleDecision(False, "a job reports that it is busy", workspace.busy_until)
    return None


def _last_used(workspace: Workspace) -> datetime | None:
    """Return when its last lease or job ended: until then it was used."""
    return max([*(lease.until for lease in workspace.leases), *_optional(workspace.busy_until)], default=None)


def _optional(timestamp: datetime | None) -> list[datetime]:
    return [] if timestamp is None else [timestamp]


def _format_interval(interval: timedelta) -> str:
    minutes = int(interval.total_seconds() // 60)
    return f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} hours"
