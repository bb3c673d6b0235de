"""The weekly schedule of warm pools: the size of each pool over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from agentenv.config.sections.classes import Pool
from agentenv.core.classes.pools.sizes import base_size

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY = 24 * 60
WEEK = 7 * DAY


@dataclass(frozen=True)
class Stretch:
    """The share of the week in which all pools have the same sizes."""

    share: Decimal  # of the week
    members: Mapping[str, int]


def stretches(pools: Mapping[str, Pool]) -> list[Stretch]:
    """Return the week of several pools, grouped by their sizes. Time zones are ignored."""
    cuts = sorted({0, *(cut for pool in pools.values() for span in spans(pool) for cut in span[:2])} - {WEEK})
    minutes_by_sizes: dict[tuple[tuple[str, int], ...], int] = {}
    for at, until in zip(cuts, [*cuts[1:], WEEK], strict=True):
        sizes = tuple((name, size_at(pool, at)) for name, pool in pools.items())
        minutes_by_sizes[sizes] = minutes_by_sizes.get(sizes, 0) + until - at
    return [Stretch(Decimal(minutes) / WEEK, dict(sizes)) for sizes, minutes in minutes_by_sizes.items()]


def size_at(pool: Pool, minute: int) -> int:
    """Return the size of a pool in a minute of the week; Monday 00:00 is 0."""
    return size_of(spans(pool), base_size(pool), minute)


def size_of(spans: Sequence[tuple[int, int, int]], base: int, minute: int) -> int:
    """Return the size in a minute of the week, from the scheduled spans and the base size."""
    # When several spans overlap, the one that began last applies, as with the jobs that scale the pool.
    return next((size for start, end, size in reversed(spans) if start <= minute < end), base)


def average_size(pool: Pool) -> Decimal:
    """Return the average size of a pool."""
    return sum((stretch.share * stretch.members["pool"] for stretch in stretches({"pool": pool})), start=Decimal(0))


def spans(pool: Pool) -> list[tuple[int, int, int]]:
    """Return the scheduled spans as (start, end, size) in minutes of the week, sorted by start."""
    found: list[tuple[int, int, int]] = []
    for schedule in pool.schedules:
        start, end = _minute(schedule.start), _minute(schedule.end)
        for day in schedule.days:
            first = DAYS.index(day) * DAY
            if start < end:
                found.append((first + start, first + end, schedule.size))
    return sorted(found)


def _minute(text: str) -> int:
    hour, minute = text.split(":")
    return int(hour) * 60 + int(minute)
