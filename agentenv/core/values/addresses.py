"""The address plan of a VPC: its subnets, and how many nodes and pods fit into them.

The plan depends on the range alone, not on the number of zones. A /16 to /20 is divided for six zones (the most in any
region), a smaller range for three, two or one. So adding a zone does not change the subnets of the others; AWS would
replace a subnet with another range, with everything in it. For the same reason, a range that is too small for the
requested zones is rejected.

The range is divided into equal slots, a power of two. Private block n is slot n. The last slot has the public blocks
for NAT gateways and load balancers, of /24 to /28. The other addresses are spare.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network

from agentenv.core.values.errors import InvalidValueError

# RFC 1918; EKS takes ranges of services from these alone.
PRIVATE_NETWORKS = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))

SMALLEST_VPC, LARGEST_VPC = 28, 16
SMALLEST_SUBNET = 28
LARGEST_PUBLIC = 24

# AWS reserves the first four addresses and the last one of every subnet, so the end blocks cannot be delegated.
PODS_PER_PREFIX = 16
END_BLOCKS = 2
SINGLE_ADDRESSES_IN_END_BLOCKS = 2 * PODS_PER_PREFIX - 5

# The VPC CNI keeps one spare prefix on each node.
WARM_PREFIXES = 1

# Addresses for everything else: the control plane's interfaces (twice during updates), mount targets, interface
# endpoints, load balancers, and controllers on Fargate.
PLATFORM_ADDRESSES = 40

# The kubelet's limit on instances with fewer than 30 vCPUs and prefix delegation.
PODS_PER_NODE = 110


class AddressSpaceError(InvalidValueError):
    """A range that is invalid or too small."""


@dataclass(frozen=True)
class Layout:
    """The division of ranges of some sizes, independent of the number of zones in use."""

    largest: int
    smallest: int
    zones: int
    slot_bits: int  # a private block is 1 / 2**slot_bits of the range
    public_bits: int  # and a public one at most 1 / 2**public_bits


LAYOUTS = (
    Layout(16, 20, zones=6, slot_bits=3, public_bits=6),
    Layout(21, 24, zones=3, slot_bits=2, public_bits=4),
    Layout(25, 25, zones=2, slot_bits=2, public_bits=3),
    Layout(26, 27, zones=1, slot_bits=1, public_bits=1),
)


@dataclass(frozen=True)
class Capacity:
    """The number of nodes and pods that fit."""

    nodes: int
    pods: int


@dataclass(frozen=True)
class AddressPlan:
    """The range of a VPC and its blocks: one public and one private block for each zone, in the order of zones."""

    vpc: str
    public: tuple[str, ...]
    private: tuple[str, ...]

    def capacity(self, pods_per_node: int = PODS_PER_NODE) -> Capacity:
        """Return how many nodes and pods fit into the private blocks, with /28 prefixes delegated to the nodes."""
        nodes = sum(_nodes(IPv4Network(block), pods_per_node) for block in self.private)
        return Capacity(nodes, nodes * pods_per_node)

    def check_capacity(self, pods: int, pods_per_node: int = PODS_PER_NODE) -> None:
        """Raise `AddressSpaceError` unless this many pods fit."""
        capacity = self.capacity(pods_per_node)
        if pods <= capacity.pods:
            return
        larger = _range_for(pods, len(self.private), pods_per_node)
        raise AddressSpaceError(
            f"{self.vpc} over {len(self.private)} zones has room for {capacity.nodes} nodes, {capacity.pods} pods",
            f"a range for {pods} pods with {pods_per_node} on each node",
            f"use a /{larger} or larger" if larger else "no VPC is that large: lower the limits or use more zones",
        )


def plan(cidr: str, zones: int) -> AddressPlan:
    """Return the blocks of a VPC over some zones; raise `AddressSpaceError` for a range that cannot hold them."""
    vpc = _vpc(cidr)
    maximum = most_zones(cidr)
    if not 1 <= zones <= maximum:
        larger = [layout for layout in LAYOUTS if layout.zones >= zones]
        raise AddressSpaceError(
            f"{zones} zones in {cidr}",
            f"1 to {maximum} zones in a /{vpc.prefixlen}",
            f"use a /{larger[-1].smallest} or larger" if zones > 0 and larger else f"use at most {maximum} zones",
        )
    layout = _layout(vpc)
    slots = list(vpc.subnets(layout.slot_bits))
    public = min(max(vpc.prefixlen + layout.public_bits, LARGEST_PUBLIC), SMALLEST_SUBNET)
    return AddressPlan(
        str(vpc),
        public=tuple(str(block) for block in list(slots[-1].subnets(new_prefix=public))[:zones]),
        private=tuple(str(block) for block in slots[:zones]),
    )


def most_zones(cidr: str) -> int:
    """Return how many zones a range is divided for."""
    return _layout(_vpc(cidr)).zones


def _vpc(cidr: str) -> IPv4Network:
    allowed = f"an IPv4 range of /{LARGEST_VPC} to /{SMALLEST_VPC - 1}, such as 10.40.0.0/16"
    try:
        vpc = IPv4Network(cidr, strict=False)
    except ValueError:
        raise AddressSpaceError(
            f"{cidr!r} is not an IPv4 range", allowed, "write the first address, a slash, the length"
        ) from None
    if "/" not in cidr or not LARGEST_VPC <= vpc.prefixlen < SMALLEST_VPC:
        raise AddressSpaceError(
            f"{cidr} is a /{vpc.prefixlen}", allowed, "AWS does not support larger VPCs, and two subnets need a /27"
        )
    if str(vpc) != cidr:
        raise AddressSpaceError(f"{cidr} has host bits", allowed, f"write {vpc}")
    return vpc


def _layout(vpc: IPv4Network) -> Layout:
    return next(layout for layout in LAYOUTS if layout.largest <= vpc.prefixlen <= layout.smallest)


def _nodes(block: IPv4Network, pods_per_node: int) -> int:
    """Return how many full nodes fit into a private block; each needs whole prefixes and an address of its own."""
    prefixes = max(block.num_addresses // PODS_PER_PREFIX - END_BLOCKS, 0)
    per_node = -(-pods_per_node // PODS_PER_PREFIX) + WARM_PREFIXES
    nodes = prefixes // per_node
    while nodes > 0:
        singles = max(nodes + PLATFORM_ADDRESSES - SINGLE_ADDRESSES_IN_END_BLOCKS, 0)
        if nodes * per_node + -(-singles // PODS_PER_PREFIX) <= prefixes:
            break
        nodes -= 1
    return nodes


def _range_for(pods: int, zones: int, pods_per_node: int) -> int | None:
    """Return the prefix length of the smallest sufficient range; None without one."""
    for length in range(SMALLEST_VPC - 1, LARGEST_VPC - 1, -1):
        vpc = f"0.0.0.0/{length}"
        if zones <= most_zones(vpc) and plan(vpc, zones).capacity(pods_per_node).pods >= pods:
            return length
    return None
