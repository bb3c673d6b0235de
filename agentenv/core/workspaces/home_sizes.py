"""How large homes are, at a bounded price: whose turn it is, what is looked at, and what is made of it.

A file system is billed as a whole and does not say who holds what, so folders are looked at. Looking costs: with
Elastic throughput an entry is paid for as four kilobytes read. So a home is looked at once a day while it is used, less
often the more there is in it, and rarely while it sleeps; and a day has a number of entries that is not exceeded.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Generic, TypeVar

from agentenv.core.attribution.apportion import apportion

SCAN_INTERVAL = timedelta(hours=20)  # a pass a day, at about the same time
SUSPENDED_SCAN_INTERVAL = timedelta(days=14)
# A home that has more entries is looked at every so many days that it has no more of them a day.
ENTRIES_PER_HOME_AND_DAY = 4_000
# One that has more than these is estimated: by then its size is not what matters most about it.
ENTRIES_PER_HOME = 100_000
WALK_SHARE = Decimal("0.8")  # of them; the rest is for what was not reached

Place = TypeVar("Place")


@dataclass(frozen=True)
class Home:
    """A home as it is known before it is looked at."""

    volume: str
    point: str  # the access point
    measured: int | None = None  # bytes
    measured_at: datetime | None = None
    entries: int = 0  # that were looked at then
    used_at: datetime | None = None  # when somebody last had it mounted; None where nobody has now or remembers


@dataclass(frozen=True)
class Folder(Generic[Place]):
    """One folder: bytes of its own entries, how many there are, and the folders in it."""

    own: int
    entries: int
    inside: Sequence[Place]


@dataclass(frozen=True)
class Size:
    """What a home holds."""

    bytes: int
    entries: int  # that were looked at
    whole: bool  # whether all of it was; else it is an estimate


def due_homes(homes: Iterable[Home], now: datetime) -> list[Home]:
    """Whose turn it is, most urgent first: the new, then those used since their last time, then those that slept."""
    waiting: list[tuple[int, float, str, Home]] = []
    for home in homes:
        if home.measured_at is None:
            waiting.append((0, 0.0, home.volume, home))
            continue
        age = now - home.measured_at
        used = home.used_at is not None and home.used_at > home.measured_at
        if age >= (_scan_interval(home) if used else SUSPENDED_SCAN_INTERVAL):
            waiting.append((1 if used else 2, -age.total_seconds(), home.volume, home))
    return [home for *_, home in sorted(waiting, key=lambda one: one[:3])]


def _scan_interval(home: Home) -> timedelta:
    """How often a home is looked at while it is used."""
    days = -(-home.entries // ENTRIES_PER_HOME_AND_DAY) or 1
    return min(timedelta(days=days - 1) + SCAN_INTERVAL, SUSPENDED_SCAN_INTERVAL)


def measure_home(
    root: Place, look: Callable[[Place], Folder[Place]], chance: random.Random, most: int = ENTRIES_PER_HOME
) -> Size:
    """What is in a folder and all below it.

    Folders are opened level by level until so many entries were seen. Of those that are still closed then, some are
    probed: down from one of them to the end, by lot, each step weighed by how many ways there were to go (Knuth's
    estimate of a tree), which is right on average whatever the tree looks like.
    """
    closed, bytes_, entries = deque([root]), 0, 0
    while closed and entries < most * WALK_SHARE:
        folder = look(closed.popleft())
        bytes_ += folder.own
        entries += folder.entries
        closed.extend(chance.sample(folder.inside, len(folder.inside)))
    if not closed:
        return Size(bytes_, entries, whole=True)
    total, spent, probes = 0.0, 0, 0
    while not probes or entries + spent < most:
        found, seen = _probe(chance.choice(closed), look, chance)
        total += found * len(closed)
        spent += seen
        probes += 1
    return Size(bytes_ + round(total / probes), entries + spent, whole=False)


def _probe(place: Place, look: Callable[[Place], Folder[Place]], chance: random.Random) -> tuple[float, int]:
    """An estimate of all below a place by one way down, and how many entries that took."""
    total, weight, seen = 0.0, 1.0, 0
    while True:
        folder = look(place)
        total += weight * folder.own
        seen += folder.entries
        if not folder.inside:
            return total, seen
        weight *= len(folder.inside)
        place = chance.choice(folder.inside)


def scale_to_metered(sizes: Mapping[str, int], metered: int) -> dict[str, int]:
    """Sizes that add up to what the file system is metered at: what it counts beside the files is everybody's share."""
    if not any(sizes.values()):
        return dict(sizes)
    return apportion(metered, sizes)
