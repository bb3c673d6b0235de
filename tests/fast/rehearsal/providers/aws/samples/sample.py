"""A sample of a resource, and the resources that it needs, created with boto3."""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

REGION = "us-east-1"
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
)
ALLOW = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}
)
DENY = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "s3:*", "Resource": "*"}]})


@dataclass
class Ground:
    """boto3 clients of the simulated cloud, and makers of what samples stand on."""

    client: Callable[[str], Any]
    names: Any = field(default_factory=lambda: itertools.count(1))

    def fresh(self, word: str) -> str:
        return f"{word}-{next(self.names)}"

    def vpc(self) -> str:
        return self.client("ec2").create_vpc(CidrBlock="10.20.0.0/16")["Vpc"]["VpcId"]

    def subnet(self, vpc: str, block: str = "10.20.1.0/24", zone: str = "us-east-1a") -> str:
        created = self.client("ec2").create_subnet(VpcId=vpc, CidrBlock=block, AvailabilityZone=zone)
        return created["Subnet"]["SubnetId"]

    def gateway(self, vpc: str) -> str:
        ec2 = self.client("ec2")
        created = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(InternetGatewayId=created, VpcId=vpc)
        return created

    def table(self, vpc: str) -> str:
        return self.client("ec2").create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]

    def group(self, vpc: str) -> str:
        return self.client("ec2").create_security_group(GroupName=self.fresh("g"), Description="x", VpcId=vpc)[
            "GroupId"
        ]

    def address(self) -> str:
        return self.client("ec2").allocate_address(Domain="vpc")["AllocationId"]

    def role(self) -> str:
        name = self.fresh("role")
        return self.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=TRUST)["Role"]["RoleName"]

    def role_arn(self) -> str:
        return self.client("iam").get_role(RoleName=self.role())["Role"]["Arn"]

    def policy(self) -> str:
        created = self.client("iam").create_policy(PolicyName=self.fresh("policy"), PolicyDocument=ALLOW)
        return created["Policy"]["Arn"]

    def key(self) -> str:
        return self.client("kms").create_key()["KeyMetadata"]["Arn"]

    def file_system(self) -> str:
        return self.client("efs").create_file_system(CreationToken=self.fresh("fs"))["FileSystemId"]

    def log_group(self) -> str:
        name = self.fresh("/flows")
        self.client("logs").create_log_group(logGroupName=name)
        return f"arn:aws:logs:{REGION}:123456789012:log-group:{name}"


@dataclass(frozen=True)
class Sample:
    """`update` and `replace` are put over the inputs (None takes one out). `behind` changes the thing by boto3, and
    `drift` names the inputs that must then differ."""

    inputs: Callable[[Ground], dict[str, Any]]
    update: dict[str, Any] = field(default_factory=dict)
    update_more: Callable[[Ground, dict[str, Any]], dict[str, Any]] | None = None
    replace: dict[str, Any] = field(default_factory=dict)
    behind: Callable[[Ground, str, dict[str, Any]], object] | None = None
    drift: tuple[str, ...] = ()
    imports: Callable[[str, dict[str, Any]], str] = lambda id_, _: id_
    untold: tuple[str, ...] = ()  # inputs an import cannot know
    another_id: bool = False  # a change gave it another id, which only an import tells
    stays: bool = False  # deleting it leaves something that answers


def retag(ground: Ground, id_: str, _: dict[str, Any]) -> object:
    """A tag that somebody changed by hand in EC2."""
    return ground.client("ec2").create_tags(Resources=[id_], Tags=[{"Key": "owner", "Value": "somebody"}])


TAGS = {"owner": "platform", "component": "network"}
MORE_TAGS = {"owner": "platform", "cost-center": "42"}
