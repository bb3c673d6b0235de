"""Moments that others wrote: how far they are believed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

# As far as clocks of one cluster are apart, at most.
SKEW = timedelta(seconds=30)
# What claims to come from further ahead was written by a clock that nobody can go by.
FURTHEST = timedelta(days=1)


def has_passed(moment: datetime, now: datetime) -> bool:
    """Whether a moment is over by every clock."""
    return now - moment >= SKEW


def is_ahead(moment: datetime | None, now: datetime) -> bool:
    """Return whether a timestamp is still to come by some clock, and near enough to be believed."""
    return moment is not None and now - moment < SKEW and moment - now <= FURTHEST + SKEW


def latest_past(moments: Iterable[datetime | None], now: datetime) -> datetime | None:
    """The last of them that has been; what a clock ahead of ours wrote counts as now."""
    believed = [min(one, now) for one in moments if one is not None and one - now <= FURTHEST]
    return max(believed, default=None)
