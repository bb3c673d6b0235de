"""Compile a reach into security-group rules.

Rules only allow, and have no exceptions: exceptions become the prefixes between them. Rules may overlap. Ports are
therefore taken one range at a time, each with all its addresses, and then widened as far as the set allows. Otherwise a
single port that is open on every address would be split by every other grant.
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
)
from agentenv.core.capabilities.sets.intervals import EMPTY, Intervals, Span
from agentenv.core.capabilities.sets.pods import Pods
from agentenv.core.capabilities.sets.reach import Reach

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EVERY_PROTOCOL = "-1"
# AWS accepts ports only for TCP and UDP; SCTP is a protocol number, with all of its ports.
PROTOCOL_NAMES: dict[Protocol, str] = {"TCP": "tcp", "UDP": "udp", "SCTP": "132"}
GRANTED = "granted"


@dataclass(frozen=True)
class GroupRule:
    """One rule: a protocol with ports, for a CIDR range or for the members of a group."""

    protocol: str
    ports: Span | None
    cidr: str | None = None
    group: str | None = None
    why: str = ""

    def plain(self) -> dict[str, Any]:
        """Return the rule as arguments of the AWS provider's rule resources."""
        arguments: dict[str, Any] = {"ip_protocol": self.protocol, "description": self.why}
        if self.ports is not None:
            low, high = self.ports
            arguments |= {"from_port": 0 if self.ports == PORTS else low, "to_port": high}
        if self.group is not None:
            arguments["referenced_security_group_id"] = self.group
        if self.cidr is not None:
            arguments["cidr_ipv6" if ":" in self.cidr else "cidr_ipv4"] = self.cidr
        return arguments


def group_rules(reach: Reach, members: Mapping[Pods, str]) -> tuple[GroupRule, ...]:
    """Return the rules that allow exactly this reach; `members` maps sets of pods to their group."""
    return (*_group_rules(reach, members), *(rule for version in VERSIONS for rule in _ranges(reach.boxes, version)))


def _group_rules(reach: Reach, members: Mapping[Pods, str]) -> Iterator[GroupRule]:
    """Yield rules that reference the pods' groups, with the ports of each group merged."""
    ports: dict[tuple[str, Protocol], Intervals] = {}
    for entry in sorted(reach.pod_ports, key=repr):
        group = members.get(entry.pods)
        if group is None:
            where = f"pods of {entry.pods.namespace}" if entry.pods.namespace else "pods of several namespaces"
            raise RefusedGrantError(
                f"{where}, which are in no security group of their own",
                "pods on Fargate, and ranges of addresses",
                "run the class at the other end on fargate too, or grant a range",
            )
        ports[group, entry.protocol] = ports.get((group, entry.protocol), EMPTY) | entry.ports
    for group in dict.fromkeys(group for group, _ in ports):
        mine: dict[Protocol, Intervals] = {
            protocol: some for (other, protocol), some in ports.items() if other == group
        }
        if all(mine.get(protocol) == ALL_PORTS for protocol in PROTOCOLS):
            yield GroupRule(EVERY_PROTOCOL, None, group=group, why=GRANTED)
            continue
        for protocol, some in mine.items():
            for span in _port_ranges(protocol, some):
                yield GroupRule(PROTOCOL_NAMES[protocol], span, group=group, why=GRANTED)


def _port_ranges(protocol: Protocol, ports: Intervals) -> tuple[Span | None, ...]:
    """Return the ports as a security group can express them."""
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
class _RangeRule:
    """A rule for a CIDR range, with its first and last address as numbers."""

    protocol: str
    ports: Span | None
    cidr: str
    first: int
    last: int

    @classmethod
    def to(cls, cidr: str, protocol: str, ports: Span | None) -> _RangeRule:
        network = ip_network(cidr)
        return cls(protocol, ports, cidr, int(network[0]), int(network[-1]))

    def covers(self, other: _RangeRule) -> bool:
        """Return whether it allows everything that the other one does; both are of one IP version."""
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
    rules = [_RangeRule.to(prefix, EVERY_PROTOCOL, None) for prefix in prefixes(version, whole)]
    for protocol in PROTOCOLS:
        slabs = boxes.slabs((version, protocol))
        if protocol in {"TCP", "UDP"}:
            rules += [
                _RangeRule.to(prefix, PROTOCOL_NAMES[protocol], _widened(slabs, prefix, ports))
                for ports, addresses in _by_port(slabs)
                for prefix in prefixes(version, addresses)
            ]
            continue
        for low, high, ports in slabs:
            rest = Intervals.single(low, high) - whole
            for span in _port_ranges(protocol, ports) if rest else ():
                rules += [_RangeRule.to(prefix, PROTOCOL_NAMES[protocol], span) for prefix in prefixes(version, rest)]
    distinct = list(dict.fromkeys(rules))
    for rule in distinct:
        if not any(other.covers(rule) for other in distinct if other != rule):
            yield GroupRule(rule.protocol, rule.ports, cidr=rule.cidr, why=GRANTED)


def _open_entirely(boxes: BoxSet, version: Version) -> Intervals:
    """Return the addresses on which every port of every protocol is open."""
    tcp, *others = (
        Intervals.of((low, high) for low, high, ports in boxes.slabs((version, protocol)) if ports == ALL_PORTS)
        for protocol in PROTOCOLS
    )
    for other in others:
        tcp &= other
    return tcp


def _by_port(slabs: tuple[Slab, ...]) -> Iterator[tuple[Span, Intervals]]:
    """Yield the ranges of ports that have the same addresses, each with those addresses."""
    edges = sorted({edge for _, _, ports in slabs for low, high in ports.spans for edge in (low, high + 1)})
    for low, after in pairwise(edges):
        addresses = Intervals.of((first, last) for first, last, ports in slabs if low in ports)
        if addresses:
            yield (low, after - 1), addresses


def _widened(slabs: tuple[Slab, ...], prefix: str, ports: Span) -> Span:
    """Return the widest range of ports around `ports` that is open on the whole prefix."""
    network = ip_network(prefix)
    first, last = int(network[0]), int(network[-1])
    spans = [
        next((low, high) for low, high in some.spans if low <= ports[0] <= high)
        for start, end, some in slabs
        if start <= last and first <= end
    ]
    return max(low for low, _ in spans), min(high for _, high in spans)
