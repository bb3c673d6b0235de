"""The size of a scheduled pool at each time of the week, as it is in the class's ConfigMap.

A schedule's jobs scale a pool only when its size changes. The retirement of releases reads here which size a new pool
should have in between.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agentenv.core.classes.pools.sizes import base_size
from agentenv.core.cost.pool_week import DAY, size_of, spans
from agentenv.core.values.object_fields import parsed

if TYPE_CHECKING:
    from agentenv.config.sections.classes import Pool

HOURS_KEY = "poolHours"


@dataclass(frozen=True)
class PoolHours:
    """The sizes of a pool over a week, in minutes since Monday began in its time zone."""

    timezone: str
    base: int
    spans: tuple[tuple[int, int, int], ...]

    def size_at(self, now: datetime) -> int:
        """Return the size of the pool at a time."""
        local = now.astimezone(ZoneInfo(self.timezone))
        return size_of(self.spans, self.base, local.weekday() * DAY + local.hour * 60 + local.minute)


def format_pool_hours(pool: Pool) -> str:
    """Return the hours of a pool as text; empty if it has one size all week."""
    if not pool.schedules:
        return ""
    return json.dumps([pool.schedules[0].timezone, base_size(pool), spans(pool)], separators=(",", ":"))


def parse_pool_hours(text: str) -> PoolHours | None:
    """Return the hours from a text, or None if it has none or is invalid."""
    values: Any = parsed(text)
    try:
        timezone, base, intervals = values
        ZoneInfo(timezone)
        return PoolHours(
            timezone, int(base), tuple((int(start), int(end), int(size)) for start, end, size in intervals)
        )
    except (ValueError, TypeError, OverflowError, OSError, ZoneInfoNotFoundError):
        return None
