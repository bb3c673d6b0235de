"""Rules of security groups: sources, ports and uniqueness, whatever the description."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response
from agentenv.rehearsal.cloud.rows.ec2_security_groups import TEXT
from agentenv.rehearsal.cloud.rows.ec2_vpc import canonical

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext

SOURCES = ("IpRanges", "Ipv6Ranges", "UserIdGroupPairs", "PrefixListIds")
NUMBERS = {"6": "tcp", "17": "udp", "1": "icmp", "58": "icmpv6", "all": "-1"}
# Moto takes a description for a part of these sources, so that the same rule with other words is another rule to it;
# and it tells them in one answer only. The rows keep the words beside the source, where moto has those of ranges.
APART = {"UserIdGroupPairs": "GroupId", "PrefixListIds": "PrefixListId"}


def _protocol(protocol: str | None) -> str:
    name = str(protocol or "").lower()
    return NUMBERS.get(name, name)


def _check_ports(permission: dict[str, Any]) -> None:
    protocol = _protocol(permission.get("IpProtocol"))
    low, high = permission.get("FromPort"), permission.get("ToPort")
    if protocol in {"tcp", "udp"}:
        if low is None or high is None:
            text = f"Invalid value 'Must specify both from and to ports with {protocol.upper()}/UDP.' for portRange."
            raise AwsError("InvalidParameterValue", text, 400)
        if not 0 <= low <= high <= 65535:
            raise AwsError("InvalidParameterValue", f"Invalid {protocol.upper()} port range: {low}-{high}", 400)
    elif protocol not in {"icmp", "icmpv6", "-1"} and not protocol.isdigit():
        text = f"Invalid value '{permission.get('IpProtocol')}' for IP protocol. Unknown protocol."
        raise AwsError("InvalidParameterValue", text, 400)


def _check_descriptions(permission: dict[str, Any]) -> None:
    for source in SOURCES:
        for range_ in permission.get(source, []):
            if not TEXT.fullmatch(range_.get("Description", "")):
                raise AwsError("InvalidParameterValue", f"Invalid rule description: {range_['Description']}", 400)


def _normalize_ranges(permission: dict[str, Any]) -> None:
    """Validate the ranges, and normalize them as EC2 does."""
    for kind, name, version in (("IpRanges", "CidrIp", 4), ("Ipv6Ranges", "CidrIpv6", 6)):
        for range_ in permission.get(kind, []):
            cidr = range_.get(name, "")
            try:
                network = ipaddress.ip_network(cidr, strict=False)
            except ValueError:
                network = None
            if network is None or network.version != version or "/" not in cidr:
                raise AwsError("InvalidParameterValue", f"CIDR block {cidr} is malformed", 400)
            range_[name] = canonical(cidr)


def _check_references(context: RequestContext, permission: dict[str, Any], vpc: str) -> None:
    for pair in permission.get("UserIdGroupPairs", []):
        other = pair.get("GroupId")
        if other and other not in context.backend("ec2").groups.get(vpc, {}):
            text = f"You have specified two resources that belong to different networks, or {other} does not exist."
            raise AwsError("InvalidGroup.NotFound", text, 400)
    for prefix_list in permission.get("PrefixListIds", []):
        if prefix_list.get("PrefixListId") not in context.backend("ec2").managed_prefix_lists:
            text = f"The prefix list ID '{prefix_list.get('PrefixListId')}' does not exist"
            raise AwsError("InvalidPrefixListId.NotFound", text, 400)


def authorize(context: RequestContext) -> Response | dict[str, Any]:
    """Add rules: a protocol, ports, and at least one source or destination."""
    parameters = context.parameters
    if "IpPermissions" not in parameters:
        return context.forward()
    permissions = deepcopy(parameters["IpPermissions"])
    group = _group(context)
    if group is None:
        return context.forward()
    for permission in permissions:
        _check_ports(permission)
        if not any(permission.get(source) for source in SOURCES):
            text = "The request must contain a source or destination: cidrIp, cidrIpv6, prefixListId or groupId"
            raise AwsError("MissingParameter", text, 400)
        _check_descriptions(permission)
        _normalize_ranges(permission)
        _check_references(context, permission, group.vpc_id)
    _check_duplicates(permissions)
    before = {rule.id for rule in _rules(group)}
    context.result({**parameters, "IpPermissions": _without_descriptions(permissions)})
    # Moto returns the rules of the last permission only.
    created = [rule for rule in _rules(group) if rule.id not in before]
    for rule, (_, _, target) in zip(created, _each_rule(permissions), strict=True):
        if target.get("Description") is not None:
            rule.ip_range["Description"] = target["Description"]
    described = context.invoke("ec2", "DescribeSecurityGroupRules", SecurityGroupRuleIds=[rule.id for rule in created])
    return {"Return": True, "SecurityGroupRules": _with_owner(context, described["SecurityGroupRules"])}


def _with_owner(context: RequestContext, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rules with their group's owner, which moto leaves out."""
    return [{**rule, "GroupOwnerId": context.account} for rule in rules]


def describe_rules(context: RequestContext) -> dict[str, Any]:
    """Return rules one by one."""
    result = context.result()
    return {**result, "SecurityGroupRules": _with_owner(context, result.get("SecurityGroupRules", []))}


def _group(context: RequestContext) -> Any:
    return context.backend("ec2").get_security_group_by_name_or_id(
        context.parameters.get("GroupId") or context.parameters.get("GroupName", "")
    )


def _rules(group: Any) -> list[Any]:
    return [*group.ingress_rules, *group.egress_rules]


def _each_rule(permissions: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str, dict[str, Any]]]:
    """Yield each rule of some permissions: permission, kind of source, source; in the order of creation."""
    for permission in permissions:
        for source in SOURCES:
            for target in permission.get(source, []):
                yield permission, source, target


def _without_descriptions(permissions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    copy = deepcopy(permissions)
    for _, source, target in _each_rule(copy):
        if source in APART:
            target.pop("Description", None)
    return copy


def _check_duplicates(permissions: list[dict[str, Any]]) -> None:
    """Raise for the same rule twice in one call."""
    known: set[tuple[Any, ...]] = set()
    for permission in permissions:
        ports = tuple(permission.get(name) for name in ("IpProtocol", "FromPort", "ToPort"))
        for source in SOURCES:
            for target in permission.get(source, []):
                identity = tuple(sorted((name, value) for name, value in target.items() if name != "Description"))
                if (*ports, identity) in known:
                    raise AwsError("InvalidParameterValue", "The same permission must not appear multiple times", 400)
                known.add((*ports, identity))


def revoke(context: RequestContext) -> Response:
    """Revoke rules, whatever host bits or description the caller's have."""
    parameters = context.parameters
    permissions = deepcopy(parameters.get("IpPermissions", []))
    for permission in permissions:
        _normalize_ranges(permission)
    permissions = _without_descriptions(permissions)
    if permissions == parameters.get("IpPermissions", []):
        return context.forward()
    return context.forward({**parameters, "IpPermissions": permissions})


def modify(context: RequestContext) -> Response:
    """Replace rules, with existing sources; moto changes IPv4 ranges only."""
    group = _group(context)
    changes = [
        (change["SecurityGroupRuleId"], change["SecurityGroupRule"])
        for change in context.parameters["SecurityGroupRules"]
    ]
    for _, rule in changes:
        permission = _permission(rule)
        _check_descriptions(permission)
        _normalize_ranges(permission)
        if group is not None:
            _check_references(context, permission, group.vpc_id)
    response = context.forward()
    if response.ok and group is not None:
        for name, rule in changes:
            _put(group.get_rule(name), rule)
    return response


def _permission(rule: dict[str, Any]) -> dict[str, Any]:
    """Return a single rule in the form of the authorize operations."""
    text = {"Description": rule["Description"]} if "Description" in rule else {}
    members = {
        "IpRanges": ("CidrIpv4", "CidrIp"),
        "Ipv6Ranges": ("CidrIpv6", "CidrIpv6"),
        "UserIdGroupPairs": ("ReferencedGroupId", "GroupId"),
        "PrefixListIds": ("PrefixListId", "PrefixListId"),
    }
    return {
        source: [{name: rule[parameter], **text}]
        for source, (parameter, name) in members.items()
        if rule.get(parameter)
    }


def _put(rule: Any, change: dict[str, Any]) -> None:
    if six := change.get("CidrIpv6"):
        rule.ip_range["CidrIpv6"] = canonical(six)
    if other := change.get("ReferencedGroupId"):
        rule.source_group = {**rule.source_group, "GroupId": other}
    rule.prefix_list_id = change.get("PrefixListId", rule.prefix_list_id)


def update_descriptions(way: str) -> Callable[[RequestContext], dict[str, Any]]:
    """Return the handler that changes descriptions of existing rules of one direction, found by content or id."""

    def response(context: RequestContext) -> dict[str, Any]:
        group = _group(context)
        if group is None:
            raise AwsError(
                "InvalidGroup.NotFound", f"There is no security group {context.parameters.get('GroupId')}.", 400
            )
        permissions = deepcopy(context.parameters.get("IpPermissions", []))
        for permission in permissions:
            _check_descriptions(permission)
            _normalize_ranges(permission)
        rules = list(getattr(group, way))
        descriptions: list[tuple[Any, str | None]] = []
        for permission, source, target in _each_rule(permissions):
            rule = next((rule for rule in rules if _is_same_rule(rule, permission, source, target)), None)
            descriptions.append((rule, target.get("Description")))
        for target in context.parameters.get("SecurityGroupRuleDescriptions", []):
            rule = next((rule for rule in rules if rule.id == target.get("SecurityGroupRuleId")), None)
            descriptions.append((rule, target.get("Description")))
        if any(rule is None for rule, _ in descriptions):
            text = "The specified rule does not exist in this security group."
            raise AwsError("InvalidPermission.NotFound", text, 400)
        for rule, text in descriptions:
            rule.ip_range.pop("Description", None)
            if text is not None:
                rule.ip_range["Description"] = text
        return {"Return": True}

    return response


def _is_same_rule(rule: Any, permission: dict[str, Any], source: str, target: dict[str, Any]) -> bool:
    protocol = _protocol(permission.get("IpProtocol"))
    if _protocol(rule.ip_protocol) != protocol:
        return False
    if protocol != "-1" and (rule.from_port, rule.to_port) != (permission.get("FromPort"), permission.get("ToPort")):
        return False
    match source:
        case "IpRanges":
            return rule.ip_range.get("CidrIp") == target["CidrIp"]
        case "Ipv6Ranges":
            return rule.ip_range.get("CidrIpv6") == target["CidrIpv6"]
        case "UserIdGroupPairs":
            return rule.source_group.get("GroupId") == target.get("GroupId")
        case _:
            return rule.prefix_list_id == target.get("PrefixListId")


def describe_groups(context: RequestContext) -> dict[str, Any]:
    """Return groups with the descriptions of all of their rules."""
    result = context.result()
    for shown in result.get("SecurityGroups", []):
        group = context.backend("ec2").get_security_group_from_id(shown["GroupId"])
        for member, rules in (("IpPermissions", group.ingress_rules), ("IpPermissionsEgress", group.egress_rules)):
            for permission, source, target in _each_rule(shown.get(member, [])):
                if source not in APART:
                    continue
                rule = next((rule for rule in rules if _is_same_rule(rule, permission, source, target)), None)
                if rule is not None and rule.description is not None:
                    target["Description"] = rule.description
    return result


ROWS = (
    OperationHandler("ec2", "AuthorizeSecurityGroupIngress", authorize),
    OperationHandler("ec2", "AuthorizeSecurityGroupEgress", authorize),
    OperationHandler("ec2", "RevokeSecurityGroupIngress", revoke),
    OperationHandler("ec2", "RevokeSecurityGroupEgress", revoke),
    OperationHandler("ec2", "ModifySecurityGroupRules", modify),
    OperationHandler("ec2", "UpdateSecurityGroupRuleDescriptionsIngress", update_descriptions("ingress_rules")),
    OperationHandler("ec2", "UpdateSecurityGroupRuleDescriptionsEgress", update_descriptions("egress_rules")),
    OperationHandler("ec2", "DescribeSecurityGroups", describe_groups),
    OperationHandler("ec2", "DescribeSecurityGroupRules", describe_rules),
)
