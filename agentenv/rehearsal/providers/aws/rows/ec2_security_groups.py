"""Security groups, with the rules that stand in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import security_group_permissions as permissions
from agentenv.rehearsal.providers.aws.row import Call, Do, Form, Look, Make, Name, Problem, Row
from agentenv.rehearsal.providers.aws.rows.ec2_vpc import ec2_tags
from agentenv.rehearsal.providers.aws.value_kinds import CIDR, CIDR6, Kind, matching

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

DIRECTIONS: Final = {
    "ingress": ("IpPermissions", "AuthorizeSecurityGroupIngress", "RevokeSecurityGroupIngress"),
    "egress": ("IpPermissionsEgress", "AuthorizeSecurityGroupEgress", "RevokeSecurityGroupEgress"),
}
GROUP_GONE: Final = ("InvalidGroup.NotFound", "InvalidGroupId.Malformed")
RULE_GONE: Final = ("InvalidPermission.NotFound", "InvalidSecurityGroupRuleId.NotFound", *GROUP_GONE)
ABOUT: Final = matching(r"[\w .:/()#,@\[\]+=&;{}!$*-]{0,255}", "is not a description EC2 takes (255 plain characters)")
BLOCKS: Final = Kind(same=permissions.same_blocks, whole=True)
BLOCK_KINDS: Final = {
    **dict.fromkeys(DIRECTIONS, BLOCKS),
    **{f"{way}.cidrBlocks": CIDR for way in DIRECTIONS},
    **{f"{way}.ipv6CidrBlocks": CIDR6 for way in DIRECTIONS},
}


def _reconcile(way: str) -> Callable[[Situation], None]:
    """Bring one direction of a group to what is asked for."""
    member, allow, revoke = DIRECTIONS[way]

    def run(s: Situation) -> None:
        group = s.call("DescribeSecurityGroups", GroupIds=[s.id])["SecurityGroups"][0]
        there = permissions.from_permissions(group.get(member, []))
        wanted = permissions.from_blocks(s.inputs.get(way) or [], s.id)
        surplus, missing = sorted(there - wanted), sorted(wanted - there)
        if surplus:
            s.call(revoke, GroupId=s.id, IpPermissions=[one.permission() for one in surplus])
        if missing:
            s.call(allow, GroupId=s.id, IpPermissions=[one.permission() for one in missing])

    return run


def _shown(way: str) -> Callable[[Situation, Mapping[str, Any]], Any]:
    member = DIRECTIONS[way][0]
    return lambda s, d: permissions.to_blocks(permissions.from_permissions(d.get(member, [])), s.id)


def _each_has_a_source(inputs: Mapping[str, Any]) -> list[Problem]:
    sources = (*(kind for kind, _, _ in permissions.SOURCES), "self")
    return [
        (f"{way}[{index}]", f"has no source: give one of {', '.join(sources)}")
        for way in DIRECTIONS
        if isinstance(inputs.get(way), list)
        for index, block in enumerate(inputs[way])
        if isinstance(block, dict) and not any(block.get(source) for source in sources)
    ]


def _revoke_all(s: Situation) -> None:
    """Groups that name each other can only go once their rules are gone."""
    if s.inputs.get("revokeRulesOnDelete"):
        for group in s.call("DescribeSecurityGroups", GroupIds=[s.id], forgives=GROUP_GONE).get("SecurityGroups", []):
            for member, _, revoke in DIRECTIONS.values():
                if group.get(member):
                    s.call(revoke, GroupId=s.id, IpPermissions=group[member], forgives=RULE_GONE)


FIND_GROUP: Final = Look("DescribeSecurityGroups", {"GroupIds": ["$id"]}, "SecurityGroups[0]", gone=GROUP_GONE)
GROUP_SHOWS: Final[Mapping[str, Any]] = {
    "arn": Form("arn:{partition}:ec2:{region}:{account}:security-group/{id}"),
    "name": "GroupName",
    "ingress": _shown("ingress"),
    "egress": _shown("egress"),
}

SECURITY_GROUP = Row(
    type="aws:ec2/securityGroup:SecurityGroup",
    service="ec2",
    create=Call("CreateSecurityGroup", ("description", "name", "vpcId"), names={"name": "GroupName"}),
    id="GroupId",
    find=FIND_GROUP,
    sets=(
        Do(_reconcile("ingress"), ("ingress",)),
        # AWS lets everything out of a new group; the official provider takes that away.
        Do(_reconcile("egress"), ("egress",), always=True),
    ),
    delete=(Do(_revoke_all, ("revokeRulesOnDelete",)), Call("DeleteSecurityGroup", given={"GroupId": "$id"})),
    shows=GROUP_SHOWS,
    name=Name(longest=255),
    tags=ec2_tags("security-group"),
    unread=frozenset({"revokeRulesOnDelete", "namePrefix"}),
    kinds={**BLOCK_KINDS, "description": ABOUT},
    defaults={"description": "Managed by Pulumi", "revokeRulesOnDelete": False},
    busy=("DependencyViolation", "InvalidGroup.InUse"),
    rules=(_each_has_a_source,),
)


def _adopt(s: Situation) -> Mapping[str, Any]:
    """The group that is there already, with its rules taken away."""
    vpc = s.inputs.get("vpcId")
    if not vpc:
        found = s.call("DescribeVpcs", Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
        vpc = found[0]["VpcId"] if found else ""
    where = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "group-name", "Values": ["default"]}]
    group = s.call("DescribeSecurityGroups", Filters=where)["SecurityGroups"][0]
    if s.inputs.get("tags"):
        tags = [{"Key": key, "Value": value} for key, value in sorted(s.inputs["tags"].items())]
        s.call("CreateTags", Resources=[group["GroupId"]], Tags=tags)
    return group


DEFAULT_SECURITY_GROUP = Row(
    type="aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
    service="ec2",
    create=Make(_adopt, ("vpcId",)),
    id="GroupId",
    find=FIND_GROUP,
    sets=(
        Do(_reconcile("ingress"), ("ingress",), always=True),
        Do(_reconcile("egress"), ("egress",), always=True),
    ),
    delete=(Do(lambda _: None, ("revokeRulesOnDelete",)),),  # it belongs to the VPC, and goes with it
    shows={**GROUP_SHOWS, "description": "Description"},
    tags=ec2_tags("security-group"),
    unread=frozenset({"revokeRulesOnDelete"}),
    kinds=BLOCK_KINDS,
    defaults={"revokeRulesOnDelete": False},
    rules=(_each_has_a_source,),
)

ROWS: Final = (SECURITY_GROUP, DEFAULT_SECURITY_GROUP)
