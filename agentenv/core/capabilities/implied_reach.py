"""What a parent's reach allows besides what it says, because of how this cluster works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.core.capabilities.resolve import internet_here
from agentenv.core.capabilities.sets.address_ranges import spans, within
from agentenv.core.capabilities.sets.boxes import ALL_PORTS, NO_BOXES, product, union
from agentenv.core.capabilities.sets.domains import EVERY_NAME, Name
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import remainder
from agentenv.core.capabilities.sets.reach import NOTHING, Bounds, Reach

if TYPE_CHECKING:
    from agentenv.core.capabilities.cluster_facts import ClusterFacts
    from agentenv.core.capabilities.sets.reach import World

PROXY_QUESTION = "whether the egress proxy refuses names that resolve to addresses outside the internet"


def with_implied(parent: Bounds, here: ClusterFacts, world: World) -> Bounds:
    """The parent's reach with the resolver's address and with names, where it has what stands behind them."""
    least, most = parent.least | _resolver(parent.least, here), parent.most | _resolver(parent.most, here)
    if here.proxy is None or here.proxy.refuses_private is False:
        return Bounds(least, most, parent.unknown)
    named = most | _names(most, here, world)
    if here.proxy.refuses_private is True:
        return Bounds(least | _names(least, here, world), named, parent.unknown)
    return Bounds(least, named, parent.unknown if named <= most else (*parent.unknown, PROXY_QUESTION))


def _resolver(reach: Reach, here: ClusterFacts) -> Reach:
    """The address of the resolver's service leads to the resolver's pods and nowhere else."""
    if not here.resolver.doors or remainder(here.resolver.doors, reach.doors):
        return NOTHING
    addresses = within(spans(here.resolver_addresses), here.versions)
    return Reach(
        union(
            [
                product((version,), here.resolver.protocols, mine, here.resolver.ports)
                for version, mine in addresses.items()
            ]
        )
    )


def _names(reach: Reach, here: ClusterFacts, world: World) -> Reach:
    """A proxy that refuses what is not the internet gives a name no more than the internet on the same port."""
    internet = union(
        [product((version,), ("TCP",), mine, ALL_PORTS) for version, mine in internet_here(here, world).items()]
    )
    ports = ALL_PORTS - Intervals.of(box.ports for box in (internet - reach.boxes).boxes())
    return Reach(names=frozenset({Name(EVERY_NAME, ports)})) if ports and internet != NO_BOXES else NOTHING
