"""When a workspace sleeps: after its class's time in which nobody was attached, nothing went in or out, and no job ran.

Whatever cannot be known keeps it awake. What sources there are beside the claim's own annotations is for whoever asks
to say; each says when it last saw something of a workspace, or that it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from agentenv.core.lifecycle.clock_skew import SKEW, ahead, latest
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.workspaces.workspace import Workspace


@dataclass(frozen=True)
class Seen:
    """What one source knows of a workspace: when it was last active, if ever."""

    source: str
    at: datetime | None = None
    known: bool = True


@dataclass(frozen=True)
class Rest:
    """Whether a workspace is to sleep, why, and when it is worth looking again."""

    sleep: bool
    why: str
    again: datetime | None = None


def rest(workspace: Workspace, limits: Limits, seen: Sequence[Seen], now: datetime) -> Rest:
    """What is to become of a running workspace."""
    after = workspace.idle_after if workspace.idle_after is not None else limits.suspend_after
    if after is None:
        return Rest(False, "nobody said after what time it sleeps")
    if stays := _stays(workspace, seen, now):
        return stays
    last = latest(
        [workspace.created, workspace.turned, workspace.last_active, _let_go(workspace), *(one.at for one in seen)], now
    )
    if last is None:
        return Rest(False, "nobody knows since when it is there")
    at = last + after + SKEW
    if now < at:
        return Rest(False, "it was used lately", at)
    return Rest(True, f"nobody used it for {_told(now - last)}")


def _stays(workspace: Workspace, seen: Sequence[Seen], now: datetime) -> Rest | None:
    """Why it is awake, whenever it was used last."""
    if workspace.state != "running":
        return Rest(False, f"it is {workspace.state}")
    if workspace.mode == "agent" and workspace.task and workspace.idle_after is None:
        # A swarm ends with its task; half of it asleep is no swarm.
        return Rest(False, "it is one of a task's")
    if busy := _busy(workspace, now):
        return busy
    unknown = [one.source for one in seen if not one.known]
    return Rest(False, f"{', '.join(unknown)} cannot tell whether it is used") if unknown else None


def _busy(workspace: Workspace, now: datetime) -> Rest | None:
    holders = [lease for lease in workspace.leases if ahead(lease.until, now)]
    if holders:
        return Rest(False, f"{len(holders)} are attached", max(lease.until for lease in holders) + SKEW)
    if ahead(workspace.busy_until, now):
        return Rest(False, "a job says that it is busy", workspace.busy_until)
    return None


def _let_go(workspace: Workspace) -> datetime | None:
    """When the last of its leases ran out, or its job: until then it was used."""
    return max([*(lease.until for lease in workspace.leases), *_some(workspace.busy_until)], default=None)


def _some(moment: datetime | None) -> list[datetime]:
    return [] if moment is None else [moment]


def _told(time: timedelta) -> str:
    minutes = int(time.total_seconds() // 60)
    return f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} hours"
