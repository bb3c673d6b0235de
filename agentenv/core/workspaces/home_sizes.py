"""The measurement of homes at a bounded price: which homes are due, and how their size is measured or estimated.

EFS bills a file system as a whole and does not report the size of folders, so the job reads them. Reading costs money:
with Elastic throughput a directory entry is billed as a read of four kilobytes. So a home is measured once a day while
it is used, less often if it has many entries, and rarely while it is suspended. The entries per day are limited.
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

SCAN_INTERVAL = timedelta(hours=20)  # one pass a day, at about the same time
SUSPENDED_SCAN_INTERVAL = timedelta(days=14)
# A home with more entries is measured less often than daily, so that it has no more of them per day.
ENTRIES_PER_HOME_AND_DAY = 4_000
# The size of a home with more entries is estimated.
ENTRIES_PER_HOME = 100_000
WALK_SHARE = Decimal("0.8")  # of the entries; the rest is for the estimate

Place = TypeVar("Place")


@dataclass(frozen=True)
class Home:
    """A home with its last measurement."""

    volume: str
    point: str  # the access point
    measured: int | None = None  # bytes
    measured_at: datetime | None = None
    entries: int = 0  # of that measurement
    used_at: datetime | None = None  # when it was last mounted; None if it is not mounted or that is unknown


@dataclass(frozen=True)
class Folder(Generic[Place]):
    """One folder: the bytes and the number of its own entries, and its subfolders."""

    own: int
    entries: int
    inside: Sequence[Place]


@dataclass(frozen=True)
class Size:
    """The measured or estimated size of a home."""

    bytes: int
    entries: int  # that were read
    whole: bool  # whether all of it was read; else it is an estimate


def due_homes(homes: Iterable[Home], now: datetime) -> list[Home]:
    """Return the homes that are due: new ones first, then those used since their last measurement, then the rest."""
    waiting: list[tuple[int, float, str, Home]] = []
    for home in homes:
        if home.measured_at is None:
            waiting.append((0, 0.0, home.volume, home))
            continue
        age = now - home.measured_at
        used = home.used_at is not None and home.used_at > home.measured_at
        if age >= (_scan_interval(home) if used else SUSPENDED_SCAN_INTERVAL):
            waiting.append((1 if used else 2, -age.total_seconds(), home.volume, home))
    return [home for *_, home in sorted(waiting, key=lambda row: row[:3])]


def _scan_interval(home: Home) -> timedelta:
    """Return the interval at which a used home is measured."""
    days = -(-home.entries // ENTRIES_PER_HOME_AND_DAY) or 1
    return min(timedelta(days=days - 1) + SCAN_INTERVAL, SUSPENDED_SCAN_INTERVAL)


def measure_home(
    root: Place, look: Callable[[Place], Folder[Place]], chance: random.Random, most: int = ENTRIES_PER_HOME
) -> Size:
    """Return the size of a folder and everything below it; `look` reads one folder.

    Folders are read level by level, up to a share of the allowed entries. The rest is estimated with random probes:
    each goes from one unread folder down to a leaf, and weighs every step by the number of subfolders (Knuth's estimate
    of the size of a tree), which is unbiased whatever the shape of the tree.
    """
    unread, bytes_, entries = deque([root]), 0, 0
    while unread and entries < most * WALK_SHARE:
        folder = look(unread.popleft())
        bytes_ += folder.own
        entries += folder.entries
        unread.extend(chance.sample(folder.inside, len(folder.inside)))
    if not unread:
        return Size(bytes_, entries, whole=True)
    total, probed_entries, probes = 0.0, 0, 0
    while not probes or entries + probed_entries < most:
        estimate, read = _probe(chance.choice(unread), look, chance)
        total += estimate * len(unread)
        probed_entries += read
        probes += 1
    return Size(bytes_ + round(total / probes), entries + probed_entries, whole=False)


def _probe(place: Place, look: Callable[[Place], Folder[Place]], chance: random.Random) -> tuple[float, int]:
    """Return an estimate of the bytes below a folder from one random path, and the entries read for it."""
    total, weight, read = 0.0, 1.0, 0
    while True:
        folder = look(place)
        total += weight * folder.own
        read += folder.entries
        if not folder.inside:
            return total, read
        weight *= len(folder.inside)
        place = chance.choice(folder.inside)


def scale_to_metered(sizes: Mapping[str, int], metered: int) -> dict[str, int]:
    """Return the sizes scaled to the metered size of the file system, which includes its overhead."""
    if not any(sizes.values()):
        return dict(sizes)
    return apportion(metered, sizes)
