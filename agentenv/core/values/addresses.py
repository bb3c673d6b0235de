"""Divides a VPC's range into subnets, and tells how many nodes and pods fit into them.

The division depends on the range alone, never on how many zones are asked for: a /16 to /20 is laid out for six zones
(as many as the largest region has), a smaller range for three, two or one. Zone n therefore keeps its blocks when zone
n + 1 is added; were the range divided by today's number of zones, the third zone would move the first two, and AWS
replaces a subnet that moves, with everything that runs in it. A range that was laid out for fewer zones than asked for
is refused rather than divided anew, for the same reason.

The range is cut into equal slots, a power of two. Private block n is slot n. The last slot holds the public blocks,
which carry NAT gateways and load balancers only and stay between /24 and /28; what remains of it, and the slots that
nobody asked for, are spare.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network

SMALLEST_VPC, LARGEST_VPC = 28, 16
SMALLEST_SUBNET = 28
LARGEST_PUBLIC = 24

# AWS keeps the first four addresses and the last one of every subnet, so a delegated prefix fits in neither end block.
PODS_PER_PREFIX = 16
END_BLOCKS = 2
SINGLE_ADDRESSES_IN_END_BLOCKS = 2 * PODS_PER_PREFIX - 5

# The CNI keeps one prefix in reserve on each node, beside those its pods use.
WARM_PREFIXES = 1

# What is neither a node nor a pod on one: the control plane's interfaces (twice while it is updated), a mount target a
# shard, interface endpoints, load balancers, Fargate pods of the controllers.
PLATFORM_ADDRESSES = 40

# What the kubelet allows on an instance of fewer than 30 vCPUs with prefix delegation.
PODS_PER_NODE = 110


class NoRoomError(ValueError):
    """A range that cannot hold what was asked of it: what was found, what would be allowed, and the way out."""

    def __init__(self, found: str, allowed: str, hint: str) -> None:
        super().__init__(f"{found}; allowed: {allowed}; {hint}")
        self.found = found
        self.allowed = allowed
        self.hint = hint


@dataclass(frozen=True)
class Layout:
    """How a range is cut, whatever the number of zones in use."""

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
class Room:
    """What fits: nodes, and pods on them."""

    nodes: int
    pods: int


@dataclass(frozen=True)
class AddressPlan:
    """A VPC's range and its blocks, one public and one private block a zone, in the order of the zones."""

    vpc: str
    public: tuple[str, ...]
    private: tuple[str, ...]

    def room(self, pods_per_node: int = PODS_PER_NODE) -> Room:
        """How many full nodes, and pods on them, the private blocks hold with /28 prefixes delegated to the nodes."""
        nodes = sum(_nodes(IPv4Network(block), pods_per_node) for block in self.private)
        return Room(nodes, nodes * pods_per_node)

    def demand(self, pods: int, pods_per_node: int = PODS_PER_NODE) -> None:
        """Raise `NoRoomError` unless that many pods fit."""
        room = self.room(pods_per_node)
        if pods <= room.pods:
            return
        larger = _range_for(pods, len(self.private), pods_per_node)
        raise NoRoomError(
            f"{self.vpc} over {len(self.private)} zones has room for {room.nodes} nodes, {room.pods} pods",
            f"a range for {pods} pods at {pods_per_node} a node",
            f"take a /{larger} or larger" if larger else "no VPC is that large: lower the limits or use more zones",
        )


def plan(cidr: str, zones: int) -> AddressPlan:
    """The blocks of a VPC over so many zones; `NoRoomError` when the range is not one or is laid out for fewer."""
    vpc = _vpc(cidr)
    most = most_zones(cidr)
    if not 1 <= zones <= most:
        larger = [layout for layout in LAYOUTS if layout.zones >= zones]
        raise NoRoomError(
            f"{zones} zones in {cidr}",
            f"1 to {most} zones in a /{vpc.prefixlen}",
            f"take a /{larger[-1].smallest} or larger" if zones > 0 and larger else f"use at most {most} zones",
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
    """How many zones a range is laid out for."""
    return _layout(_vpc(cidr)).zones


def _vpc(cidr: str) -> IPv4Network:
    allowed = f"an IPv4 range of /{LARGEST_VPC} to /{SMALLEST_VPC - 1}, such as 10.40.0.0/16"
    try:
        vpc = IPv4Network(cidr, strict=False)
    except ValueError:
        raise NoRoomError(
            f"{cidr!r} is not an IPv4 range", allowed, "write the first address, a slash, the length"
        ) from None
    if "/" not in cidr or not LARGEST_VPC <= vpc.prefixlen < SMALLEST_VPC:
        raise NoRoomError(
            f"{cidr} is a /{vpc.prefixlen}", allowed, "AWS makes no larger VPC, and two subnets need a /27"
        )
    if str(vpc) != cidr:
        raise NoRoomError(f"{cidr} has host bits", allowed, f"write {vpc}")
    return vpc


def _layout(vpc: IPv4Network) -> Layout:
    return next(layout for layout in LAYOUTS if layout.largest <= vpc.prefixlen <= layout.smallest)


def _nodes(block: IPv4Network, pods_per_node: int) -> int:
    """Full nodes in one private block: each takes whole prefixes, and one address of its own."""
    prefixes = max(block.num_addresses // PODS_PER_PREFIX - END_BLOCKS, 0)
    a_node = -(-pods_per_node // PODS_PER_PREFIX) + WARM_PREFIXES
    nodes = prefixes // a_node
    while nodes > 0:
        singles = max(nodes + PLATFORM_ADDRESSES - SINGLE_ADDRESSES_IN_END_BLOCKS, 0)
        if nodes * a_node + -(-singles // PODS_PER_PREFIX) <= prefixes:
            break
        nodes -= 1
    return nodes


def _range_for(pods: int, zones: int, pods_per_node: int) -> int | None:
    """The prefix length of the smallest range that would do."""
    for length in range(SMALLEST_VPC - 1, LARGEST_VPC - 1, -1):
        vpc = f"0.0.0.0/{length}"
        if zones <= most_zones(vpc) and plan(vpc, zones).room(pods_per_node).pods >= pods:
            return length
    return None
