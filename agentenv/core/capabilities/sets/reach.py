"""The reach of a workload, or into it: addresses, pods and names together, with the unknown parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import TYPE_CHECKING

from agentenv.core.capabilities.sets.boxes import (
    ALL_PORTS,
    NO_BOXES,
    BoxSet,
    Protocol,
    Version,
    everywhere,
    product,
    union,
)
from agentenv.core.capabilities.sets.domains import EVERY_NAME, Name, names_left, names_shared
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import ALL_POD_PORTS, PodPorts, remaining_pod_ports, shared_pod_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from ipaddress import IPv4Address, IPv6Address

    from agentenv.core.capabilities.sets.pods import Key


@dataclass(frozen=True)
class Reach:
    """A set of destinations. Addresses, pods and names are separate: one cannot be mapped to another."""

    boxes: BoxSet = NO_BOXES
    pod_ports: frozenset[PodPorts] = frozenset()
    names: frozenset[Name] = frozenset()

    def __or__(self, other: Reach) -> Reach:
        return Reach(self.boxes | other.boxes, self.pod_ports | other.pod_ports, self.names | other.names)

    def __and__(self, other: Reach) -> Reach:
        both = names_shared(self.names, other.names)
        return Reach(self.boxes & other.boxes, shared_pod_ports(self.pod_ports, other.pod_ports), both)

    def __sub__(self, other: Reach) -> Reach:
        return Reach(
            self.boxes - other.boxes,
            frozenset(remaining_pod_ports(self.pod_ports, other.pod_ports)),
            frozenset(names_left(self.names, other.names)),
        )

    def __bool__(self) -> bool:
        return bool(self.boxes or self.pod_ports or self.names)

    def __le__(self, other: Reach) -> bool:
        return not self - other

    def includes_address(self, address: IPv4Address | IPv6Address, protocol: Protocol, port: int) -> bool:
        """Return whether one destination is in the set."""
        version: Version = 4 if address.version == 4 else 6
        single = Intervals.single(int(address))
        return product((version,), (protocol,), single, Intervals.single(port)) <= self.boxes

    def includes_pod(self, labels: Mapping[Key, str], protocol: Protocol, port: int) -> bool:
        """Return whether a port of one pod is in the set, by all labels of the pod and of its namespace."""
        return any(
            entry.protocol == protocol
            and port in entry.ports
            and all(labels.get(key) in values for key, values in entry.pods.labels)
            for entry in self.pod_ports
        )

    def same_as(self, other: Reach) -> bool:
        """Return whether both are the same set; pod ports have no canonical form, so this is containment both ways."""
        return self <= other <= self


NOTHING = Reach()
EVERYTHING = Reach(everywhere(), ALL_POD_PORTS, frozenset({Name(EVERY_NAME, ALL_PORTS)}))


def union_of_reaches(reaches: Iterable[Reach]) -> Reach:
    """Return the union of many reaches."""
    every = list(reaches)
    return Reach(
        union([reach.boxes for reach in every]),
        frozenset(entry for reach in every for entry in reach.pod_ports),
        frozenset(name for reach in every for name in reach.names),
    )


@dataclass(frozen=True)
class Bounds:
    """A reach that is known between a lower and an upper bound, with the facts that are unknown."""

    least: Reach
    most: Reach
    unknown: tuple[str, ...] = ()


World = frozenset[str]


@dataclass(frozen=True)
class Uncertain:
    """A reach that depends on facts of which some are unknown, such as the address of the API server.

    Each unknown fact is a set of addresses, and a destination is in the reach depending only on whether it is in that
    set. It is enough to know the reach in the worlds where each unknown set is empty or as large as possible. What
    holds in all of those holds for every value of the facts. Two reaches that depend on the same facts are compared
    world by world, so that a class stays within itself even before anything is known.
    """

    facts: frozenset[str] = frozenset()  # the unknown facts; a world names those that are as large as possible in it
    worlds: Mapping[World, Bounds] = field(default_factory=dict[World, Bounds])

    @classmethod
    def known(cls, reach: Reach) -> Uncertain:
        """Return a reach without unknown parts."""
        return cls(frozenset(), {frozenset(): Bounds(reach, reach)})

    @classmethod
    def between(cls, bounds: Bounds) -> Uncertain:
        """Return a reach with bounds that no shared fact explains."""
        return cls(frozenset(), {frozenset(): bounds})

    @classmethod
    def over(cls, facts: Iterable[str], reach: Callable[[World], Reach]) -> Uncertain:
        """Return a reach that is computed in each world."""
        unknown = frozenset(facts)
        reaches = {world: reach(world) for world in worlds(unknown)}
        return cls(unknown, {world: Bounds(result, result) for world, result in reaches.items()})

    def at(self, world: World) -> Bounds:
        """Return the reach in one world."""
        return self.worlds[world & self.facts]


def worlds(facts: Iterable[str]) -> Iterator[World]:
    """Yield every combination of the unknown sets being empty or as large as possible."""
    ordered = sorted(facts)
    return map(frozenset, chain.from_iterable(combinations(ordered, size) for size in range(len(ordered) + 1)))
