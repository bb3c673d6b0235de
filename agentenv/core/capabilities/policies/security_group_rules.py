"""Turns a reach into rules of a security group, and back: what the rules of a pod's groups allow together.

A group's rules only allow, and know no exceptions: exceptions are written out as the prefixes between them. Rules may
overlap, which is why ports are taken one range at a time, each with all its addresses, and then widened as far as the
set reaches: the other way round, a single open port on every address would be cut up by every other grant.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_network
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.grants import RefusedGrantError
from agentenv.core.capabilities.sets.address_ranges import prefixes
from agentenv.core.capabilities.sets.boxes import (
    ALL_PORTS,
    PORTS,
    PROTOCOLS,
    VERSIONS,
    BoxSet,
    Protocol,
    Slab,
    Version,
    product,
    union,
)
from agentenv.core.capabilities.sets.intervals import EMPTY, Intervals, Span
from agentenv.core.capabilities.sets.pods import Door, Pods, doors_of
from agentenv.core.capabilities.sets.reach import Reach

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

EVERY_PROTOCOL = "-1"
# AWS takes ports for TCP and UDP alone; SCTP is a protocol number, with all of its ports.
SPOKEN: dict[Protocol, str] = {"TCP": "tcp", "UDP": "udp", "SCTP": "132"}
GRANTED = "granted"


@dataclass(frozen=True)
class GroupRule:
    """One rule: a protocol with ports, towards a range of addresses or the members of a group."""

    protocol: str
    ports: Span | None
    cidr: str | None = None
    group: str | None = None
    why: str = ""

    def plain(self) -> dict[str, Any]:
        """The rule in the words of the AWS provider's rule resources."""
        found: dict[str, Any] = {"ip_protocol": self.protocol, "description": self.why}
        if self.ports is not None:
            low, high = self.ports
            found |= {"from_port": 0 if self.ports == PORTS else low, "to_port": high}
        if self.group is not None:
            found["referenced_security_group_id"] = self.group
        if self.cidr is not None:
            found["cidr_ipv6" if ":" in self.cidr else "cidr_ipv4"] = self.cidr
        return found


def group_rules(reach: Reach, members: Mapping[Pods, str]) -> tuple[GroupRule, ...]:
    """The rules that allow exactly this reach; `members` are the groups that stand for sets of pods."""
    return (*_towards(reach, members), *(rule for version in VERSIONS for rule in _ranges(reach.boxes, version)))


def reach_of_rules(rules: Iterable[GroupRule], members: Mapping[Pods, str]) -> Reach:
    """What the rules allow together: the way back."""
    boxes: list[BoxSet] = []
    doors: frozenset[Door] = frozenset()
    for rule in rules:
        protocols: tuple[Protocol, ...] = tuple(
            one for one in PROTOCOLS if rule.protocol in {EVERY_PROTOCOL, SPOKEN.get(one)}
        )
        ports = ALL_PORTS if rule.ports is None else Intervals((rule.ports,))
        if rule.cidr is not None:
            network = ip_network(rule.cidr)
            addresses = Intervals.single(int(network[0]), int(network[-1]))
            boxes.append(product((network.version,), protocols, addresses, ports))
        for pods, group in members.items():
            if group == rule.group:
                doors |= doors_of(pods, protocols, ports)
    return Reach(union(boxes), doors)


def _towards(reach: Reach, members: Mapping[Pods, str]) -> Iterator[GroupRule]:
    """Rules towards the groups that the pods are in, the ports of each brought together."""
    ports: dict[tuple[str, Protocol], Intervals] = {}
    for door in sorted(reach.doors, key=repr):
        group = members.get(door.pods)
        if group is None:
            where = f"pods of {door.pods.namespace}" if door.pods.namespace else "pods of several namespaces"
            raise RefusedGrantError(
                f"{where}, which are in no security group of their own",
                "pods on Fargate, and ranges of addresses",
                "run the class at the other end on fargate too, or grant a range",
            )
        ports[group, door.protocol] = ports.get((group, door.protocol), EMPTY) | door.ports
    for group in dict.fromkeys(group for group, _ in ports):
        mine: dict[Protocol, Intervals] = {
            protocol: some for (other, protocol), some in ports.items() if other == group
        }
        if all(mine.get(protocol) == ALL_PORTS for protocol in PROTOCOLS):
            yield GroupRule(EVERY_PROTOCOL, None, group=group, why=GRANTED)
            continue
        for protocol, some in mine.items():
            for span in _spoken(protocol, some):
                yield GroupRule(SPOKEN[protocol], span, group=group, why=GRANTED)


def _spoken(protocol: Protocol, ports: Intervals) -> tuple[Span | None, ...]:
    """The ports as a group can say them."""
    if protocol == "OTHER":
        raise RefusedGrantError(
            "protocols without ports beside some ports", "all protocols and ports, or ports", "grant one or the other"
        )
    if protocol != "SCTP":
        return ports.spans
    if ports != ALL_PORTS:
        raise RefusedGrantError("some ports of SCTP", "all of them", "a security group knows no ports of SCTP")
    return (None,)


@dataclass(frozen=True)
class _Written:
    """A rule towards a range, with the range as numbers."""

    protocol: str
    ports: Span | None
    cidr: str
    first: int
    last: int

    @classmethod
    def to(cls, cidr: str, protocol: str, ports: Span | None) -> _Written:
        network = ip_network(cidr)
        return cls(protocol, ports, cidr, int(network[0]), int(network[-1]))

    def covers(self, other: _Written) -> bool:
        """Whether it allows all that the other one does; both are of one IP version."""
        ports = self.ports is None or (
            other.ports is not None and self.ports[0] <= other.ports[0] and other.ports[1] <= self.ports[1]
        )
        return (
            ports
            and self.protocol in {EVERY_PROTOCOL, other.protocol}
            and self.first <= other.first
            and other.last <= self.last
        )


def _ranges(boxes: BoxSet, version: Version) -> Iterator[GroupRule]:
    whole = _open_entirely(boxes, version)
    written = [_Written.to(prefix, EVERY_PROTOCOL, None) for prefix in prefixes(version, whole)]
    for protocol in PROTOCOLS:
        slabs = boxes.slabs((version, protocol))
        if protocol in {"TCP", "UDP"}:
            written += [
                _Written.to(prefix, SPOKEN[protocol], _widened(slabs, prefix, ports))
                for ports, addresses in _by_port(slabs)
                for prefix in prefixes(version, addresses)
            ]
            continue
        for low, high, ports in slabs:
            rest = Intervals.single(low, high) - whole
            for span in _spoken(protocol, ports) if rest else ():
                written += [_Written.to(prefix, SPOKEN[protocol], span) for prefix in prefixes(version, rest)]
    distinct = list(dict.fromkeys(written))
    for rule in distinct:
        if not any(other.covers(rule) for other in distinct if other != rule):
            yield GroupRule(rule.protocol, rule.ports, cidr=rule.cidr, why=GRANTED)


def _open_entirely(boxes: BoxSet, version: Version) -> Intervals:
    """The addresses on which every port of every protocol is open."""
    tcp, *others = (
        Intervals.of((low, high) for low, high, ports in boxes.slabs((version, protocol)) if ports == ALL_PORTS)
        for protocol in PROTOCOLS
    )
    for other in others:
        tcp &= other
    return tcp


def _by_port(slabs: tuple[Slab, ...]) -> Iterator[tuple[Span, Intervals]]:
    """Ranges of ports between which nothing changes, each with every address it is open on."""
    edges = sorted({edge for _, _, ports in slabs for low, high in ports.spans for edge in (low, high + 1)})
    for low, after in pairwise(edges):
        addresses = Intervals.of((first, last) for first, last, ports in slabs if low in ports)
        if addresses:
            yield (low, after - 1), addresses


def _widened(slabs: tuple[Slab, ...], prefix: str, ports: Span) -> Span:
    """The widest range of ports around those given that is open on the whole prefix."""
    network = ip_network(prefix)
    first, last = int(network[0]), int(network[-1])
    spans = [
        next((low, high) for low, high in some.spans if low <= ports[0] <= high)
        for start, end, some in slabs
        if start <= last and first <= end
    ]
    return max(low for low, _ in spans), min(high for _, high in spans)
