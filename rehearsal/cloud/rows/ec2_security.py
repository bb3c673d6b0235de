"""Security groups: rules that say from where, to which ports; groups that stay while anything wears them."""

from __future__ import annotations

import ipaddress
import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from rehearsal.cloud.answers import Answer, Refused
from rehearsal.cloud.desk import Row
from rehearsal.cloud.rows.ec2_holds import holders_of_group, refuse_dependents
from rehearsal.cloud.rows.ec2_vpc import canonical

if TYPE_CHECKING:
    from rehearsal.cloud.desk import Desk

SOURCES = ("IpRanges", "Ipv6Ranges", "UserIdGroupPairs", "PrefixListIds")
TEXT = re.compile(r"[a-zA-Z0-9. _\-:/()#,@\[\]+=&;{}!$*]{0,255}")
NUMBERS = {"6": "tcp", "17": "udp", "1": "icmp", "58": "icmpv6", "-1": "-1"}


def create(desk: Desk) -> Answer:
    """A group with a name and a description that EC2 takes."""
    asked = desk.asked
    for name in ("GroupName", "Description"):
        if not TEXT.fullmatch(asked[name]) or not asked[name]:
            text = f"Value ({asked[name]}) for parameter {name} is invalid. Character sets beyond ASCII, "
            raise Refused(
                "InvalidParameterValue", text + "more than 255 characters and emptiness are not allowed.", 400
            )
    if asked["GroupName"].startswith("sg-"):
        text = f"Value ({asked['GroupName']}) for parameter GroupName is invalid. Group names may not begin with sg-."
        raise Refused("InvalidParameterValue", text, 400)
    if "VpcId" in asked:
        desk.backend("ec2").get_vpc(asked["VpcId"])
    return desk.forward()


def delete(desk: Desk) -> Answer:
    """Only a group that nothing wears or names goes, and never a VPC's default one."""
    group = desk.asked.get("GroupId")
    found = desk.backend("ec2").get_security_group_from_id(group) if group else None
    if found is not None:
        if found.is_default:
            text = f'the specified group: "{group}" name: "default" cannot be deleted by a user'
            raise Refused("CannotDelete", text, 400)
        refuse_dependents(holders_of_group(desk, found.id), "security group", found.id)
    return desk.forward()


def _ports(permission: dict[str, Any]) -> None:
    protocol = str(permission.get("IpProtocol", "")).lower()
    protocol = NUMBERS.get(protocol, protocol)
    low, high = permission.get("FromPort"), permission.get("ToPort")
    if protocol in {"tcp", "udp"}:
        if low is None or high is None:
            text = f"Invalid value 'Must specify both from and to ports with {protocol.upper()}/UDP.' for portRange."
            raise Refused("InvalidParameterValue", text, 400)
        if not 0 <= low <= high <= 65535:
            raise Refused("InvalidParameterValue", f"Invalid {protocol.upper()} port range: {low}-{high}", 400)
    elif protocol not in {"icmp", "icmpv6", "-1", "all"} and not protocol.isdigit():
        text = f"Invalid value '{permission.get('IpProtocol')}' for IP protocol. Unknown protocol."
        raise Refused("InvalidParameterValue", text, 400)


def _ranges(permission: dict[str, Any]) -> None:
    """Check the ranges, and put them as EC2 keeps them."""
    for kind, name, version in (("IpRanges", "CidrIp", 4), ("Ipv6Ranges", "CidrIpv6", 6)):
        for one in permission.get(kind, []):
            cidr = one.get(name, "")
            try:
                network = ipaddress.ip_network(cidr, strict=False)
            except ValueError:
                network = None
            if network is None or network.version != version or "/" not in cidr:
                raise Refused("InvalidParameterValue", f"CIDR block {cidr} is malformed", 400)
            if not TEXT.fullmatch(one.get("Description", "")):
                raise Refused("InvalidParameterValue", f"Invalid rule description: {one['Description']}", 400)
            one[name] = canonical(cidr)


def _others(desk: Desk, permission: dict[str, Any], vpc: str) -> None:
    for pair in permission.get("UserIdGroupPairs", []):
        other = pair.get("GroupId")
        if other and other not in desk.backend("ec2").groups.get(vpc, {}):
            text = f"You have specified two resources that belong to different networks, or {other} does not exist."
            raise Refused("InvalidGroup.NotFound", text, 400)
    for one in permission.get("PrefixListIds", []):
        if one.get("PrefixListId") not in desk.backend("ec2").managed_prefix_lists:
            text = f"The prefix list ID '{one.get('PrefixListId')}' does not exist"
            raise Refused("InvalidPrefixListId.NotFound", text, 400)


def authorize(desk: Desk) -> Answer:
    """Rules that name what they let in: a protocol, ports, and at least one source or destination."""
    asked = desk.asked
    if "IpPermissions" not in asked:
        return desk.forward()
    permissions = deepcopy(asked["IpPermissions"])
    group = desk.backend("ec2").get_security_group_from_id(asked.get("GroupId", ""))
    for permission in permissions:
        _ports(permission)
        if not any(permission.get(source) for source in SOURCES):
            text = "The request must contain a source or destination: cidrIp, cidrIpv6, prefixListId or groupId"
            raise Refused("MissingParameter", text, 400)
        _ranges(permission)
        if group is not None:
            _others(desk, permission, group.vpc_id)
    _refuse_twins(permissions)
    return desk.forward(None if permissions == asked["IpPermissions"] else {**asked, "IpPermissions": permissions})


def _refuse_twins(permissions: list[dict[str, Any]]) -> None:
    """The same rule twice in one call is as much a duplicate as in two."""
    seen: set[tuple[Any, ...]] = set()
    for permission in permissions:
        where = tuple(permission.get(name) for name in ("IpProtocol", "FromPort", "ToPort"))
        for source in SOURCES:
            for one in permission.get(source, []):
                who = tuple(sorted((name, value) for name, value in one.items() if name != "Description"))
                if (*where, who) in seen:
                    raise Refused("InvalidParameterValue", "The same permission must not appear multiple times", 400)
                seen.add((*where, who))


def revoke(desk: Desk) -> Answer:
    """Rules are named as EC2 keeps them, whatever host bits the caller wrote."""
    asked = desk.asked
    permissions = deepcopy(asked.get("IpPermissions", []))
    for permission in permissions:
        _ranges(permission)
    if permissions == asked.get("IpPermissions", []):
        return desk.forward()
    return desk.forward({**asked, "IpPermissions": permissions})


ROWS = (
    Row("ec2", "CreateSecurityGroup", create),
    Row("ec2", "DeleteSecurityGroup", delete),
    Row("ec2", "AuthorizeSecurityGroupIngress", authorize),
    Row("ec2", "AuthorizeSecurityGroupEgress", authorize),
    Row("ec2", "RevokeSecurityGroupIngress", revoke),
    Row("ec2", "RevokeSecurityGroupEgress", revoke),
)
