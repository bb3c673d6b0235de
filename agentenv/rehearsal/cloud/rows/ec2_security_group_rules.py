"""Rules of security groups: from where, to which ports, each once, whatever its description says."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Answer, Refused
from agentenv.rehearsal.cloud.rows.ec2_security_groups import TEXT
from agentenv.rehearsal.cloud.rows.ec2_vpc import canonical

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk

SOURCES = ("IpRanges", "Ipv6Ranges", "UserIdGroupPairs", "PrefixListIds")
NUMBERS = {"6": "tcp", "17": "udp", "1": "icmp", "58": "icmpv6", "all": "-1"}
# Moto takes a description for a part of these sources, so that the same rule with other words is another rule to it;
# and it tells them in one answer only. The rows keep the words beside the source, where moto has those of ranges.
APART = {"UserIdGroupPairs": "GroupId", "PrefixListIds": "PrefixListId"}


def _protocol(said: str | None) -> str:
    name = str(said or "").lower()
    return NUMBERS.get(name, name)


def _ports(permission: dict[str, Any]) -> None:
    protocol = _protocol(permission.get("IpProtocol"))
    low, high = permission.get("FromPort"), permission.get("ToPort")
    if protocol in {"tcp", "udp"}:
        if low is None or high is None:
            text = f"Invalid value 'Must specify both from and to ports with {protocol.upper()}/UDP.' for portRange."
            raise Refused("InvalidParameterValue", text, 400)
        if not 0 <= low <= high <= 65535:
            raise Refused("InvalidParameterValue", f"Invalid {protocol.upper()} port range: {low}-{high}", 400)
    elif protocol not in {"icmp", "icmpv6", "-1"} and not protocol.isdigit():
        text = f"Invalid value '{permission.get('IpProtocol')}' for IP protocol. Unknown protocol."
        raise Refused("InvalidParameterValue", text, 400)


def _descriptions(permission: dict[str, Any]) -> None:
    for source in SOURCES:
        for one in permission.get(source, []):
            if not TEXT.fullmatch(one.get("Description", "")):
                raise Refused("InvalidParameterValue", f"Invalid rule description: {one['Description']}", 400)


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


def authorize(desk: Desk) -> Answer | dict[str, Any]:
    """Rules that name what they let in: a protocol, ports, and at least one source or destination."""
    asked = desk.asked
    if "IpPermissions" not in asked:
        return desk.forward()
    permissions = deepcopy(asked["IpPermissions"])
    group = _group(desk)
    if group is None:
        return desk.forward()
    for permission in permissions:
        _ports(permission)
        if not any(permission.get(source) for source in SOURCES):
            text = "The request must contain a source or destination: cidrIp, cidrIpv6, prefixListId or groupId"
            raise Refused("MissingParameter", text, 400)
        _descriptions(permission)
        _ranges(permission)
        _others(desk, permission, group.vpc_id)
    _refuse_twins(permissions)
    before = {rule.id for rule in _rules(group)}
    desk.result({**asked, "IpPermissions": _without_words(permissions)})
    # Moto tells the rules of the last permission only.
    made = [rule for rule in _rules(group) if rule.id not in before]
    for rule, (_, _, one) in zip(made, _singles(permissions), strict=True):
        if one.get("Description") is not None:
            rule.ip_range["Description"] = one["Description"]
    told = desk.ask("ec2", "DescribeSecurityGroupRules", SecurityGroupRuleIds=[rule.id for rule in made])
    return {"Return": True, "SecurityGroupRules": _owned(desk, told["SecurityGroupRules"])}


def _owned(desk: Desk, told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rules with whose group they are of, which moto leaves out."""
    return [{**rule, "GroupOwnerId": desk.account} for rule in told]


def rules(desk: Desk) -> dict[str, Any]:
    """Rules one by one."""
    said = desk.result()
    return {**said, "SecurityGroupRules": _owned(desk, said.get("SecurityGroupRules", []))}


def _group(desk: Desk) -> Any:
    return desk.backend("ec2").get_security_group_by_name_or_id(
        desk.asked.get("GroupId") or desk.asked.get("GroupName", "")
    )


def _rules(group: Any) -> list[Any]:
    return [*group.ingress_rules, *group.egress_rules]


def _singles(permissions: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str, dict[str, Any]]]:
    """Each rule of some permissions: permission, kind of source, source; in the order in which they are made."""
    for permission in permissions:
        for source in SOURCES:
            for one in permission.get(source, []):
                yield permission, source, one


def _without_words(permissions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    told = deepcopy(permissions)
    for _, source, one in _singles(told):
        if source in APART:
            one.pop("Description", None)
    return told


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
    """Rules are named as EC2 keeps them, whatever host bits or description the caller wrote."""
    asked = desk.asked
    permissions = deepcopy(asked.get("IpPermissions", []))
    for permission in permissions:
        _ranges(permission)
    permissions = _without_words(permissions)
    if permissions == asked.get("IpPermissions", []):
        return desk.forward()
    return desk.forward({**asked, "IpPermissions": permissions})


def modify(desk: Desk) -> Answer:
    """Rules put anew, with sources that are there; moto changes ranges of IPv4 only."""
    group = _group(desk)
    asked = [(one["SecurityGroupRuleId"], one["SecurityGroupRule"]) for one in desk.asked["SecurityGroupRules"]]
    for _, wanted in asked:
        permission = _permission(wanted)
        _descriptions(permission)
        _ranges(permission)
        if group is not None:
            _others(desk, permission, group.vpc_id)
    answer = desk.forward()
    if answer.ok and group is not None:
        for name, wanted in asked:
            _put(group.get_rule(name), wanted)
    return answer


def _permission(wanted: dict[str, Any]) -> dict[str, Any]:
    """A single rule, as the operations that make rules write it."""
    text = {"Description": wanted["Description"]} if "Description" in wanted else {}
    members = {
        "IpRanges": ("CidrIpv4", "CidrIp"),
        "Ipv6Ranges": ("CidrIpv6", "CidrIpv6"),
        "UserIdGroupPairs": ("ReferencedGroupId", "GroupId"),
        "PrefixListIds": ("PrefixListId", "PrefixListId"),
    }
    return {source: [{name: wanted[asked], **text}] for source, (asked, name) in members.items() if wanted.get(asked)}


def _put(rule: Any, wanted: dict[str, Any]) -> None:
    if six := wanted.get("CidrIpv6"):
        rule.ip_range["CidrIpv6"] = canonical(six)
    if other := wanted.get("ReferencedGroupId"):
        rule.source_group = {**rule.source_group, "GroupId": other}
    rule.prefix_list_id = wanted.get("PrefixListId", rule.prefix_list_id)


def describe(way: str) -> Callable[[Desk], dict[str, Any]]:
    """Other words for rules of one direction that are there, named by what they let through or by their ids."""

    def answer(desk: Desk) -> dict[str, Any]:
        group = _group(desk)
        if group is None:
            raise Refused("InvalidGroup.NotFound", f"There is no security group {desk.asked.get('GroupId')}.", 400)
        permissions = deepcopy(desk.asked.get("IpPermissions", []))
        for permission in permissions:
            _descriptions(permission)
            _ranges(permission)
        there = list(getattr(group, way))
        words: list[tuple[Any, str | None]] = []
        for permission, source, one in _singles(permissions):
            found = next((rule for rule in there if _is(rule, permission, source, one)), None)
            words.append((found, one.get("Description")))
        for one in desk.asked.get("SecurityGroupRuleDescriptions", []):
            found = next((rule for rule in there if rule.id == one.get("SecurityGroupRuleId")), None)
            words.append((found, one.get("Description")))
        if any(rule is None for rule, _ in words):
            text = "The specified rule does not exist in this security group."
            raise Refused("InvalidPermission.NotFound", text, 400)
        for rule, text in words:
            rule.ip_range.pop("Description", None)
            if text is not None:
                rule.ip_range["Description"] = text
        return {"Return": True}

    return answer


def _is(rule: Any, permission: dict[str, Any], source: str, one: dict[str, Any]) -> bool:
    protocol = _protocol(permission.get("IpProtocol"))
    if _protocol(rule.ip_protocol) != protocol:
        return False
    if protocol != "-1" and (rule.from_port, rule.to_port) != (permission.get("FromPort"), permission.get("ToPort")):
        return False
    match source:
        case "IpRanges":
            return rule.ip_range.get("CidrIp") == one["CidrIp"]
        case "Ipv6Ranges":
            return rule.ip_range.get("CidrIpv6") == one["CidrIpv6"]
        case "UserIdGroupPairs":
            return rule.source_group.get("GroupId") == one.get("GroupId")
        case _:
            return rule.prefix_list_id == one.get("PrefixListId")


def groups(desk: Desk) -> dict[str, Any]:
    """Groups with the words of all of their rules."""
    said = desk.result()
    for shown in said.get("SecurityGroups", []):
        group = desk.backend("ec2").get_security_group_from_id(shown["GroupId"])
        for member, there in (("IpPermissions", group.ingress_rules), ("IpPermissionsEgress", group.egress_rules)):
            for permission, source, one in _singles(shown.get(member, [])):
                if source not in APART:
                    continue
                rule = next((rule for rule in there if _is(rule, permission, source, one)), None)
                if rule is not None and rule.description is not None:
                    one["Description"] = rule.description
    return said


ROWS = (
    Row("ec2", "AuthorizeSecurityGroupIngress", authorize),
    Row("ec2", "AuthorizeSecurityGroupEgress", authorize),
    Row("ec2", "RevokeSecurityGroupIngress", revoke),
    Row("ec2", "RevokeSecurityGroupEgress", revoke),
    Row("ec2", "ModifySecurityGroupRules", modify),
    Row("ec2", "UpdateSecurityGroupRuleDescriptionsIngress", describe("ingress_rules")),
    Row("ec2", "UpdateSecurityGroupRuleDescriptionsEgress", describe("egress_rules")),
    Row("ec2", "DescribeSecurityGroups", groups),
    Row("ec2", "DescribeSecurityGroupRules", rules),
)
