"""Comparison of timestamps that other processes wrote, whose clocks may differ."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

# The maximum difference between the clocks of a cluster.
SKEW = timedelta(seconds=30)
# A timestamp that is further ahead was written by a wrong clock.
FURTHEST = timedelta(days=1)


def has_passed(timestamp: datetime, now: datetime) -> bool:
    """Return whether a timestamp has passed by every clock."""
    return now - timestamp >= SKEW


def is_ahead(timestamp: datetime | None, now: datetime) -> bool:
    """Return whether a timestamp is in the future by some clock, and not by a wrong one."""
    return timestamp is not None and now - timestamp < SKEW and timestamp - now <= FURTHEST + SKEW


def latest_past(timestamps: Iterable[datetime | None], now: datetime) -> datetime | None:
    """Return the latest timestamp that is not in the future; one of a clock that is ahead counts as now."""
    past = [min(each, now) for each in timestamps if each is not None and each - now <= FURTHEST]
    return max(past, default=None)
