"""The week of pools: what size each has when, so that what is warm in office hours only is paid for then only."""

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
    """A part of the week in which no pool changes its size."""

    share: Decimal  # of the week
    members: Mapping[str, int]


def stretches(pools: Mapping[str, Pool]) -> list[Stretch]:
    """The week of several pools, stretches that are alike taken together.

    Times are taken as they are written: two pools in different time zones overlap a little otherwise than this says.
    """
    cuts = sorted({0, *(cut for pool in pools.values() for span in spans(pool) for cut in span[:2])} - {WEEK})
    found: dict[tuple[tuple[str, int], ...], int] = {}
    for at, until in zip(cuts, [*cuts[1:], WEEK], strict=True):
        sizes = tuple((name, size_at(pool, at)) for name, pool in pools.items())
        found[sizes] = found.get(sizes, 0) + until - at
    return [Stretch(Decimal(minutes) / WEEK, dict(sizes)) for sizes, minutes in found.items()]


def size_at(pool: Pool, minute: int) -> int:
    """How many members a pool has in a minute of the week, Monday's first being 0."""
    return size_of(spans(pool), base_size(pool), minute)


def size_of(spans: Sequence[tuple[int, int, int]], base: int, minute: int) -> int:
    """The same, from when a pool has which other size."""
    # Where several times hold at once, the jobs that scale the pool leave the one that began last.
    return next((size for start, end, size in reversed(spans) if start <= minute < end), base)


def average_size(pool: Pool) -> Decimal:
    """How many members it has on average."""
    return sum((one.share * one.members["pool"] for one in stretches({"pool": pool})), start=Decimal(0))


def spans(pool: Pool) -> list[tuple[int, int, int]]:
    """When it has which other size, in minutes of the week, by when they begin; one over midnight is two."""
    found: list[tuple[int, int, int]] = []
    for one in pool.schedules:
        start, end = _minute(one.start), _minute(one.end)
        for day in one.days:
            first = DAYS.index(day) * DAY
            if start < end:
                found.append((first + start, first + end, one.size))
    return sorted(found)


def _minute(text: str) -> int:
    hour, minute = text.split(":")
    return int(hour) * 60 + int(minute)
