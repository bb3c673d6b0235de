"""Security group rules as separate resources: the current types with an id, and the legacy type."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import security_group_permissions as permissions
from agentenv.rehearsal.providers.aws.row import (
    Call,
    CustomCreate,
    CustomStep,
    Problem,
    ReadCall,
    ResourceType,
    Template,
)
from agentenv.rehearsal.providers.aws.rows.ec2_security_groups import ABOUT, DIRECTIONS, GROUP_GONE, RULE_GONE
from agentenv.rehearsal.providers.aws.rows.ec2_vpc import ec2_tags
from agentenv.rehearsal.providers.aws.security_group_permissions import SingleRule
from agentenv.rehearsal.providers.aws.value_kinds import CIDR, CIDR6, ValueKind, between, exactly_one, one_of
from agentenv.rehearsal.providers.common.property_values import has_unknown

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

PORT: Final = between(-1, 65535)  # -1: every type of ICMP
ONE_SOURCE: Final = ("cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId")


def _permission(op: Operation) -> dict[str, Any]:
    """Return the rule as a permission, for its create."""
    description = {"Description": op.inputs["description"]} if op.inputs.get("description") else {}
    out: dict[str, Any] = {"IpProtocol": permissions.protocol_of(op.inputs["ipProtocol"])}
    for name, member in (("fromPort", "FromPort"), ("toPort", "ToPort")):
        if op.inputs.get(name) is not None:
            out[member] = op.inputs[name]
    for name, member, key in (
        ("cidrIpv4", "IpRanges", "CidrIp"),
        ("cidrIpv6", "Ipv6Ranges", "CidrIpv6"),
        ("prefixListId", "PrefixListIds", "PrefixListId"),
        ("referencedSecurityGroupId", "UserIdGroupPairs", "GroupId"),
    ):
        if op.inputs.get(name):
            out[member] = [{key: op.inputs[name], **description}]
    return out


def _create(direction: str) -> Callable[[Operation], Mapping[str, Any]]:
    def run(op: Operation) -> Mapping[str, Any]:
        tags = [{"Key": key, "Value": value} for key, value in sorted((op.inputs.get("tags") or {}).items())]
        wrapped = [{"ResourceType": "security-group-rule", "Tags": tags}] if tags else []
        extra: dict[str, Any] = {"TagSpecifications": wrapped} if wrapped else {}
        group, permission = op.inputs["securityGroupId"], _permission(op)
        return op.call(DIRECTIONS[direction][1], GroupId=group, IpPermissions=[permission], **extra)

    return run


def _modify(op: Operation) -> None:
    if op.creating:
        return
    parameters = {
        "IpProtocol": permissions.protocol_of(op.inputs["ipProtocol"]),
        "FromPort": op.inputs.get("fromPort", -1),
        "ToPort": op.inputs.get("toPort", -1),
        "CidrIpv4": op.inputs.get("cidrIpv4"),
        "CidrIpv6": op.inputs.get("cidrIpv6"),
        "PrefixListId": op.inputs.get("prefixListId"),
        "ReferencedGroupId": op.inputs.get("referencedSecurityGroupId"),
        "Description": op.inputs.get("description"),
    }
    rule = {key: value for key, value in parameters.items() if value is not None}
    both = [{"SecurityGroupRuleId": op.id, "SecurityGroupRule": rule}]
    op.call("ModifySecurityGroupRules", GroupId=op.inputs["securityGroupId"], SecurityGroupRules=both)


def _ports(name: str, member: str) -> Callable[[Operation, Mapping[str, Any]], Any]:
    """Return the ports of a rule. EC2 returns -1 for a rule without ports."""

    def show(op: Operation, document: Mapping[str, Any]) -> Any:
        port = document.get(member)
        return op.inputs.get(name) if port in (None, -1) else port

    return show


def _rule_row(kind: str, direction: str) -> ResourceType:
    lower = kind[0].lower() + kind[1:]
    return ResourceType(
        type=f"aws:vpc/{lower}:{kind}",
        service="ec2",
        create=CustomCreate(
            _create(direction), (*ONE_SOURCE, "description", "fromPort", "ipProtocol", "securityGroupId", "toPort")
        ),
        id="SecurityGroupRules[0].SecurityGroupRuleId",
        read=ReadCall(
            "DescribeSecurityGroupRules",
            {"SecurityGroupRuleIds": ["$id"]},
            "SecurityGroupRules[0]",
            not_found_errors=RULE_GONE,
        ),
        updates=(CustomStep(_modify, (*ONE_SOURCE, "description", "fromPort", "ipProtocol", "toPort")),),
        delete=(
            Call(
                DIRECTIONS[direction][2],
                constants={"GroupId": "$in.securityGroupId", "SecurityGroupRuleIds": ["$id"]},
                ignored_errors=RULE_GONE,
            ),
        ),
        output_sources={
            "arn": Template("arn:{partition}:ec2:{region}:{account}:security-group-rule/{id}"),
            "securityGroupId": "GroupId",
            "referencedSecurityGroupId": "ReferencedGroupInfo.GroupId",
            "fromPort": _ports("fromPort", "FromPort"),
            "toPort": _ports("toPort", "ToPort"),
        },
        tags=ec2_tags("security-group-rule"),
        value_kinds={
            "cidrIpv4": CIDR,
            "cidrIpv6": CIDR6,
            "description": ABOUT,
            "fromPort": PORT,
            "toPort": PORT,
            "ipProtocol": ValueKind(equal=lambda a, b: permissions.protocol_of(a) == permissions.protocol_of(b)),
        },
        replace_on_changes=frozenset({"securityGroupId"}),
        validators=(exactly_one(*ONE_SOURCE),),
    )


# -- the older form: one resource, one direction, many sources --------------------------------------------------------

OLD_SOURCES: Final = ("cidrBlocks", "ipv6CidrBlocks", "prefixListIds", "self", "sourceSecurityGroupId")


def _block(op: Operation) -> dict[str, Any]:
    """Return the rule as a block of a security group."""
    names = ("fromPort", "toPort", "protocol", "description", *OLD_SOURCES[:4])
    block = {name: op.value(name) for name in names}
    source = op.value("sourceSecurityGroupId")
    return {**block, "securityGroups": [source] if source else []}


def _rules(op: Operation) -> frozenset[SingleRule]:
    return permissions.from_blocks([_block(op)], str(op.value("securityGroupId")))


def _legacy_id(op: Operation, _: Mapping[str, Any]) -> str:
    """Return an id from what identifies the rule. Its description may change."""
    singles = (f"{rule.protocol} {rule.first} {rule.last} {rule.kind} {rule.source}" for rule in sorted(_rules(op)))
    words = "|".join([op.value("securityGroupId"), op.value("type"), *singles])
    return f"sgrule-{zlib.crc32(words.encode())}"


def _legacy_create(op: Operation) -> Mapping[str, Any]:
    expected = [rule.permission() for rule in sorted(_rules(op))]
    return op.call(DIRECTIONS[op.inputs["type"]][1], GroupId=op.inputs["securityGroupId"], IpPermissions=expected)


def _legacy_read(op: Operation) -> Mapping[str, Any] | None:
    """Return the rule if the group has a part of it. A missing source is a change of the rule."""
    identifiers = op.value("securityGroupId")
    for group in op.call("DescribeSecurityGroups", GroupIds=[identifiers], ignored_errors=GROUP_GONE).get(
        "SecurityGroups", []
    ):
        existing = permissions.from_permissions(group.get(DIRECTIONS[op.value("type")][0], []))
        expected = _rules(op)
        matches = {(rule.protocol, rule.first, rule.last, rule.kind, rule.source): rule for rule in existing}
        remaining = [
            matches[key]
            for rule in expected
            if (key := (rule.protocol, rule.first, rule.last, rule.kind, rule.source)) in matches
        ]
        if remaining:
            return {"Left": remaining, "GroupId": identifiers}
    return None


def _legacy_output(op: Operation, document: Mapping[str, Any], out: dict[str, Any]) -> None:
    own = str(document["GroupId"])
    block = permissions.to_blocks(document["Left"], own)[0]
    for name in ("cidrBlocks", "ipv6CidrBlocks", "prefixListIds"):
        if block[name]:
            out[name] = block[name]
    out |= {"fromPort": op.value("fromPort"), "toPort": op.value("toPort"), "protocol": block["protocol"]}
    out |= {"type": op.value("type"), "securityGroupId": own, "self": block["self"], "securityGroupRuleId": ""}
    if block["description"]:
        out["description"] = block["description"]
    if block["securityGroups"]:
        out["sourceSecurityGroupId"] = block["securityGroups"][0]
    op.id = op.id or _legacy_id(op, {})


def _legacy_update(op: Operation) -> None:
    if not op.creating:
        direction = str(op.value("type")).capitalize()
        expected = [rule.permission() for rule in sorted(_rules(op))]
        operation = f"UpdateSecurityGroupRuleDescriptions{direction}"
        op.call(operation, GroupId=op.value("securityGroupId"), IpPermissions=expected)


def _legacy_delete(op: Operation) -> None:
    current = _legacy_read(op)
    if current:
        remaining = [rule.permission() for rule in current["Left"]]
        op.call(
            DIRECTIONS[op.value("type")][2],
            GroupId=current["GroupId"],
            IpPermissions=remaining,
            ignored_errors=RULE_GONE,
        )


def _parse_legacy_id(text: str) -> tuple[str, dict[str, Any]]:
    parts = text.split("_")
    if len(parts) < 6 or parts[1] not in DIRECTIONS or not re.fullmatch(r"-?\d+", parts[3] + parts[4].lstrip("-")):
        raise ValueError("write GROUP_TYPE_PROTOCOL_FROM_TO_SOURCE[_SOURCE...], sg-1a2b_ingress_tcp_80_80_10.0.0.0/8")
    group, direction, protocol, first, last, *sources = parts
    inputs: dict[str, Any] = {"securityGroupId": group, "type": direction, "protocol": protocol}
    inputs |= {"fromPort": int(first), "toPort": int(last)}
    for source in sources:
        if source == "self":
            inputs["self"] = True
        elif source.startswith("sg-"):
            inputs["sourceSecurityGroupId"] = source
        else:
            six = "ipv6CidrBlocks" if ":" in source else "cidrBlocks"
            inputs.setdefault("prefixListIds" if source.startswith("pl-") else six, []).append(source)
    return "", inputs


def _legacy_source_problems(inputs: Mapping[str, Any]) -> list[Problem]:
    if any(inputs.get(name) or has_unknown(inputs.get(name)) for name in OLD_SOURCES):
        return []
    return [("cidrBlocks", f"the rule has no source: give one of {', '.join(OLD_SOURCES)}")]


OLD_RULE = ResourceType(
    type="aws:ec2/securityGroupRule:SecurityGroupRule",
    service="ec2",
    create=CustomCreate(
        _legacy_create, (*OLD_SOURCES, "description", "fromPort", "protocol", "securityGroupId", "toPort", "type")
    ),
    id=_legacy_id,
    read=_legacy_read,
    updates=(CustomStep(_legacy_update, ("description",)),),
    delete=(CustomStep(_legacy_delete),),
    value_kinds={
        "cidrBlocks": CIDR,
        "ipv6CidrBlocks": CIDR6,
        "description": ABOUT,
        "type": one_of(*DIRECTIONS),
        "protocol": ValueKind(equal=lambda a, b: permissions.protocol_of(a) == permissions.protocol_of(b)),
    },
    defaults={"self": False},
    validators=(_legacy_source_problems,),
    parse_import_id=_parse_legacy_id,
    adjust_outputs=_legacy_output,
)

ROWS: Final = (
    _rule_row("SecurityGroupIngressRule", "ingress"),
    _rule_row("SecurityGroupEgressRule", "egress"),
    OLD_RULE,
)
