"""Split ledger rows into hours: how much each owner held in each hour.

A bill has hours, the ledger has intervals. The usage of an interval is spread evenly over it. A row ends with
its pod, so it does not include suspended time.
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
_POOL = ""  # the owner of unclaimed sandboxes


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of resources: an owner, or the pool of a class."""

    owner: str
    sandbox_class: str

    @property
    def is_pool(self) -> bool:
        """Return whether the holder is a pool."""
        return self.owner == _POOL


Amounts = defaultdict[Holder, int]


def _amounts() -> Amounts:
    return defaultdict(int)


@dataclass
class Hour:
    """The resources held in an hour on a group of nodes, by node; the key is empty for an unknown node."""

    nodes: defaultdict[str, Amounts] = field(default_factory=lambda: defaultdict(_amounts))
    unplaced: bool = False

    def merged(self) -> Amounts:
        """Return the amounts of all nodes together."""
        total = _amounts()
        for amounts in self.nodes.values():
            for holder, amount in amounts.items():
                total[holder] += amount
        return total


@dataclass
class Slices:
    """Resources held, stored, transferred and mounted, by hour."""

    nodes: defaultdict[tuple[str, int], Hour] = field(default_factory=lambda: defaultdict(Hour))
    # By hour.
    stored: defaultdict[int, Amounts] = field(default_factory=lambda: defaultdict(_amounts))
    moved: defaultdict[int, Amounts] = field(default_factory=lambda: defaultdict(_amounts))
    mounted: defaultdict[int, Amounts] = field(default_factory=lambda: defaultdict(_amounts))
    # By day: the owners with a workspace, running or suspended.
    present: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def hold(self, group: str, node: str, hour: int, holder: Holder, weight: int) -> None:
        """Record held resources of a node, or of a group if the node is unknown."""
        held = self.nodes[group, hour]
        held.nodes[node][holder] += weight
        held.unplaced = held.unplaced or not node


def slices(rows: Iterable[Row], warm: Iterable[Warm], places: Places) -> Slices:
    """Return the rows of the ledger and the warm time of pools, split into hours."""
    result = Slices()
    for row in rows:
        holder = Holder(row.owner, row.sandbox_class)
        weight = _whole(weight_hours(row.cpu_seconds / 3600, row.memory_gib_hours))
        group, node = places.group(row.sandbox_class), places.nodes.get(row.pod, "")
        stored, moved = _whole(row.storage_gib_hours), _whole(row.network_bytes)
        for hour, before, after, length in _pieces(row.began, row.ended):
            if row.pod != NO_POD:
                result.hold(group, node, hour, holder, _share(weight, before, after, length))
                result.moved[hour][holder] += _share(moved, before, after, length)
                result.mounted[hour][holder] += after - before
            result.stored[hour][holder] += _share(stored, before, after, length)
            result.present[day_of(hour)].add(row.owner)
    for idle in warm:
        holder = Holder(_POOL, idle.sandbox_class)
        group, node = places.group(idle.sandbox_class), places.nodes.get(idle.pod, "")
        weight = _whole(weight_hours(idle.cpu_seconds / 3600, idle.memory_gib_hours))
        for hour, before, after, length in _pieces(idle.began, idle.ended):
            result.hold(group, node, hour, holder, _share(weight, before, after, length))
    return result


def _pieces(began: datetime, ended: datetime) -> Iterator[tuple[int, int, int, int]]:
    """Yield each hour of an interval: the hour, its start and end in microseconds, and the length of the interval."""
    length = _microseconds(ended - began)
    start = began
    while start < ended:
        hour = hour_of(start)
        end = min(ended, start.replace(minute=0, second=0, microsecond=0) + HOUR)
        yield hour, _microseconds(start - began), _microseconds(end - began), length
        start = end


def _share(amount: int, before: int, after: int, length: int) -> int:
    """Return the share of an amount in a piece of its interval; the shares add up to the amount."""
    return amount * after // length - amount * before // length


def _microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def _whole(amount: Decimal) -> int:
    return int(amount * MILLION)
