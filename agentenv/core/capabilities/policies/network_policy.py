"""Compile a class's reach into its NetworkPolicy, which allows exactly that reach.

No two blocks overlap, and none lies within another's exceptions. Kubernetes accepts both, but the VPC CNI's agent keeps
one entry per prefix and matches the longest. Where a block lies within the exceptions of another, it merges the ports
of both (aws-network-policy-agent, pull request 344). An exception is used only where nothing else is allowed inside its
block; otherwise the addresses are listed as prefixes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL, ClusterFacts
from agentenv.core.capabilities.grants import RefusedGrantError
from agentenv.core.capabilities.sets.address_ranges import address_text, prefixes
from agentenv.core.capabilities.sets.boxes import ALL_PORTS, PROTOCOLS, VERSIONS, Protocol, Slab, Version
from agentenv.core.capabilities.sets.domains import EVERY_NAME
from agentenv.core.capabilities.sets.intervals import EMPTY, Intervals
from agentenv.core.capabilities.sets.pods import Pods, Side, Values
from agentenv.core.capabilities.sets.reach import NOTHING, Reach

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Plain = dict[str, Any]
# The ports of each protocol, in the order of PROTOCOLS, that a set of destinations shares.
Profile = tuple[Intervals, ...]
EVERY_PORT: Profile = (ALL_PORTS,) * len(PROTOCOLS)


def network_policy(
    class_name: str, egress: Reach, cluster: ClusterFacts, ingress: Reach = NOTHING, name: str = "capabilities"
) -> Plain:
    """Return the policy of a class; raise `RefusedGrantError` for what a NetworkPolicy cannot express."""
    if not cluster.agent_enforces:
        raise RefusedGrantError(
            f"a NetworkPolicy, which {cluster.agent} does not enforce",
            "a cluster that enforces it, or a security group",
            "switch its network policy on, in strict mode",
        )
    if ingress.names:
        raise RefusedGrantError("ingress by name", "ranges and pods", "callers have addresses and labels, no names")
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": f"sandbox-{class_name}", "labels": {CLASS_LABEL: class_name}},
        "spec": {
            "podSelector": {"matchLabels": {CLASS_LABEL: class_name}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": _rules(ingress, "from", cluster),
            "egress": _rules(through_proxy(egress, cluster), "to", cluster),
        },
    }


def through_proxy(reach: Reach, cluster: ClusterFacts) -> Reach:
    """Return the reach with its names replaced by the egress proxy, which is what the pod itself connects to."""
    if not reach.names:
        return reach
    if cluster.proxy is None or any(name.pattern == EVERY_NAME for name in reach.names):
        raise RefusedGrantError(
            f"domain {min(reach.names).pattern}",
            "words, ranges and classes",
            f"{cluster.agent} holds addresses and no names; configure an egress proxy, or grant web",
        )
    return Reach(reach.boxes, reach.pod_ports | cluster.proxy.service.pod_ports)


def dns_settings(*, granted: bool, cluster: ClusterFacts) -> Plain:
    """Return the pod's DNS settings, always explicit: the default depends on what created the pod."""
    if granted and not cluster.resolver_addresses:
        return {"dnsPolicy": "ClusterFirst", "dnsConfig": {"options": [_FEW_DOTS]}}
    # A pod must name a resolver. Without a DNS grant it names itself, so that a lookup fails at once instead of waiting
    # for an answer that the policy denies.
    servers = list(cluster.resolver_addresses) if granted else ["127.0.0.1"]
    return {"dnsPolicy": "None", "dnsConfig": {"nameservers": servers, "searches": [], "options": [_FEW_DOTS]}}


# A name with a dot is queried as it is, and only then within the search domains. By Kubernetes' default a name with
# fewer than five dots, such as a registry's, is first queried in each search domain, for both address families.
_FEW_DOTS = {"name": "ndots", "value": "1"}


@dataclass(frozen=True)
class _Group:
    """The addresses that share one profile of ports."""

    profile: Profile
    version: Version
    addresses: Intervals


def _rules(reach: Reach, direction: str, cluster: ClusterFacts) -> list[Plain]:
    peers: dict[Profile, list[Plain]] = {}
    for profile, pods in _pod_groups(reach):
        peers.setdefault(profile, []).extend(_selectors(pods))
    groups = list(_groups(reach))
    for group in groups:
        others = Intervals.of(
            span
            for other in groups
            if other.version == group.version and other is not group
            for span in other.addresses.spans
        )
        peers.setdefault(group.profile, []).extend({"ipBlock": block} for block in _blocks(group, others))
    return [_rule(profile, entries, direction, cluster) for profile, entries in peers.items()]


def _rule(profile: Profile, peers: list[Plain], direction: str, cluster: ClusterFacts) -> Plain:
    if profile == EVERY_PORT:
        return {direction: peers}
    ports = _ports(profile)
    if cluster.agent_most_ports is not None and len(ports) > cluster.agent_most_ports:
        raise RefusedGrantError(
            f"{len(ports)} ranges of ports for the same addresses",
            f"{cluster.agent_most_ports}, which is what {cluster.agent} keeps for one range",
            "grant ranges of ports that touch, or all ports",
        )
    return {direction: peers, "ports": ports}


def _ports(profile: Profile) -> list[Plain]:
    entries: list[Plain] = []
    for protocol, ports in zip(PROTOCOLS, profile, strict=True):
        if protocol == "OTHER" and ports:
            raise RefusedGrantError(
                "protocols without ports beside some ports",
                "all protocols and ports, or ports",
                "grant one or the other",
            )
        if ports == ALL_PORTS:
            entries.append({"protocol": protocol})
            continue
        for low, high in ports.spans:
            entries.append({"protocol": protocol, "port": low, **({"endPort": high} if high > low else {})})
    return entries


def _groups(reach: Reach) -> Iterator[_Group]:
    """Yield disjoint sets of addresses, one for each profile of ports."""
    for version in VERSIONS:
        slabs: dict[Protocol, tuple[Slab, ...]] = {
            protocol: reach.boxes.slabs((version, protocol)) for protocol in PROTOCOLS
        }
        spans: dict[Profile, list[tuple[int, int]]] = {}
        for low, high in _segments(slabs):
            profile = tuple(_ports_at(slabs[protocol], low) for protocol in PROTOCOLS)
            if any(profile):
                spans.setdefault(profile, []).append((low, high))
        for profile, entries in spans.items():
            yield _Group(profile, version, Intervals.of(entries))


def _segments(slabs: Mapping[Protocol, tuple[Slab, ...]]) -> Iterator[tuple[int, int]]:
    edges = sorted({edge for some in slabs.values() for low, high, _ in some for edge in (low, high + 1)})
    return ((low, after - 1) for low, after in pairwise(edges))


def _ports_at(slabs: tuple[Slab, ...], address: int) -> Intervals:
    return next((ports for low, high, ports in slabs if low <= address <= high), EMPTY)


def _blocks(group: _Group, others: Intervals) -> list[Plain]:
    """Return the group's addresses as IP blocks, with exceptions where that is shorter and safe."""
    plain = prefixes(group.version, group.addresses)
    low, high = group.addresses.spans[0][0], group.addresses.spans[-1][1]
    bits = 32 if group.version == 4 else 128
    free = (low ^ high).bit_length()
    first = low >> free << free
    cover = Intervals.single(first, first + (1 << free) - 1)
    exceptions = prefixes(group.version, cover - group.addresses)
    if cover & others or len(exceptions) + 1 >= len(plain):
        return [{"cidr": prefix} for prefix in plain]
    return [{"cidr": f"{address_text(group.version, first)}/{bits - free}", "except": list(exceptions)}]


def _pod_groups(reach: Reach) -> Iterator[tuple[Profile, Pods]]:
    ports: dict[Pods, dict[Protocol, Intervals]] = {}
    for entry in reach.pod_ports:
        mine = ports.setdefault(entry.pods, {})
        mine[entry.protocol] = mine.get(entry.protocol, EMPTY) | entry.ports
    for pods in sorted(ports, key=lambda some: repr(some.labels)):
        yield tuple(ports[pods].get(protocol, EMPTY) for protocol in PROTOCOLS), pods


def _selectors(pods: Pods) -> list[Plain]:
    """Return the peers that select these pods; a label that may be absent or have a value takes two of them."""
    for key, values in pods.labels:
        if not values.all_but and None in values.named and len(values.named) > 1:
            halves = (Values(frozenset({None})), Values(values.named - {None}))
            return [peer for half in halves for peer in _selectors(Pods.of({**dict(pods.labels), key: half}))]
    peer: Plain = {"namespaceSelector": _selector(pods, "namespace")}
    if any(side == "pod" for (side, _), _ in pods.labels):
        peer["podSelector"] = _selector(pods, "pod")
    return [peer]


def _selector(pods: Pods, side: Side) -> Plain:
    labels: dict[str, str] = {}
    expressions: list[Plain] = []
    for (mine, key), values in pods.labels:
        if mine != side:
            continue
        named = sorted(value for value in values.named if value is not None)
        if not values.all_but and len(named) == 1:
            labels[key] = named[0]
        elif not values.all_but:
            expressions.append(
                {"key": key, "operator": "In", "values": named} if named else {"key": key, "operator": "DoesNotExist"}
            )
        else:
            if None in values.named:
                expressions.append({"key": key, "operator": "Exists"})
            if named:
                expressions.append({"key": key, "operator": "NotIn", "values": named})
    return {**({"matchLabels": labels} if labels else {}), **({"matchExpressions": expressions} if expressions else {})}
