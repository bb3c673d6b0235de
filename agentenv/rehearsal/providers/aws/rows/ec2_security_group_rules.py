"""Security group rules as resources of their own: the form with an id, and the older one."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import security_group_permissions as permissions
from agentenv.rehearsal.providers.aws.row import Call, Do, Form, Look, Make, Problem, Row
from agentenv.rehearsal.providers.aws.rows.ec2_security_groups import ABOUT, DIRECTIONS, GROUP_GONE, RULE_GONE
from agentenv.rehearsal.providers.aws.rows.ec2_vpc import ec2_tags
from agentenv.rehearsal.providers.aws.security_group_permissions import Single
from agentenv.rehearsal.providers.aws.value_kinds import CIDR, CIDR6, Kind, among, exactly_one
from agentenv.rehearsal.providers.common.property_values import has_unknown

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

ONE_SOURCE: Final = ("cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId")


def _single_permission(s: Situation) -> dict[str, Any]:
    """The rule as a permission, for making it."""
    said = {"Description": s.inputs["description"]} if s.inputs.get("description") else {}
    out: dict[str, Any] = {"IpProtocol": permissions.protocol_of(s.inputs["ipProtocol"])}
    for name, member in (("fromPort", "FromPort"), ("toPort", "ToPort")):
        if s.inputs.get(name) is not None:
            out[member] = s.inputs[name]
    for name, member, key in (
        ("cidrIpv4", "IpRanges", "CidrIp"),
        ("cidrIpv6", "Ipv6Ranges", "CidrIpv6"),
        ("prefixListId", "PrefixListIds", "PrefixListId"),
        ("referencedSecurityGroupId", "UserIdGroupPairs", "GroupId"),
    ):
        if s.inputs.get(name):
            out[member] = [{key: s.inputs[name], **said}]
    return out


def _allow(way: str) -> Callable[[Situation], Mapping[str, Any]]:
    def run(s: Situation) -> Mapping[str, Any]:
        tags = [{"Key": key, "Value": value} for key, value in sorted((s.inputs.get("tags") or {}).items())]
        wrapped = [{"ResourceType": "security-group-rule", "Tags": tags}] if tags else []
        extra: dict[str, Any] = {"TagSpecifications": wrapped} if wrapped else {}
        group, permission = s.inputs["securityGroupId"], _single_permission(s)
        return s.call(DIRECTIONS[way][1], GroupId=group, IpPermissions=[permission], **extra)

    return run


def _modify(s: Situation) -> None:
    if s.creating:
        return
    asked = {
        "IpProtocol": permissions.protocol_of(s.inputs["ipProtocol"]),
        "FromPort": s.inputs.get("fromPort", -1),
        "ToPort": s.inputs.get("toPort", -1),
        "CidrIpv4": s.inputs.get("cidrIpv4"),
        "CidrIpv6": s.inputs.get("cidrIpv6"),
        "PrefixListId": s.inputs.get("prefixListId"),
        "ReferencedGroupId": s.inputs.get("referencedSecurityGroupId"),
        "Description": s.inputs.get("description"),
    }
    rule = {key: value for key, value in asked.items() if value is not None}
    both = [{"SecurityGroupRuleId": s.id, "SecurityGroupRule": rule}]
    s.call("ModifySecurityGroupRules", GroupId=s.inputs["securityGroupId"], SecurityGroupRules=both)


def _ports(name: str, member: str) -> Callable[[Situation, Mapping[str, Any]], Any]:
    """EC2 says -1 where a rule has no ports."""

    def show(s: Situation, document: Mapping[str, Any]) -> Any:
        port = document.get(member)
        return s.inputs.get(name) if port in (None, -1) else port

    return show


def _single_rule(kind: str, way: str) -> Row:
    lower = kind[0].lower() + kind[1:]
    return Row(
        type=f"aws:vpc/{lower}:{kind}",
        service="ec2",
        create=Make(_allow(way), (*ONE_SOURCE, "description", "fromPort", "ipProtocol", "securityGroupId", "toPort")),
        id="SecurityGroupRules[0].SecurityGroupRuleId",
        find=Look(
            "DescribeSecurityGroupRules", {"SecurityGroupRuleIds": ["$id"]}, "SecurityGroupRules[0]", gone=RULE_GONE
        ),
        sets=(Do(_modify, (*ONE_SOURCE, "description", "fromPort", "ipProtocol", "toPort")),),
        delete=(
            Call(
                DIRECTIONS[way][2],
                given={"GroupId": "$in.securityGroupId", "SecurityGroupRuleIds": ["$id"]},
                forgives=RULE_GONE,
            ),
        ),
        shows={
            "arn": Form("arn:{partition}:ec2:{region}:{account}:security-group-rule/{id}"),
            "securityGroupId": "GroupId",
            "referencedSecurityGroupId": "ReferencedGroupInfo.GroupId",
            "fromPort": _ports("fromPort", "FromPort"),
            "toPort": _ports("toPort", "ToPort"),
        },
        tags=ec2_tags("security-group-rule"),
        kinds={
            "cidrIpv4": CIDR,
            "cidrIpv6": CIDR6,
            "description": ABOUT,
            "ipProtocol": Kind(same=lambda a, b: permissions.protocol_of(a) == permissions.protocol_of(b)),
        },
        replaces=frozenset({"securityGroupId"}),
        rules=(exactly_one(*ONE_SOURCE),),
    )


# -- the older form: one resource, one direction, many sources --------------------------------------------------------

OLD_SOURCES: Final = ("cidrBlocks", "ipv6CidrBlocks", "prefixListIds", "self", "sourceSecurityGroupId")


def _block(s: Situation) -> dict[str, Any]:
    """The rule as one of a group's blocks."""
    names = ("fromPort", "toPort", "protocol", "description", *OLD_SOURCES[:4])
    block = {name: s.value(name) for name in names}
    source = s.value("sourceSecurityGroupId")
    return {**block, "securityGroups": [source] if source else []}


def _singles(s: Situation) -> frozenset[Single]:
    return permissions.from_blocks([_block(s)], str(s.value("securityGroupId")))


def _old_id(s: Situation, _: Mapping[str, Any]) -> str:
    """From what identifies the rule: its description may change."""
    singles = (f"{one.protocol} {one.first} {one.last} {one.kind} {one.source}" for one in sorted(_singles(s)))
    words = "|".join([s.value("securityGroupId"), s.value("type"), *singles])
    return f"sgrule-{zlib.crc32(words.encode())}"


def _old_allow(s: Situation) -> Mapping[str, Any]:
    wanted = [one.permission() for one in sorted(_singles(s))]
    return s.call(DIRECTIONS[s.inputs["type"]][1], GroupId=s.inputs["securityGroupId"], IpPermissions=wanted)


def _old_find(s: Situation) -> Mapping[str, Any] | None:
    """The rule is there if the group lets all of it through; a source that is gone is a rule that changed."""
    where = s.value("securityGroupId")
    for group in s.call("DescribeSecurityGroups", GroupIds=[where], forgives=GROUP_GONE).get("SecurityGroups", []):
        there = permissions.from_permissions(group.get(DIRECTIONS[s.value("type")][0], []))
        wanted = _singles(s)
        alike = {(one.protocol, one.first, one.last, one.kind, one.source): one for one in there}
        left = [
            alike[key] for one in wanted if (key := (one.protocol, one.first, one.last, one.kind, one.source)) in alike
        ]
        if left:
            return {"Left": left, "GroupId": where}
    return None


def _old_shows(s: Situation, document: Mapping[str, Any], out: dict[str, Any]) -> None:
    own = str(document["GroupId"])
    block = permissions.to_blocks(document["Left"], own)[0]
    for name in ("cidrBlocks", "ipv6CidrBlocks", "prefixListIds"):
        if block[name]:
            out[name] = block[name]
    out |= {"fromPort": s.value("fromPort"), "toPort": s.value("toPort"), "protocol": block["protocol"]}
    out |= {"type": s.value("type"), "securityGroupId": own, "self": block["self"], "securityGroupRuleId": ""}
    if block["description"]:
        out["description"] = block["description"]
    if block["securityGroups"]:
        out["sourceSecurityGroupId"] = block["securityGroups"][0]
    s.id = s.id or _old_id(s, {})


def _old_describe(s: Situation) -> None:
    if not s.creating:
        way = str(s.value("type")).capitalize()
        wanted = [one.permission() for one in sorted(_singles(s))]
        operation = f"UpdateSecurityGroupRuleDescriptions{way}"
        s.call(operation, GroupId=s.value("securityGroupId"), IpPermissions=wanted)


def _old_revoke(s: Situation) -> None:
    found = _old_find(s)
    if found:
        left = [one.permission() for one in found["Left"]]
        s.call(DIRECTIONS[s.value("type")][2], GroupId=found["GroupId"], IpPermissions=left, forgives=RULE_GONE)


def _parse_old(text: str) -> tuple[str, dict[str, Any]]:
    parts = text.split("_")
    if len(parts) < 6 or parts[1] not in DIRECTIONS or not re.fullmatch(r"-?\d+", parts[3] + parts[4].lstrip("-")):
        raise ValueError("write GROUP_TYPE_PROTOCOL_FROM_TO_SOURCE[_SOURCE...], sg-1a2b_ingress_tcp_80_80_10.0.0.0/8")
    group, way, protocol, first, last, *sources = parts
    told: dict[str, Any] = {"securityGroupId": group, "type": way, "protocol": protocol}
    told |= {"fromPort": int(first), "toPort": int(last)}
    for source in sources:
        if source == "self":
            told["self"] = True
        elif source.startswith("sg-"):
            told["sourceSecurityGroupId"] = source
        else:
            six = "ipv6CidrBlocks" if ":" in source else "cidrBlocks"
            told.setdefault("prefixListIds" if source.startswith("pl-") else six, []).append(source)
    return "", told


def _old_has_a_source(inputs: Mapping[str, Any]) -> list[Problem]:
    if any(inputs.get(name) or has_unknown(inputs.get(name)) for name in OLD_SOURCES):
        return []
    return [("cidrBlocks", f"the rule has no source: give one of {', '.join(OLD_SOURCES)}")]


OLD_RULE = Row(
    type="aws:ec2/securityGroupRule:SecurityGroupRule",
    service="ec2",
    create=Make(_old_allow, (*OLD_SOURCES, "description", "fromPort", "protocol", "securityGroupId", "toPort", "type")),
    id=_old_id,
    find=_old_find,
    sets=(Do(_old_describe, ("description",)),),
    delete=(Do(_old_revoke),),
    kinds={
        "cidrBlocks": CIDR,
        "ipv6CidrBlocks": CIDR6,
        "description": ABOUT,
        "type": among(*DIRECTIONS),
        "protocol": Kind(same=lambda a, b: permissions.protocol_of(a) == permissions.protocol_of(b)),
    },
    defaults={"self": False},
    rules=(_old_has_a_source,),
    parse=_parse_old,
    repairs=_old_shows,
)

ROWS: Final = (
    _single_rule("SecurityGroupIngressRule", "ingress"),
    _single_rule("SecurityGroupEgressRule", "egress"),
    OLD_RULE,
)
