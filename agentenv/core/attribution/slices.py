"""Cuts what was held into hours: of each hour, who held how much of what.

A bill has hours, the ledger has intervals. What an interval used is spread evenly over it; the ledger cuts its rows
where a pod ends, so a row is a sandbox at work and not a day of somebody's sleep.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from agentenv.core.attribution.types import HOUR, Places, Warm, day_of, hour_of, weight_hours
from agentenv.core.ledger.rows import NO_POD, Row

# Weights are whole numbers: millionths of a weight-hour, of a byte, of a GiB-hour, of a second.
MILLION = 1_000_000
_POOL = ""  # the owner of what nobody has claimed yet; no owner is called nothing


@dataclass(frozen=True, slots=True)
class Holder:
    """Who held something: an owner, or the pool of a class."""

    owner: str
    sandbox_class: str

    @property
    def is_pool(self) -> bool:
        """Whether it waited to be claimed."""
        return self.owner == _POOL


Amounts = defaultdict[Holder, int]


def _amounts() -> Amounts:
    return defaultdict(int)


@dataclass
class Hour:
    """What was held in one hour of one group of nodes: by node, and without one where no node is known."""

    nodes: defaultdict[str, Amounts] = field(default_factory=lambda: defaultdict(_amounts))
    unplaced: bool = False

    def merged(self) -> Amounts:
        """As if the group were one node."""
        total = _amounts()
        for amounts in self.nodes.values():
            for holder, amount in amounts.items():
                total[holder] += amount
        return total


@dataclass
class Slices:
    """All that was held, kept, moved and mounted."""

    nodes: defaultdict[tuple[str, int], Hour] = field(default_factory=lambda: defaultdict(Hour))
    # By hour.
    stored: defaultdict[int, Amounts] = field(default_factory=lambda: defaultdict(_amounts))
    moved: defaultdict[int, Amounts] = field(default_factory=lambda: defaultdict(_amounts))
    mounted: defaultdict[int, Amounts] = field(default_factory=lambda: defaultdict(_amounts))
    # By day: who was there at all, awake or asleep.
    present: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def hold(self, group: str, node: str, hour: int, holder: Holder, weight: int) -> None:
        """Something of a node was held; of one of a group where it is not known of which."""
        held = self.nodes[group, hour]
        held.nodes[node][holder] += weight
        held.unplaced = held.unplaced or not node


def slices(rows: Iterable[Row], warm: Iterable[Warm], places: Places) -> Slices:
    """The ledger's rows and the pools' time, in hours."""
    found = Slices()
    for row in rows:
        holder = Holder(row.owner, row.sandbox_class)
        weight = _whole(weight_hours(row.cpu_seconds / 3600, row.memory_gib_hours))
        group, node = places.group(row.sandbox_class), places.nodes.get(row.pod, "")
        stored, moved = _whole(row.storage_gib_hours), _whole(row.network_bytes)
        for hour, before, after, length in _pieces(row.began, row.ended):
            if row.pod != NO_POD:
                found.hold(group, node, hour, holder, _share(weight, before, after, length))
                found.moved[hour][holder] += _share(moved, before, after, length)
                found.mounted[hour][holder] += after - before
            found.stored[hour][holder] += _share(stored, before, after, length)
            found.present[day_of(hour)].add(row.owner)
    for one in warm:
        holder = Holder(_POOL, one.sandbox_class)
        group, node = places.group(one.sandbox_class), places.nodes.get(one.pod, "")
        weight = _whole(weight_hours(one.cpu_seconds / 3600, one.memory_gib_hours))
        for hour, before, after, length in _pieces(one.began, one.ended):
            found.hold(group, node, hour, holder, _share(weight, before, after, length))
    return found


def _pieces(began: datetime, ended: datetime) -> Iterator[tuple[int, int, int, int]]:
    """Each hour of an interval: which, from and to in microseconds since its beginning, and how long the whole is."""
    length = _microseconds(ended - began)
    start = began
    while start < ended:
        hour = hour_of(start)
        end = min(ended, start.replace(minute=0, second=0, microsecond=0) + HOUR)
        yield hour, _microseconds(start - began), _microseconds(end - began), length
        start = end


def _share(amount: int, before: int, after: int, length: int) -> int:
    """The part of an amount in a piece of its interval; the pieces of one interval add up to it."""
    return amount * after // length - amount * before // length


def _microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def _whole(amount: Decimal) -> int:
    return int(amount * MILLION)
