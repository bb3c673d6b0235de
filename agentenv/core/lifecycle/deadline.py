"""When a workspace ends: at its deadline it sleeps and stays asleep, at the end of its class's life it goes.

Its data is kept either way. A session goes with its chat's archive, which is told by whoever keeps the chats.
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
    """What is to be done about a workspace's end, and how long its data is then kept."""

    do: Do
    why: str
    keep_for: timedelta | None = None


def end_decision(workspace: Workspace, limits: Limits, now: datetime) -> EndDecision:
    """What is to become of a workspace now."""
    if workspace.state == "deleting":
        return EndDecision("nothing", "it goes")
    kept = limits.kept_for(workspace.mode)
    if kept is not None:
        # Without a time for its data nothing is taken away: it could never be told when that may go.
        if limits.max_lifetime is not None and workspace.created is not None:
            over = workspace.created + limits.max_lifetime
            if has_passed(over, now):
                return EndDecision("delete", f"its class lets one live for {limits.max_lifetime}", kept)
        ended = workspace.archive_ended
        if workspace.mode == "session" and ended is not None and has_passed(ended, now):
            return EndDecision("delete", "its chat is no longer in the archive", kept)
    if workspace.deadline is not None and has_passed(workspace.deadline, now):
        if workspace.state == "suspended" and workspace.suspended_because in {"deadline", "budget"}:
            return EndDecision("nothing", "it was stopped")
        return EndDecision("suspend", "its deadline is over")
    return EndDecision("nothing", "its end is to come")
