"""Samples of security groups and their rules."""

from typing import Any

from tests.fast.rehearsal.providers.aws.samples.sample import MORE_TAGS, TAGS, Ground, Sample

HTTPS = {"protocol": "tcp", "fromPort": 443, "toPort": 443, "cidrBlocks": ["10.0.0.0/8", "192.168.0.0/16"]}
NFS = {"protocol": "tcp", "fromPort": 2049, "toPort": 2049, "self": True, "description": "files"}
ANY = {"protocol": "-1", "fromPort": 0, "toPort": 0, "cidrBlocks": ["0.0.0.0/0"]}


def _open(ground: Ground, group: str, _: dict[str, Any]) -> object:
    """A hole that somebody made by hand."""
    hole = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    return ground.client("ec2").authorize_security_group_ingress(GroupId=group, IpPermissions=[hole])


def _change_rule(ground: Ground, rule: str, outputs: dict[str, Any]) -> object:
    changed = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIpv4": "172.16.0.0/12"}
    both = [{"SecurityGroupRuleId": rule, "SecurityGroupRule": changed}]
    ec2 = ground.client("ec2")
    return ec2.modify_security_group_rules(GroupId=outputs["securityGroupId"], SecurityGroupRules=both)


def _close_part(ground: Ground, _: str, outputs: dict[str, Any]) -> object:
    part = {"IpProtocol": "tcp", "FromPort": 80, "ToPort": 81, "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}
    ec2 = ground.client("ec2")
    return ec2.revoke_security_group_ingress(GroupId=outputs["securityGroupId"], IpPermissions=[part])


RULE = Sample(
    inputs=lambda g: {
        "securityGroupId": g.group(g.vpc()),
        "ipProtocol": "tcp",
        "fromPort": 443,
        "toPort": 443,
        "cidrIpv4": "10.0.0.0/8",
        "tags": TAGS,
    },
    update={"cidrIpv4": "192.168.0.0/16", "description": "inside", "tags": MORE_TAGS},
    replace={"securityGroupId": "sg-0123456789abcdef0"},
    behind=_change_rule,
    drift=("cidrIpv4",),
)
SAMPLES = {
    "aws:ec2/securityGroup:SecurityGroup": Sample(
        inputs=lambda g: {"vpcId": g.vpc(), "description": "ours", "ingress": [HTTPS], "egress": [ANY], "tags": TAGS},
        update={"ingress": [HTTPS, NFS], "egress": [], "tags": MORE_TAGS},
        replace={"description": "theirs"},
        behind=_open,
        drift=("ingress",),
    ),
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": Sample(
        inputs=lambda g: {"vpcId": g.vpc(), "ingress": [], "egress": [], "tags": TAGS},
        update={"egress": [ANY], "tags": MORE_TAGS},
        replace={"vpcId": "vpc-0123456789abcdef0"},
        behind=_open,
        drift=("ingress",),
        stays=True,
    ),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": RULE,
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": RULE,
    "aws:ec2/securityGroupRule:SecurityGroupRule": Sample(
        inputs=lambda g: {
            "securityGroupId": g.group(g.vpc()),
            "type": "ingress",
            "protocol": "tcp",
            "fromPort": 80,
            "toPort": 81,
            "cidrBlocks": ["10.0.0.0/8", "192.168.0.0/16"],
        },
        update={"description": "web"},
        replace={"toPort": 82},
        behind=_close_part,
        drift=("cidrBlocks",),
        imports=lambda _, out: f"{out['securityGroupId']}_ingress_tcp_80_81_10.0.0.0/8_192.168.0.0/16",
    ),
}


def _from_a_group(ground: Ground) -> dict[str, Any]:
    vpc = ground.vpc()
    return {
        "securityGroupId": ground.group(vpc),
        "ipProtocol": "tcp",
        "fromPort": 2049,
        "toPort": 2049,
        "referencedSecurityGroupId": ground.group(vpc),
        "description": "nodes",
        "tags": TAGS,
    }


def _other_words(ground: Ground, rule: str, outputs: dict[str, Any]) -> object:
    changes = [{"SecurityGroupRuleId": rule, "Description": "somebody's"}]
    return ground.client("ec2").update_security_group_rule_descriptions_ingress(
        GroupId=outputs["securityGroupId"], SecurityGroupRuleDescriptions=changes
    )


# The other form of a type whose forms share little.
OTHERS = {
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": Sample(
        inputs=_from_a_group,
        update={"description": "their nodes", "toPort": 2050, "tags": MORE_TAGS},
        replace={"securityGroupId": "sg-0123456789abcdef0"},
        behind=_other_words,
        drift=("description",),
    ),
}
