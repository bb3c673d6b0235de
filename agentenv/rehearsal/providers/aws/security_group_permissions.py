"""Security group rules: the SDK's blocks and EC2's permissions, taken apart to single rules that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

EVERYTHING: Final = "-1"
NUMBERS: Final = {"6": "tcp", "17": "udp", "1": "icmp", "58": "icmpv6", "all": EVERYTHING, "": EVERYTHING}
SOURCES: Final = (
    ("cidrBlocks", "IpRanges", "CidrIp"),
    ("ipv6CidrBlocks", "Ipv6Ranges", "CidrIpv6"),
    ("prefixListIds", "PrefixListIds", "PrefixListId"),
    ("securityGroups", "UserIdGroupPairs", "GroupId"),
)


@dataclass(frozen=True, order=True)
class Single:
    """One protocol, one range of ports, one source."""

    protocol: str
    first: int
    last: int
    kind: str
    source: str
    description: str = ""

    def permission(self) -> dict[str, Any]:
        """As EC2 takes it."""
        member, key = next((m, k) for kind, m, k in SOURCES if kind == self.kind)
        source = {key: self.source} | ({"Description": self.description} if self.description else {})
        out: dict[str, Any] = {"IpProtocol": self.protocol, member: [source]}
        if self.protocol != EVERYTHING:
            out |= {"FromPort": self.first, "ToPort": self.last}
        return out


def protocol_of(value: Any) -> str:
    text = str(value).lower()
    return NUMBERS.get(text, text)


def from_blocks(blocks: Iterable[Mapping[str, Any]], own: str = "self") -> frozenset[Single]:
    """The single rules of the SDK's blocks; `own` is the group's id, which `self` stands for."""
    out: set[Single] = set()
    for block in blocks:
        protocol = protocol_of(block.get("protocol"))
        ports = (0, 0) if protocol == EVERYTHING else (int(block.get("fromPort") or 0), int(block.get("toPort") or 0))
        said = str(block.get("description") or "")
        for kind, _, _ in SOURCES:
            out |= {Single(protocol, *ports, kind, str(source), said) for source in block.get(kind) or []}
        if block.get("self"):
            out.add(Single(protocol, *ports, "securityGroups", own, said))
    return frozenset(out)


def from_permissions(permissions: Iterable[Mapping[str, Any]]) -> frozenset[Single]:
    """The single rules of EC2's permissions."""
    out: set[Single] = set()
    for one in permissions:
        protocol = protocol_of(one.get("IpProtocol"))
        ports = (0, 0) if protocol == EVERYTHING else (int(one.get("FromPort", 0)), int(one.get("ToPort", 0)))
        for kind, member, key in SOURCES:
            for source in one.get(member, []):
                out.add(Single(protocol, *ports, kind, str(source[key]), str(source.get("Description") or "")))
    return frozenset(out)


def to_blocks(singles: Iterable[Single], own: str) -> list[dict[str, Any]]:
    """The SDK's blocks: sources of the same protocol, ports and description together."""
    blocks: dict[tuple[str, int, int, str], dict[str, Any]] = {}
    for one in sorted(singles):
        key = (one.protocol, one.first, one.last, one.description)
        block = blocks.setdefault(
            key,
            {
                "protocol": one.protocol,
                "fromPort": one.first,
                "toPort": one.last,
                "description": one.description,
                "self": False,
                **{kind: [] for kind, _, _ in SOURCES},
            },
        )
        if one.kind == "securityGroups" and one.source == own:
            block["self"] = True
        else:
            block[one.kind].append(one.source)
    return list(blocks.values())


def same_blocks(left: Any, right: Any) -> bool:
    """Whether two lists of blocks let the same through, however they are cut."""
    if not isinstance(left, list) or not isinstance(right, list):
        return left == right
    return from_blocks(left) == from_blocks(right)
