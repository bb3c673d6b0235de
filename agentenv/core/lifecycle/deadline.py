"""When a workspace ends: at its deadline it is suspended for good, at its class's maximum lifetime it is deleted.

Its data is retained either way. A session is also deleted when its chat leaves the archive, which the chat application
reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from agentenv.core.lifecycle.clock_skew import has_passed
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.workspaces.workspace import Workspace

Do = Literal["nothing", "suspend", "delete"]


@dataclass(frozen=True)
class EndDecision:
    """The action at a workspace's end, and how long its data is then retained."""

    do: Do
    why: str
    keep_for: timedelta | None = None


def end_decision(workspace: Workspace, limits: Limits, now: datetime) -> EndDecision:
    """Return the action for a workspace now."""
    if workspace.state == "deleting":
        return EndDecision("nothing", "it is being deleted")
    retention = limits.kept_for(workspace.mode)
    if retention is not None:
        # Without a retention period nothing is deleted, because its data would have no end.
        if limits.max_lifetime is not None and workspace.created is not None:
            over = workspace.created + limits.max_lifetime
            if has_passed(over, now):
                return EndDecision("delete", f"its class has a maximum lifetime of {limits.max_lifetime}", retention)
        ended = workspace.archive_ended
        if workspace.mode == "session" and ended is not None and has_passed(ended, now):
            return EndDecision("delete", "its chat is no longer in the archive", retention)
    if workspace.deadline is not None and has_passed(workspace.deadline, now):
        if workspace.state == "suspended" and workspace.suspended_because in {"deadline", "budget"}:
            return EndDecision("nothing", "it is already suspended for good")
        return EndDecision("suspend", "its deadline has passed")
    return EndDecision("nothing", "its end is in the future")
