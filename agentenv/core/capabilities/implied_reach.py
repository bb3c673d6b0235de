"""The reach that a parent's grants imply in this cluster: the resolver's address, and names behind a proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.core.capabilities.resolve import internet_here
from agentenv.core.capabilities.sets.address_ranges import of_versions, spans
from agentenv.core.capabilities.sets.boxes import ALL_PORTS, NO_BOXES, product, union
from agentenv.core.capabilities.sets.domains import EVERY_NAME, Name
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import remaining_pod_ports
from agentenv.core.capabilities.sets.reach import NOTHING, Bounds, Reach

if TYPE_CHECKING:
    from agentenv.core.capabilities.cluster_facts import ClusterFacts
    from agentenv.core.capabilities.sets.reach import World

PROXY_QUESTION = "whether the egress proxy refuses names that resolve to addresses outside the internet"


def with_implied(parent: Bounds, cluster: ClusterFacts, world: World) -> Bounds:
    """Return the parent's reach with the resolver's address and with names, where its grants imply them."""
    least, most = parent.least | _resolver(parent.least, cluster), parent.most | _resolver(parent.most, cluster)
    if cluster.proxy is None or cluster.proxy.refuses_private is False:
        return Bounds(least, most, parent.unknown)
    named = most | _names(most, cluster, world)
    if cluster.proxy.refuses_private is True:
        return Bounds(least | _names(least, cluster, world), named, parent.unknown)
    return Bounds(least, named, parent.unknown if named <= most else (*parent.unknown, PROXY_QUESTION))


def _resolver(reach: Reach, cluster: ClusterFacts) -> Reach:
    """Return the resolver's service address where the resolver's pods are granted: it leads nowhere else."""
    if not cluster.resolver.pod_ports or remaining_pod_ports(cluster.resolver.pod_ports, reach.pod_ports):
        return NOTHING
    addresses = of_versions(spans(cluster.resolver_addresses), cluster.versions)
    return Reach(
        union(
            [
                product((version,), cluster.resolver.protocols, mine, cluster.resolver.ports)
                for version, mine in addresses.items()
            ]
        )
    )


def _names(reach: Reach, cluster: ClusterFacts, world: World) -> Reach:
    """Return every name where the internet is granted on the same port: the proxy refuses private addresses."""
    internet = union(
        [product((version,), ("TCP",), mine, ALL_PORTS) for version, mine in internet_here(cluster, world).items()]
    )
    ports = ALL_PORTS - Intervals.of(box.ports for box in (internet - reach.boxes).boxes())
    return Reach(names=frozenset({Name(EVERY_NAME, ports)})) if ports and internet != NO_BOXES else NOTHING
