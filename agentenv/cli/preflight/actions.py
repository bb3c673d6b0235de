"""What whoever runs `pulumi up` has to be allowed to do: the calls that the components' resources lead to.

A row a service: a pattern of the resources that the environment has there, and the operations on them. Names that the
environment chooses stand in the pattern, so that a policy which is limited to them is judged by them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentenv.cli.preflight import cost_permissions as spending
from agentenv.config import Settings


@dataclass(frozen=True)
class Actions:
    """Operations of one service, on one kind of resource."""

    service: str
    words: tuple[str, ...]
    resource: str = "*"

    @property
    def names(self) -> list[str]:
        """The operations as policies have them."""
        return [f"{self.service}:{word}" for word in self.words]


_TAGGED_EC2 = ("CreateTags", "DeleteTags", "DescribeTags")
NETWORK = (
    *("CreateVpc", "DeleteVpc", "ModifyVpcAttribute", "DescribeVpcs", "DescribeVpcAttribute"),
    *("CreateSubnet", "DeleteSubnet", "ModifySubnetAttribute", "DescribeSubnets"),
    *("CreateInternetGateway", "AttachInternetGateway", "DetachInternetGateway", "DeleteInternetGateway"),
    *("DescribeInternetGateways", "AllocateAddress", "ReleaseAddress", "DescribeAddresses"),
    *("DescribeAddressesAttribute", "CreateNatGateway", "DeleteNatGateway", "DescribeNatGateways"),
    *("CreateRouteTable", "DeleteRouteTable", "AssociateRouteTable", "DisassociateRouteTable"),
    *("DescribeRouteTables", "CreateRoute", "ReplaceRoute", "DeleteRoute", "DescribeNetworkAcls"),
    *("CreateVpcEndpoint", "ModifyVpcEndpoint", "DeleteVpcEndpoints", "DescribeVpcEndpoints", "DescribePrefixLists"),
    *("CreateFlowLogs", "DeleteFlowLogs", "DescribeFlowLogs"),
)
GROUPS = (
    *("CreateSecurityGroup", "DeleteSecurityGroup", "DescribeSecurityGroups", "DescribeSecurityGroupRules"),
    *("AuthorizeSecurityGroupIngress", "AuthorizeSecurityGroupEgress", "ModifySecurityGroupRules"),
    *("RevokeSecurityGroupIngress", "RevokeSecurityGroupEgress", "DescribeNetworkInterfaces"),
    "DescribeAvailabilityZones",
)
CLUSTER = (
    *("CreateCluster", "DeleteCluster", "UpdateClusterConfig", "UpdateClusterVersion", "DescribeUpdate"),
    *("AssociateEncryptionConfig",),
)
IN_CLUSTER = (
    *("DescribeCluster", "TagResource", "UntagResource", "ListTagsForResource"),
    *("CreateFargateProfile", "DeleteFargateProfile", "DescribeFargateProfile"),
    *("CreateAddon", "UpdateAddon", "DeleteAddon", "DescribeAddon"),
    *("CreateAccessEntry", "UpdateAccessEntry", "DeleteAccessEntry", "DescribeAccessEntry"),
    *("AssociateAccessPolicy", "DisassociateAccessPolicy", "ListAssociatedAccessPolicies"),
    *("CreatePodIdentityAssociation", "DeletePodIdentityAssociation", "DescribePodIdentityAssociation"),
)
ROLES = (
    *("CreateRole", "DeleteRole", "GetRole", "UpdateRole", "UpdateAssumeRolePolicy", "TagRole", "UntagRole"),
    *("PutRolePolicy", "GetRolePolicy", "DeleteRolePolicy", "ListRolePolicies"),
    *("AttachRolePolicy", "DetachRolePolicy", "ListAttachedRolePolicies", "ListInstanceProfilesForRole", "PassRole"),
)
PROFILE = (
    *("CreateInstanceProfile", "DeleteInstanceProfile", "GetInstanceProfile", "TagInstanceProfile"),
    *("UntagInstanceProfile", "AddRoleToInstanceProfile", "RemoveRoleFromInstanceProfile"),
)
ISSUER = (
    *("CreateOpenIDConnectProvider", "DeleteOpenIDConnectProvider", "GetOpenIDConnectProvider"),
    *("TagOpenIDConnectProvider", "UntagOpenIDConnectProvider"),
)
KEYS = (
    *("CreateKey", "DescribeKey", "GetKeyPolicy", "PutKeyPolicy", "EnableKeyRotation", "GetKeyRotationStatus"),
    *("UpdateKeyDescription", "ScheduleKeyDeletion", "ListResourceTags", "TagResource", "UntagResource"),
    *("CreateAlias", "UpdateAlias", "DeleteAlias", "ListAliases", "CreateGrant"),
)
FILES = (
    *("CreateFileSystem", "UpdateFileSystem", "DeleteFileSystem", "PutLifecycleConfiguration", "PutBackupPolicy"),
    *("DescribeBackupPolicy", "DescribeLifecycleConfiguration"),
)
IN_FILES = (
    *("DescribeFileSystems", "TagResource", "UntagResource", "ListTagsForResource"),
    *("PutFileSystemPolicy", "DeleteFileSystemPolicy", "DescribeFileSystemPolicy"),
    *("CreateMountTarget", "DeleteMountTarget", "DescribeMountTargets", "DescribeMountTargetSecurityGroups"),
    "ModifyMountTargetSecurityGroups",
)
POINTS = ("CreateAccessPoint", "DeleteAccessPoint", "DescribeAccessPoints", "TagResource", "UntagResource")
LOGS = (
    *("CreateLogGroup", "DeleteLogGroup", "PutRetentionPolicy", "DeleteRetentionPolicy", "AssociateKmsKey"),
    *("TagResource", "UntagResource", "ListTagsForResource"),
)
QUEUE = (
    *("CreateQueue", "DeleteQueue", "GetQueueAttributes", "SetQueueAttributes", "GetQueueUrl"),
    *("TagQueue", "UntagQueue", "ListQueueTags"),
)
EVENTS = (
    *("PutRule", "DeleteRule", "DescribeRule", "PutTargets", "RemoveTargets", "ListTargetsByRule"),
    *("TagResource", "UntagResource", "ListTagsForResource"),
)


def actions_of(settings: Settings, account: str, partition: str) -> Iterator[Actions]:
    """Every operation that the stack's own resources lead to; what stands already is neither made nor deleted."""
    at = f"arn:{partition}:{{}}:{settings.region}:{account}:"
    ours = settings.environment

    def arn(service: str, rest: str) -> str:
        return at.format(service) + rest

    yield Actions("sts", ("GetCallerIdentity",))
    if settings.network.existing is None:
        yield Actions("ec2", NETWORK)
    yield Actions("ec2", (*GROUPS, *_TAGGED_EC2))
    if settings.cluster.existing is None:
        yield Actions("eks", CLUSTER, arn("eks", f"cluster/{settings.cluster_name}"))
        # The issuer is only known once the cluster is.
        yield Actions("iam", ISSUER, f"arn:{partition}:iam::{account}:oidc-provider/oidc.eks.{settings.region}")
        yield Actions("iam", ("CreateServiceLinkedRole",), f"arn:{partition}:iam::{account}:role/aws-service-role/*")
    yield Actions("eks", IN_CLUSTER, arn("eks", f"cluster/{settings.cluster_name}"))
    yield Actions("iam", ROLES, f"arn:{partition}:iam::{account}:role/{ours}-agents")
    if settings.network.nat == "none" and settings.network.existing is None:
        # Elsewhere Karpenter makes it, by its own role.
        yield Actions("iam", PROFILE, f"arn:{partition}:iam::{account}:instance-profile/{ours}-agents")
    yield Actions("kms", KEYS, arn("kms", "key/*"))
    if not settings.storage.existing:
        yield Actions("elasticfilesystem", FILES, arn("elasticfilesystem", "file-system/*"))
    yield Actions("elasticfilesystem", IN_FILES, arn("elasticfilesystem", "file-system/*"))
    if settings.workspaces:
        # Made on a file system, and found again by their tags after their seats are gone.
        yield Actions("elasticfilesystem", POINTS[:1], arn("elasticfilesystem", "file-system/*"))
        yield Actions("elasticfilesystem", POINTS[1:], arn("elasticfilesystem", "access-point/*"))
        yield Actions("tag", ("GetResources",))
    yield Actions("logs", ("DescribeLogGroups",), arn("logs", "log-group:*"))
    yield Actions("logs", LOGS, arn("logs", f"log-group:/agent-environment/{ours}/agents"))
    yield Actions("sqs", QUEUE, arn("sqs", f"{ours}-agents"))
    yield Actions("events", EVENTS, arn("events", f"rule/{ours}-agents"))
    for service, words, resource in spending.rights(settings, account, partition):
        yield Actions(service, words, resource)
