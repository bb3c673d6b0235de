"""Create existing AWS resources in a simulated account by boto3: valid ones, which a test can then break."""

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


def tags(tags_: dict[str, str]) -> list[dict[str, str]]:
    """Return tags in the form of most AWS services."""
    return [{"Key": key, "Value": value} for key, value in tags_.items()]


class ExistingResources:
    """A VPC with its own CIDR: two private subnets behind a NAT gateway, and a public one."""

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
        for subnet in self.private:
            self.table(subnet, NatGatewayId=nat)

    @property
    def own(self) -> dict[str, str]:
        """Return the tags of a private subnet."""
        return {**PRIVATE, DISCOVERY: self.cluster}

    def subnet(self, zone: str, tags_: dict[str, str]) -> str:
        """Create another subnet."""
        block = f"{self.range}.{next(_numbers)}.0/24"
        created = self.ec2.create_subnet(VpcId=self.vpc, CidrBlock=block, AvailabilityZone=f"us-east-1{zone}")
        id_ = str(created["Subnet"]["SubnetId"])
        self.ec2.create_tags(Resources=[id_], Tags=tags(tags_))
        return id_

    def table(self, subnet: str, **target: str) -> str:
        """Create a route table with a default route for a subnet."""
        created = str(self.ec2.create_route_table(VpcId=self.vpc)["RouteTable"]["RouteTableId"])
        self.ec2.create_route(RouteTableId=created, DestinationCidrBlock="0.0.0.0/0", **target)
        self.ec2.associate_route_table(RouteTableId=created, SubnetId=subnet)
        return created

    def files(self, **more: Any) -> str:
        """Create a file system."""
        created = self.efs.create_file_system(CreationToken=str(next(_numbers)), **{"Encrypted": True, **more})
        return str(created["FileSystemId"])

    def group(self) -> str:
        """Create a security group."""
        named = {"GroupName": f"g{next(_numbers)}", "Description": "mount targets", "VpcId": self.vpc}
        return str(self.ec2.create_security_group(**named)["GroupId"])

    def mounted(self, group: str) -> str:
        """Create a file system with a mount target in each private subnet, all in one security group."""
        created = self.files()
        for subnet in self.private:
            self.efs.create_mount_target(FileSystemId=created, SubnetId=subnet, SecurityGroups=[group])
        return created

    def existing(self, **more: Any) -> dict[str, Any]:
        """Return the settings of the network in a stack file."""
        return {"vpcId": self.vpc, "privateSubnetIds": self.private, "publicSubnetIds": self.public, **more}

    def raise_cluster(self, version: str = "1.35") -> str:
        """Create the cluster of the subnets' tags, with an IAM identity provider and its own add-ons."""
        trust = {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        role = self.iam.create_role(RoleName=self.cluster, AssumeRolePolicyDocument=document)["Role"]["Arn"]
        created = self.eks.create_cluster(
            name=self.cluster,
            version=version,
            roleArn=role,
            accessConfig={"authenticationMode": "API"},
            resourcesVpcConfig={"subnetIds": self.private, "endpointPrivateAccess": True},
        )["cluster"]
        issuer = created["identity"]["oidc"]["issuer"]
        self.iam.create_open_id_connect_provider(Url=issuer, ClientIDList=["sts.amazonaws.com"])
        for name in OWN_ADDONS:
            more = {"configurationValues": json.dumps(STRICT)} if name == "vpc-cni" else {}
            self.eks.create_addon(clusterName=self.cluster, addonName=name, **more)
        return self.cluster
