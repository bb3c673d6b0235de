"""Samples: a workspace and a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from agentenv.core.lifecycle.limits import Limits
from agentenv.core.workspaces.workspace import Lease, Workspace

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
HOUR, MINUTE, DAY = timedelta(hours=1), timedelta(minutes=1), timedelta(days=1)
LIMITS = Limits(20 * MINUTE, 90 * DAY, 30 * DAY, 7 * DAY)


def workspace(**fields: Any) -> Workspace:
    usual: dict[str, Any] = {"state": "running", "created": NOW - DAY, "last_active": NOW - HOUR}
    return Workspace(**{"id": "w-1", "owner": "u-1", "class_name": "box", "mode": "user", **usual, **fields})


def lease(until: timedelta) -> Lease:
    return Lease("agent", "rw", NOW + until)
