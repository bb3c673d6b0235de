"""When a workspace sleeps: after its class's time in which nobody was attached, nothing went in or out, and no job ran.

Whatever cannot be known keeps it awake. What sources there are beside the claim's own annotations is for whoever asks
to say; each says when it last saw something of a workspace, or that it does not know.
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
    """What one source knows of a workspace: when it was last active, if ever."""

    source: str
    at: datetime | None = None
    known: bool = True


@dataclass(frozen=True)
class IdleDecision:
    """Whether a workspace is to sleep, why, and when it is worth looking again."""

    sleep: bool
    why: str
    again: datetime | None = None


def idle_decision(workspace: Workspace, limits: Limits, seen: Sequence[Activity], now: datetime) -> IdleDecision:
    """What is to become of a running workspace."""
    after = workspace.idle_after if workspace.idle_after is not None else limits.suspend_after
    if after is None:
        return IdleDecision(False, "nobody said after what time it sleeps")
    if stays := _reason_to_stay(workspace, seen, now):
        return stays
    last = latest_past(
        [workspace.created, workspace.turned, workspace.last_active, _last_used(workspace), *(one.at for one in seen)],
        now,
    )
    if last is None:
        return IdleDecision(False, "nobody knows since when it is there")
    at = last + after + SKEW
    if now < at:
        return IdleDecision(False, "it was used lately", at)
    return IdleDecision(True, f"nobody used it for {_format_interval(now - last)}")


def _reason_to_stay(workspace: Workspace, seen: Sequence[Activity], now: datetime) -> IdleDecision | None:
    """Why it is awake, whenever it was used last."""
    if workspace.state != "running":
        return IdleDecision(False, f"it is {workspace.state}")
    if workspace.mode == "agent" and workspace.task and workspace.idle_after is None:
        # A swarm ends with its task; half of it asleep is no swarm.
        return IdleDecision(False, "it is one of a task's")
    if busy := _busy(workspace, now):
        return busy
    unknown = [one.source for one in seen if not one.known]
    return IdleDecision(False, f"{', '.join(unknown)} cannot tell whether it is used") if unknown else None


def _busy(workspace: Workspace, now: datetime) -> IdleDecision | None:
    holders = [lease for lease in workspace.leases if is_ahead(lease.until, now)]
    if holders:
        return IdleDecision(False, f"{len(holders)} are attached", max(lease.until for lease in holders) + SKEW)
    if is_ahead(workspace.busy_until, now):
        return IdleDecision(False, "a job says that it is busy", workspace.busy_until)
    return None


def _last_used(workspace: Workspace) -> datetime | None:
    """When the last of its leases ran out, or its job: until then it was used."""
    return max([*(lease.until for lease in workspace.leases), *_optional(workspace.busy_until)], default=None)


def _optional(moment: datetime | None) -> list[datetime]:
    return [] if moment is None else [moment]


def _format_interval(time: timedelta) -> str:
    minutes = int(time.total_seconds() // 60)
    return f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} hours"
