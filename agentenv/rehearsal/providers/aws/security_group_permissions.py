"""Security group rules: the SDK's blocks and EC2's permissions as single rules, which can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

ALL_PROTOCOLS: Final = "-1"
PROTOCOLS: Final = {
    "6": "tcp",
    "17": "udp",
    "1": "icmp",
    "58": "icmpv6",
    "all": ALL_PROTOCOLS,
    "": ALL_PROTOCOLS,
}
SOURCES: Final = (
    ("cidrBlocks", "IpRanges", "CidrIp"),
    ("ipv6CidrBlocks", "Ipv6Ranges", "CidrIpv6"),
    ("prefixListIds", "PrefixListIds", "PrefixListId"),
    ("securityGroups", "UserIdGroupPairs", "GroupId"),
)


@dataclass(frozen=True, order=True)
class SingleRule:
    """One protocol, one range of ports, one source."""

    protocol: str
    first: int
    last: int
    kind: str
    source: str
    description: str = ""

    def permission(self) -> dict[str, Any]:
        """Return the rule as EC2 takes it."""
        member, key = next((m, k) for kind, m, k in SOURCES if kind == self.kind)
        source = {key: self.source} | ({"Description": self.description} if self.description else {})
        out: dict[str, Any] = {"IpProtocol": self.protocol, member: [source]}
        if self.protocol != ALL_PROTOCOLS:
            out |= {"FromPort": self.first, "ToPort": self.last}
        return out


def protocol_of(value: Any) -> str:
    text = str(value).lower()
    return PROTOCOLS.get(text, text)


def from_blocks(blocks: Iterable[Mapping[str, Any]], own_group: str = "self") -> frozenset[SingleRule]:
    """Return the single rules of the SDK's blocks. `own_group` is the id that `self` refers to."""
    out: set[SingleRule] = set()
    for block in blocks:
        protocol = protocol_of(block.get("protocol"))
        ports = (
            (0, 0) if protocol == ALL_PROTOCOLS else (int(block.get("fromPort") or 0), int(block.get("toPort") or 0))
        )
        description = str(block.get("description") or "")
        for kind, _, _ in SOURCES:
            out |= {SingleRule(protocol, *ports, kind, str(source), description) for source in block.get(kind) or []}
        if block.get("self"):
            out.add(SingleRule(protocol, *ports, "securityGroups", own_group, description))
    return frozenset(out)


def from_permissions(permissions: Iterable[Mapping[str, Any]]) -> frozenset[SingleRule]:
    """Return the single rules of EC2's permissions."""
    out: set[SingleRule] = set()
    for permission in permissions:
        protocol = protocol_of(permission.get("IpProtocol"))
        ports = (
            (0, 0)
            if protocol == ALL_PROTOCOLS
            else (int(permission.get("FromPort", 0)), int(permission.get("ToPort", 0)))
        )
        for kind, member, key in SOURCES:
            for source in permission.get(member, []):
                out.add(SingleRule(protocol, *ports, kind, str(source[key]), str(source.get("Description") or "")))
    return frozenset(out)


def to_blocks(rules: Iterable[SingleRule], own_group: str) -> list[dict[str, Any]]:
    """Return the SDK's blocks: one for all sources with the same protocol, ports and description."""
    blocks: dict[tuple[str, int, int, str], dict[str, Any]] = {}
    for rule in sorted(rules):
        key = (rule.protocol, rule.first, rule.last, rule.description)
        block = blocks.setdefault(
            key,
            {
                "protocol": rule.protocol,
                "fromPort": rule.first,
                "toPort": rule.last,
                "description": rule.description,
                "self": False,
                **{kind: [] for kind, _, _ in SOURCES},
            },
        )
        if rule.kind == "securityGroups" and rule.source == own_group:
            block["self"] = True
        else:
            block[rule.kind].append(rule.source)
    return list(blocks.values())


def same_blocks(left: Any, right: Any) -> bool:
    """Return whether two lists of blocks allow the same traffic."""
    if not isinstance(left, list) or not isinstance(right, list):
        return left == right
    return from_blocks(left) == from_blocks(right)
