"""Things that stand before a program runs, made by boto3 in a simulated account: right as they are, to be spoiled."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

DISCOVERY = "karpenter.sh/discovery"
PRIVATE, PUBLIC = {"kubernetes.io/role/internal-elb": "1"}, {"kubernetes.io/role/elb": "1"}
STRICT = {"enableNetworkPolicy": "true", "env": {"NETWORK_POLICY_ENFORCING_MODE": "strict"}}
OWN_ADDONS = ("vpc-cni", "kube-proxy", "coredns", "eks-pod-identity-agent")

_numbers = itertools.count(1)


def tags(words: dict[str, str]) -> list[dict[str, str]]:
    """Tags as most services take them."""
    return [{"Key": key, "Value": value} for key, value in words.items()]


class Ground:
    """A VPC in a range of its own: two private subnets behind a NAT gateway, and a public one."""

    def __init__(self, client: Callable[[str], Any], cluster: str) -> None:
        self.client, self.cluster = client, cluster
        self.ec2, self.efs, self.eks, self.iam = (client(word) for word in ("ec2", "efs", "eks", "iam"))
        self.range = f"10.{100 + next(_numbers)}"
        self.vpc = self.ec2.create_vpc(CidrBlock=f"{self.range}.0.0/16")["Vpc"]["VpcId"]
        self.ec2.modify_vpc_attribute(VpcId=self.vpc, EnableDnsHostnames={"Value": True})
        gateway = self.ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        self.ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=self.vpc)
        self.public = [self.subnet("a", PUBLIC)]
        self.table(self.public[0], GatewayId=gateway)
        address = self.ec2.allocate_address(Domain="vpc")["AllocationId"]
        nat = self.ec2.create_nat_gateway(SubnetId=self.public[0], AllocationId=address)["NatGateway"]["NatGatewayId"]
        self.private = [self.subnet(zone, self.own) for zone in "ab"]
        for one in self.private:
            self.table(one, NatGatewayId=nat)

    @property
    def own(self) -> dict[str, str]:
        """The tags of a private subnet."""
        return {**PRIVATE, DISCOVERY: self.cluster}

    def subnet(self, zone: str, words: dict[str, str]) -> str:
        """Another subnet."""
        block = f"{self.range}.{next(_numbers)}.0/24"
        made = self.ec2.create_subnet(VpcId=self.vpc, CidrBlock=block, AvailabilityZone=f"us-east-1{zone}")
        id_ = str(made["Subnet"]["SubnetId"])
        self.ec2.create_tags(Resources=[id_], Tags=tags(words))
        return id_

    def table(self, subnet: str, **target: str) -> str:
        """A table of a subnet's own, with a way out."""
        made = str(self.ec2.create_route_table(VpcId=self.vpc)["RouteTable"]["RouteTableId"])
        self.ec2.create_route(RouteTableId=made, DestinationCidrBlock="0.0.0.0/0", **target)
        self.ec2.associate_route_table(RouteTableId=made, SubnetId=subnet)
        return made

    def files(self, **more: Any) -> str:
        """A file system."""
        made = self.efs.create_file_system(CreationToken=str(next(_numbers)), **{"Encrypted": True, **more})
        return str(made["FileSystemId"])

    def group(self) -> str:
        """A security group."""
        named = {"GroupName": f"g{next(_numbers)}", "Description": "mount targets", "VpcId": self.vpc}
        return str(self.ec2.create_security_group(**named)["GroupId"])

    def mounted(self, group: str) -> str:
        """A file system with a mount target in the zone of each private subnet, all in that security group."""
        made = self.files()
        for subnet in self.private:
            self.efs.create_mount_target(FileSystemId=made, SubnetId=subnet, SecurityGroups=[group])
        return made

    def existing(self, **more: Any) -> dict[str, Any]:
        """What a stack file says of the network."""
        return {"vpcId": self.vpc, "privateSubnetIds": self.private, "publicSubnetIds": self.public, **more}

    def raise_cluster(self, version: str = "1.35") -> str:
        """The cluster that the subnets are tagged for, with its issuer known to IAM and the add-ons of its own."""
        trust = {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        role = self.iam.create_role(RoleName=self.cluster, AssumeRolePolicyDocument=document)["Role"]["Arn"]
        made = self.eks.create_cluster(
            name=self.cluster,
            version=version,
            roleArn=role,
            accessConfig={"authenticationMode": "API"},
            resourcesVpcConfig={"subnetIds": self.private, "endpointPrivateAccess": True},
        )["cluster"]
        issuer = made["identity"]["oidc"]["issuer"]
        self.iam.create_open_id_connect_provider(Url=issuer, ClientIDList=["sts.amazonaws.com"])
        for name in OWN_ADDONS:
            more = {"configurationValues": json.dumps(STRICT)} if name == "vpc-cni" else {}
            self.eks.create_addon(clusterName=self.cluster, addonName=name, **more)
        return self.cluster
