"""Existing resources before a program runs: a valid VPC, cluster and file systems, for tests to change."""

from __future__ import annotations

import copy
from typing import Any

CLUSTER = "dev-agents"
VPC, PRIVATE, PUBLIC = "vpc-0a1b2c3d", ("subnet-000000aa", "subnet-000000bb"), ("subnet-000000cc",)
FILES = ("fs-000000aa", "fs-000000bb")
ISSUER = "https://oidc.eks.eu-west-1.amazonaws.com/id/STANDS"
GROUP = "sg-cluster"


def existing_resources() -> dict[str, Any]:
    """Return the results of the provider's functions, by token and by the id or name in the request."""
    tags = {"karpenter.sh/discovery": CLUSTER, "kubernetes.io/role/internal-elb": "1"}
    subnets = {
        id_: {
            "id": id_,
            "vpcId": VPC,
            "availabilityZone": f"eu-west-1{zone}",
            "availableIpAddressCount": 250,
            "mapPublicIpOnLaunch": False,
            "tags": tags,
        }
        for id_, zone in zip(PRIVATE, "ab", strict=True)
    }
    public = {**subnets[PRIVATE[0]], "id": PUBLIC[0], "tags": {"kubernetes.io/role/elb": "1"}}
    vpc = {
        "id": VPC,
        "state": "available",
        "enableDnsSupport": True,
        "enableDnsHostnames": True,
        "cidrBlock": "10.9.0.0/16",
    }
    cluster = {
        "name": CLUSTER,
        "arn": f"arn:aws:eks:eu-west-1:123456789012:cluster/{CLUSTER}",
        "status": "ACTIVE",
        "version": "1.35",
        "endpoint": "https://stands.example",
        "accessConfigs": [{"authenticationMode": "API_AND_CONFIG_MAP"}],
        "certificateAuthorities": [{"data": "Q0E="}],
        "identities": [{"oidcs": [{"issuer": ISSUER}]}],
        "vpcConfig": {"vpcId": VPC, "clusterSecurityGroupId": GROUP, "endpointPrivateAccess": True},
    }
    files = {
        id_: {
            "fileSystemId": id_,
            "arn": f"arn:aws:elasticfilesystem:eu-west-1:123456789012:file-system/{id_}",
            "dnsName": f"{id_}.example",
            "encrypted": True,
            "availabilityZoneName": "",
            "performanceMode": "generalPurpose",
            "kmsKeyId": "arn:aws:kms:eu-west-1:123456789012:key/theirs",
        }
        for id_ in FILES
    }
    return copy.deepcopy(
        {
            "aws:ec2/getVpc:getVpc": {VPC: vpc},
            "aws:ec2/getSubnets:getSubnets": {"ids": list(PRIVATE)},
            "aws:ec2/getSubnet:getSubnet": {**subnets, PUBLIC[0]: public},
            "aws:eks/getCluster:getCluster": {CLUSTER: cluster},
            "aws:efs/getFileSystem:getFileSystem": files,
        }
    )


EXISTING: dict[str, Any] = {
    "network": {"existing": {"vpcId": VPC, "privateSubnetIds": list(PRIVATE), "publicSubnetIds": list(PUBLIC)}},
    "cluster": {"existing": CLUSTER},
    "storage": {"existing": list(FILES), "fileSystems": len(FILES)},
}
