"""Read one rule of a NetworkPolicy: its peers and its ports, each between what is certain and what is possible.

What the API server would reject is read as unknown: it will be corrected, and it is not known to what.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import TYPE_CHECKING, Literal

from agentenv.core.capabilities.policies.selectors import UnreadableSelectorError, conditions
from agentenv.core.capabilities.sets.address_ranges import Spans, all_addresses, spans, subtract_spans, union_of_spans
from agentenv.core.capabilities.sets.boxes import ALL_PORTS, PORTS, PROTOCOLS, BoxSet, Protocol, Version, product, union
from agentenv.core.capabilities.sets.domains import EVERY_NAME, Name
from agentenv.core.capabilities.sets.intervals import EMPTY, Intervals
from agentenv.core.capabilities.sets.pods import ALL_PODS, NAMESPACE_NAME, Pods, Values, pod_ports_of
from agentenv.core.capabilities.sets.reach import EVERYTHING, NOTHING, Bounds, Reach
from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown, as_list, as_mapping, as_number

if TYPE_CHECKING:
    from collections.abc import Mapping

PortMap = dict[Protocol, Intervals]
EVERY_PORT: PortMap = dict.fromkeys(PROTOCOLS, ALL_PORTS)
# A rule that lists ports allows no protocol without ports.
LISTED: tuple[Protocol, ...] = ("TCP", "UDP", "SCTP")


@dataclass(frozen=True)
class Peers:
    """The peers of a rule: addresses, pods, and everything where a rule names no peer."""

    addresses: Spans = field(default_factory=dict[Version, Intervals])
    pods: frozenset[Pods] = frozenset()
    everything: bool = False

    def on(self, ports: PortMap) -> Reach:
        """Return the reach of these peers on those ports."""
        if self.everything and ports == EVERY_PORT:
            return EVERYTHING
        boxes: list[BoxSet] = [
            product((version,), (protocol,), addresses, open_ports)
            for version, addresses in self.addresses.items()
            for protocol, open_ports in ports.items()
        ]
        pod_ports = frozenset(
            entry
            for pods in self.pods
            for protocol, open_ports in ports.items()
            for entry in pod_ports_of(pods, (protocol,), open_ports)
        )
        tcp = ports.get("TCP", EMPTY)
        return Reach(
            union(boxes), pod_ports, frozenset({Name(EVERY_NAME, tcp)}) if self.everything and tcp else frozenset()
        )


EVERY_PEER = Peers(all_addresses(), frozenset({ALL_PODS}), everything=True)


def read_rule(rule: object, direction: Literal["Egress", "Ingress"], namespace: str | Unknown, path: str) -> Bounds:
    """Return what one rule allows; an empty rule allows everything."""
    raw = as_mapping(rule)
    if raw is None:
        return Bounds(NOTHING, EVERYTHING, (path,))
    side = "to" if direction == "Egress" else "from"
    unknown: list[str] = []
    sure_places, possible_places = _peers(raw.get(side), namespace, f"{path}.{side}", unknown)
    sure_ports, possible_ports = _ports(raw.get("ports"), f"{path}.ports", unknown)
    return Bounds(sure_places.on(sure_ports), possible_places.on(possible_ports), tuple(unknown))


def _peers(value: object, namespace: str | Unknown, path: str, unknown: list[str]) -> tuple[Peers, Peers]:
    peers = as_list(value)
    if peers is None:
        unknown.append(path)
        return Peers(), EVERY_PEER
    if not peers:
        return EVERY_PEER, EVERY_PEER
    sure, possible = Peers(), Peers()
    for index, peer in enumerate(peers):
        least, most = _peer(as_mapping(peer) or {}, namespace, f"{path}[{index}]", unknown)
        sure, possible = _union(sure, least), _union(possible, most)
    return sure, possible


def _union(left: Peers, right: Peers) -> Peers:
    return Peers(
        union_of_spans(left.addresses, right.addresses),
        left.pods | right.pods,
        everything=left.everything or right.everything,
    )


def _peer(peer: Mapping[str, object], namespace: str | Unknown, path: str, unknown: list[str]) -> tuple[Peers, Peers]:
    block = peer.get("ipBlock")
    selects = any(peer.get(key) is not None for key in ("namespaceSelector", "podSelector"))
    if (block is None) == (not selects):
        unknown.append(path)
        return Peers(), EVERY_PEER
    return _pods(peer, namespace, path, unknown) if block is None else _block(block, f"{path}.ipBlock", unknown)


def _pods(peer: Mapping[str, object], namespace: str | Unknown, path: str, unknown: list[str]) -> tuple[Peers, Peers]:
    try:
        pods = conditions(peer.get("podSelector"), "pod")
        if peer.get("namespaceSelector") is not None:
            pods |= conditions(peer["namespaceSelector"], "namespace")
        elif namespace is not UNKNOWN:
            pods["namespace", NAMESPACE_NAME] = Values(frozenset({namespace}))
        else:
            unknown.append(f"{path}: the policy's namespace")
            return Peers(), Peers(pods=frozenset({Pods.of(pods)}))
    except UnreadableSelectorError:
        unknown.append(path)
        return Peers(), Peers(pods=frozenset({ALL_PODS}))
    places = Peers(pods=frozenset({Pods.of(pods)}))
    return places, places


def _block(block: object, path: str, unknown: list[str]) -> tuple[Peers, Peers]:
    raw = as_mapping(block) or {}
    cidr, exceptions = _range(raw.get("cidr")), as_list(raw.get("except"))
    if cidr is None:
        unknown.append(f"{path}.cidr")
        return Peers(), Peers(all_addresses())
    if exceptions is None:
        unknown.append(f"{path}.except")
        return Peers(), Peers(cidr)
    read = [_range(entry) for entry in exceptions]
    most = Peers(subtract_spans(cidr, union_of_spans(*(entry for entry in read if entry is not None))))
    if None in read:
        unknown.append(f"{path}.except[{read.index(None)}]")
        return Peers(), most
    return most, most


def _range(text: object) -> Spans | None:
    if not isinstance(text, str) or "/" not in text:
        return None
    try:
        # The API server accepts a CIDR with host bits and uses its network.
        return spans((str(ip_network(text, strict=False)),))
    except ValueError:
        return None


def _ports(value: object, path: str, unknown: list[str]) -> tuple[PortMap, PortMap]:
    listed = as_list(value)
    if listed is None:
        unknown.append(path)
        return {}, EVERY_PORT
    if not listed:
        return EVERY_PORT, EVERY_PORT
    sure: PortMap = {}
    possible: PortMap = {}
    for index, entry in enumerate(listed):
        least, most = _port(entry)
        if least != most:
            unknown.append(f"{path}[{index}]")
        for into, what in ((sure, least), (possible, most)):
            for protocol, ports in what.items():
                into[protocol] = into.get(protocol, EMPTY) | ports
    return sure, possible


def _port(value: object) -> tuple[PortMap, PortMap]:
    raw = as_mapping(value)
    protocol = None if raw is None else _protocol(raw.get("protocol"))
    if raw is None or protocol is None:
        return {}, dict.fromkeys(LISTED, ALL_PORTS)
    if raw.get("port") is None and raw.get("endPort") is None:
        return {protocol: ALL_PORTS}, {protocol: ALL_PORTS}
    low = as_number(raw.get("port"))
    high = low if raw.get("endPort") is None else as_number(raw.get("endPort"))
    if low is not None and high is not None and PORTS[0] <= low <= high <= PORTS[1]:
        return {protocol: Intervals.single(low, high)}, {protocol: Intervals.single(low, high)}
    # A named port is resolved by the destination pod; anything else is rejected, or not known yet.
    return {}, {protocol: ALL_PORTS}


def _protocol(value: object) -> Protocol | None:
    match value:
        case None | "" | "TCP":
            return "TCP"
        case "UDP":
            return "UDP"
        case "SCTP":
            return "SCTP"
        case _:
            return None
