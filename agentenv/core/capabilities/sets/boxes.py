"""Exact sets of (IP version, protocol, address, port): finite unions of boxes, less their exceptions.

Within one version and protocol a set is a function from addresses to the ports open there, and that function is
constant between finitely many addresses. It is kept as its run-length encoding: ascending slabs of addresses, each with
its ports, no two neighbours alike. A set has exactly one such encoding, so equal sets are equal values, whatever boxes
and exceptions they were put together from.

Every operation walks the slabs of both sides once, in the order of their addresses. A union of n boxes is folded in
pairs, n log n steps in all: ten thousand boxes are a matter of a second or two, where a pairwise comparison of boxes
(which also misses a range that two of the parent's boxes cover together) would take hundreds of millions of steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, get_args

from agentenv.core.capabilities.sets.intervals import EMPTY, Intervals, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Version = Literal[4, 6]
# OTHER is every protocol without ports, such as ICMP: a rule allows all of them or none.
Protocol = Literal["TCP", "UDP", "SCTP", "OTHER"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
TCP_AND_UDP: tuple[Protocol, ...] = ("TCP", "UDP")
VERSIONS: tuple[Version, ...] = get_args(Version)

# Port 0 cannot be connected to, and neither a NetworkPolicy nor a socket can name it.
PORTS: Span = (1, 65535)
ALL_PORTS = Intervals((PORTS,))
ADDRESSES: dict[Version, Span] = {4: (0, 2**32 - 1), 6: (0, 2**128 - 1)}

Channel = tuple[Version, Protocol]
Slab = tuple[int, int, Intervals]


@dataclass(frozen=True, order=True)
class Point:
    """One destination, as a counterexample names it."""

    version: Version
    protocol: Protocol
    address: int
    port: int


@dataclass(frozen=True)
class Box:
    """A range of addresses with a range of ports, on one protocol."""

    version: Version
    protocol: Protocol
    addresses: Span
    ports: Span


@dataclass(frozen=True)
class BoxSet:
    """A set of destinations in canonical form; create it with `BoxSet.of` or `product`, and combine with | & -."""

    planes: tuple[tuple[Channel, tuple[Slab, ...]], ...] = ()

    @classmethod
    def of(cls, boxes: Iterable[Box]) -> BoxSet:
        """The union of the boxes."""
        sets = [
            product((box.version,), (box.protocol,), Intervals((box.addresses,)), Intervals((box.ports,)))
            for box in boxes
        ]
        return union(sets)

    def __bool__(self) -> bool:
        return bool(self.planes)

    def __contains__(self, point: Point) -> bool:
        return any(
            low <= point.address <= high and point.port in ports
            for low, high, ports in self.slabs((point.version, point.protocol))
        )

    def __or__(self, other: BoxSet) -> BoxSet:
        return self._combine(other, lambda mine, theirs: mine | theirs)

    def __and__(self, other: BoxSet) -> BoxSet:
        return self._combine(other, lambda mine, theirs: mine & theirs)

    def __sub__(self, other: BoxSet) -> BoxSet:
        return self._combine(other, lambda mine, theirs: mine - theirs)

    def __le__(self, other: BoxSet) -> bool:
        return not self - other

    def slabs(self, channel: Channel) -> tuple[Slab, ...]:
        """The slabs of one version and protocol, in the order of their addresses."""
        return next((slabs for key, slabs in self.planes if key == channel), ())

    def addresses(self, version: Version) -> Intervals:
        """Every address of that version on which anything is open."""
        return Intervals.of(
            (low, high) for channel, slabs in self.planes if channel[0] == version for low, high, _ in slabs
        )

    def boxes(self) -> Iterator[Box]:
        """Disjoint boxes whose union the set is."""
        for (version, protocol), slabs in self.planes:
            for low, high, ports in slabs:
                for span in ports.spans:
                    yield Box(version, protocol, (low, high), span)

    def smallest(self) -> Point | None:
        """The smallest destination in the set: by version, protocol, address, then port."""
        if not self.planes:
            return None
        (version, protocol), slabs = self.planes[0]
        low, _, ports = slabs[0]
        return Point(version, protocol, low, ports.first)

    def _combine(self, other: BoxSet, join: Callable[[Intervals, Intervals], Intervals]) -> BoxSet:
        channels = {key for key, _ in (*self.planes, *other.planes)}
        joined = ((channel, _sweep(self.slabs(channel), other.slabs(channel), join)) for channel in channels)
        return BoxSet(tuple(sorted(((channel, slabs) for channel, slabs in joined if slabs), key=_sort_key)))


NO_BOXES = BoxSet()


def product(
    versions: Iterable[Version], protocols: Iterable[Protocol], addresses: Intervals, ports: Intervals
) -> BoxSet:
    """Return these addresses with these ports, on each of the versions and protocols."""
    if not addresses or not ports:
        return NO_BOXES
    slabs = tuple((low, high, ports) for low, high in addresses.spans)
    channels: set[Channel] = {(version, protocol) for version in versions for protocol in protocols}
    return BoxSet(tuple(sorted(((channel, slabs) for channel in channels), key=_sort_key)))


def everywhere(versions: Iterable[Version] = VERSIONS) -> BoxSet:
    """Every address, protocol and port."""
    return union([product((version,), PROTOCOLS, Intervals((ADDRESSES[version],)), ALL_PORTS) for version in versions])


def union(sets: list[BoxSet]) -> BoxSet:
    """The union of many sets, folded in pairs so that each slab is walked log n times and not n times."""
    while len(sets) > 1:
        sets = [
            sets[index] | sets[index + 1] if index + 1 < len(sets) else sets[index] for index in range(0, len(sets), 2)
        ]
    return sets[0] if sets else NO_BOXES


def _sort_key(entry: tuple[Channel, tuple[Slab, ...]]) -> tuple[int, int]:
    (version, protocol), _ = entry
    return version, PROTOCOLS.index(protocol)


def _sweep(
    left: tuple[Slab, ...], right: tuple[Slab, ...], join: Callable[[Intervals, Intervals], Intervals]
) -> tuple[Slab, ...]:
    """Join the port sets of both sides at every address, from the lowest to the highest."""
    edges = sorted({edge for low, high, _ in (*left, *right) for edge in (low, high + 1)})
    found: list[Slab] = []
    mine, theirs = 0, 0
    for start, after in pairwise(edges):
        while mine < len(left) and left[mine][1] < start:
            mine += 1
        while theirs < len(right) and right[theirs][1] < start:
            theirs += 1
        ports = join(_ports_at(left, mine, start), _ports_at(right, theirs, start))
        if not ports:
            continue
        if found and found[-1][1] == start - 1 and found[-1][2] == ports:
            found[-1] = (found[-1][0], after - 1, ports)
        else:
            found.append((start, after - 1, ports))
    return tuple(found)


def _ports_at(slabs: tuple[Slab, ...], index: int, address: int) -> Intervals:
    return slabs[index][2] if index < len(slabs) and slabs[index][0] <= address else EMPTY
