"""When a workspace ends: at its deadline it is suspended for good, at its class's maximum lifetime it is deleted.

Its data is retained either way. A child is deleted when its parent is gone, and suspended with one that is suspended at
its deadline. A session is deleted when its chat leaves the archive, which the chat application reports. One with a
timeout ends as that says, to the second: both its timestamps are by the API server's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from agentenv.core.lifecycle.clock_skew import has_passed
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.workspaces.workspace import Timeout, Workspace

Do = Literal["nothing", "suspend", "delete"]


@dataclass(frozen=True)
class EndDecision:
    """The action at a workspace's end, and how long its data is then retained."""

    do: Do
    why: str
    keep_for: timedelta | None = None


def end_decision(
    workspace: Workspace, limits: Limits, now: datetime, *, parent_is_gone: bool = False, parent_is_over: bool = False
) -> EndDecision:
    """Return the action for a workspace now. A parent is over that is suspended at its deadline."""
    if workspace.state == "deleting":
        return EndDecision("nothing", "it is being deleted")
    # Without a retention period nothing is deleted, because its data would have no end.
    if workspace.timeout is not None and timeout_is_over(workspace, now):
        deleted = workspace.timeout.then == "delete"
        return EndDecision(workspace.timeout.then, "its timeout is over", timedelta(0) if deleted else None)
    why = "its parent was deleted" if parent_is_gone else _why_expired(workspace, limits, now)
    if why is not None and limits.kept_for(workspace.mode) is not None:
        return EndDecision("delete", why, limits.kept_for(workspace.mode))
    passed = workspace.timeout is None and workspace.deadline is not None and has_passed(workspace.deadline, now)
    if passed or parent_is_over:
        if workspace.state in {"suspending", "suspended"} and workspace.suspended_because in {"deadline", "budget"}:
            return EndDecision("nothing", "it is already suspended for good")
        return EndDecision("suspend", "its deadline has passed" if passed else "the deadline of its parent has passed")
    return EndDecision("nothing", "its end is in the future")


def _why_expired(workspace: Workspace, limits: Limits, now: datetime) -> str | None:
    """Return why a workspace is deleted."""
    if limits.max_lifetime is not None and workspace.created is not None:
        over = workspace.created + limits.max_lifetime
        if has_passed(over, now):
            return f"its class has a maximum lifetime of {limits.max_lifetime}"
    if workspace.grants.ends is not None and has_passed(workspace.grants.ends, now):
        return "the life that it was granted is over"
    ended = workspace.archive_ended
    if workspace.mode == "session" and ended is not None and has_passed(ended, now):
        return "its chat is no longer in the archive"
    return None


def timeout_is_over(workspace: Workspace, now: datetime) -> bool:
    """Return whether a workspace has reached the end of its timeout; one that is suspended, or about to be, has not."""
    return (
        workspace.timeout is not None
        and workspace.deadline is not None
        and workspace.deadline <= now
        and workspace.suspended_because is None
        and workspace.state not in {"suspending", "suspended", "deleting", "deleted"}
    )


def deadline_after_resume(timeout: Timeout | None, deadline: datetime | None, now: datetime) -> datetime | None:
    """Return the deadline of a workspace that is resumed: a timeout that is over starts anew."""
    if timeout is None or (deadline is not None and deadline > now):
        return deadline
    return now + timedelta(seconds=timeout.seconds)
