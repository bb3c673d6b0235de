"""Security groups with inline rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import security_group_permissions as permissions
from agentenv.rehearsal.providers.aws.row import (
    AutoName,
    Call,
    CustomCreate,
    CustomStep,
    Problem,
    ReadCall,
    ResourceType,
    Template,
)
from agentenv.rehearsal.providers.aws.rows.ec2_vpc import ec2_tags
from agentenv.rehearsal.providers.aws.value_kinds import CIDR, CIDR6, ValueKind, matching

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

DIRECTIONS: Final = {
    "ingress": ("IpPermissions", "AuthorizeSecurityGroupIngress", "RevokeSecurityGroupIngress"),
    "egress": ("IpPermissionsEgress", "AuthorizeSecurityGroupEgress", "RevokeSecurityGroupEgress"),
}
GROUP_GONE: Final = ("InvalidGroup.NotFound", "InvalidGroupId.Malformed")
RULE_GONE: Final = ("InvalidPermission.NotFound", "InvalidSecurityGroupRuleId.NotFound", *GROUP_GONE)
ABOUT: Final = matching(r"[\w .:/()#,@\[\]+=&;{}!$*-]{0,255}", "is not a description EC2 takes (255 plain characters)")
GROUP_NAME: Final = matching(r"(?!sg-).{0,255}", "begins with sg-, as the ids of groups do")
BLOCKS: Final = ValueKind(equal=permissions.same_blocks, whole_list=True)
BLOCK_KINDS: Final = {
    **dict.fromkeys(DIRECTIONS, BLOCKS),
    **{f"{direction}.cidrBlocks": CIDR for direction in DIRECTIONS},
    **{f"{direction}.ipv6CidrBlocks": CIDR6 for direction in DIRECTIONS},
}


def _update_rules(direction: str) -> Callable[[Operation], None]:
    """Add and revoke rules of one direction until the group has those of the inputs."""
    member, allow, revoke = DIRECTIONS[direction]

    def run(op: Operation) -> None:
        group = op.call("DescribeSecurityGroups", GroupIds=[op.id])["SecurityGroups"][0]
        existing = permissions.from_permissions(group.get(member, []))
        expected = permissions.from_blocks(op.inputs.get(direction) or [], op.id)
        surplus, missing = sorted(existing - expected), sorted(expected - existing)
        if surplus:
            op.call(revoke, GroupId=op.id, IpPermissions=[rule.permission() for rule in surplus])
        if missing:
            op.call(allow, GroupId=op.id, IpPermissions=[rule.permission() for rule in missing])

    return run


def _rules_output(direction: str) -> Callable[[Operation, Mapping[str, Any]], Any]:
    member = DIRECTIONS[direction][0]
    return lambda op, d: permissions.to_blocks(permissions.from_permissions(d.get(member, [])), op.id)


def _source_problems(inputs: Mapping[str, Any]) -> list[Problem]:
    sources = (*(kind for kind, _, _ in permissions.SOURCES), "self")
    return [
        (f"{direction}[{index}]", f"has no source: give one of {', '.join(sources)}")
        for direction in DIRECTIONS
        if isinstance(inputs.get(direction), list)
        for index, block in enumerate(inputs[direction])
        if isinstance(block, dict) and not any(block.get(source) for source in sources)
    ]


def _revoke_all(op: Operation) -> None:
    """Revoke all rules: groups that refer to each other cannot be deleted otherwise."""
    if op.inputs.get("revokeRulesOnDelete"):
        for group in op.call("DescribeSecurityGroups", GroupIds=[op.id], ignored_errors=GROUP_GONE).get(
            "SecurityGroups", []
        ):
            for member, _, revoke in DIRECTIONS.values():
                if group.get(member):
                    op.call(revoke, GroupId=op.id, IpPermissions=group[member], ignored_errors=RULE_GONE)


FIND_GROUP: Final = ReadCall(
    "DescribeSecurityGroups", {"GroupIds": ["$id"]}, "SecurityGroups[0]", not_found_errors=GROUP_GONE
)
GROUP_SHOWS: Final[Mapping[str, Any]] = {
    "arn": Template("arn:{partition}:ec2:{region}:{account}:security-group/{id}"),
    "name": "GroupName",
    "ingress": _rules_output("ingress"),
    "egress": _rules_output("egress"),
}

SECURITY_GROUP = ResourceType(
    type="aws:ec2/securityGroup:SecurityGroup",
    service="ec2",
    create=Call("CreateSecurityGroup", ("description", "name", "vpcId"), member_names={"name": "GroupName"}),
    id="GroupId",
    read=FIND_GROUP,
    updates=(
        CustomStep(_update_rules("ingress"), ("ingress",)),
        # AWS lets everything out of a new group; the official provider takes that away.
        CustomStep(_update_rules("egress"), ("egress",), always=True),
    ),
    delete=(
        CustomStep(_revoke_all, ("revokeRulesOnDelete",)),
        Call("DeleteSecurityGroup", constants={"GroupId": "$id"}),
    ),
    output_sources=GROUP_SHOWS,
    auto_name=AutoName(max_length=255),
    tags=ec2_tags("security-group"),
    write_only=frozenset({"revokeRulesOnDelete", "namePrefix"}),
    value_kinds={**BLOCK_KINDS, "description": ABOUT, "name": GROUP_NAME},
    defaults={"description": "Managed by Pulumi", "revokeRulesOnDelete": False},
    retry_delete_on=("DependencyViolation", "InvalidGroup.InUse"),
    validators=(_source_problems,),
)


def _adopt_default_group(op: Operation) -> Mapping[str, Any]:
    """Adopt the existing default group and revoke its rules."""
    vpc = op.inputs.get("vpcId")
    if not vpc:
        vpcs = op.call("DescribeVpcs", Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
        vpc = vpcs[0]["VpcId"] if vpcs else ""
    identifiers = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "group-name", "Values": ["default"]}]
    group = op.call("DescribeSecurityGroups", Filters=identifiers)["SecurityGroups"][0]
    if op.inputs.get("tags"):
        tags = [{"Key": key, "Value": value} for key, value in sorted(op.inputs["tags"].items())]
        op.call("CreateTags", Resources=[group["GroupId"]], Tags=tags)
    return group


DEFAULT_SECURITY_GROUP = ResourceType(
    type="aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
    service="ec2",
    create=CustomCreate(_adopt_default_group, ("vpcId",)),
    id="GroupId",
    read=FIND_GROUP,
    updates=(
        CustomStep(_update_rules("ingress"), ("ingress",), always=True),
        CustomStep(_update_rules("egress"), ("egress",), always=True),
    ),
    delete=(CustomStep(lambda _: None, ("revokeRulesOnDelete",)),),  # it belongs to the VPC, and goes with it
    output_sources={**GROUP_SHOWS, "description": "Description"},
    tags=ec2_tags("security-group"),
    write_only=frozenset({"revokeRulesOnDelete"}),
    value_kinds=BLOCK_KINDS,
    defaults={"revokeRulesOnDelete": False},
    validators=(_source_problems,),
)

ROWS: Final = (SECURITY_GROUP, DEFAULT_SECURITY_GROUP)
