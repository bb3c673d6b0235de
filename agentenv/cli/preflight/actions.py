"""The AWS actions that the caller of `pulumi up` needs: the calls that the components' resources cause.

Each row has the operations of a service and a pattern of the resources that the environment has there. The pattern has
the names of the environment, so that a policy limited to those names is simulated correctly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentenv.config import Settings
from agentenv.core.nodes.mirrors import runtime_bucket
from agentenv.core.service.home_metering import scan_jobs


@dataclass(frozen=True)
class Actions:
    """Operations of one service on one kind of resource."""

    service: str
    operations: tuple[str, ...]
    resource: str = "*"

    @property
    def names(self) -> list[str]:
        """Return the actions as IAM policies spell them."""
        return [f"{self.service}:{operation}" for operation in self.operations]


_TAGGED_EC2 = ("CreateTags", "DeleteTags", "DescribeTags")
NETWORK = (
    *("CreateVpc", "DeleteVpc", "ModifyVpcAttribute", "DescribeVpcs", "DescribeVpcAttribute"),
    *("CreateSubnet", "DeleteSubnet", "ModifySubnetAttribute", "DescribeSubnets"),
    *("CreateInternetGateway", "AttachInternetGateway", "DetachInternetGateway", "DeleteInternetGateway"),
    "DescribeInternetGateways",
    *("CreateRouteTable", "DeleteRouteTable", "AssociateRouteTable", "DisassociateRouteTable"),
    *("DescribeRouteTables", "CreateRoute", "ReplaceRoute", "DeleteRoute", "DescribeNetworkAcls"),
    *("CreateVpcEndpoint", "ModifyVpcEndpoint", "DeleteVpcEndpoints", "DescribeVpcEndpoints", "DescribePrefixLists"),
    *("CreateFlowLogs", "DeleteFlowLogs", "DescribeFlowLogs"),
)
NAT = (
    *("AllocateAddress", "DisassociateAddress", "ReleaseAddress", "DescribeAddresses", "DescribeAddressesAttribute"),
    *("CreateNatGateway", "DeleteNatGateway", "DescribeNatGateways"),
)
TRANSIT = (
    *("CreateTransitGatewayVpcAttachment", "ModifyTransitGatewayVpcAttachment", "DeleteTransitGatewayVpcAttachment"),
    *("DescribeTransitGatewayVpcAttachments", "DescribeTransitGateways"),
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
    "UpdatePodIdentityAssociation",
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
TABLES = (
    *("CreateTable", "DescribeTable", "UpdateTable", "DeleteTable", "UpdateTimeToLive", "DescribeTimeToLive"),
    *("UpdateContinuousBackups", "DescribeContinuousBackups", "TagResource", "UntagResource", "ListTagsOfResource"),
)
BALANCERS = (
    *("CreateLoadBalancer", "DeleteLoadBalancer", "ModifyLoadBalancerAttributes", "SetSecurityGroups", "SetSubnets"),
    *("CreateTargetGroup", "DeleteTargetGroup", "ModifyTargetGroup", "ModifyTargetGroupAttributes"),
    *("CreateListener", "DeleteListener", "ModifyListener", "AddTags", "RemoveTags"),
)
DESCRIBE_BALANCERS = (
    *("DescribeLoadBalancers", "DescribeLoadBalancerAttributes", "DescribeCapacityReservation"),
    *("DescribeTargetGroups", "DescribeTargetGroupAttributes"),
    *("DescribeListeners", "DescribeListenerAttributes", "DescribeTags"),
)
RECORDS = ("ChangeResourceRecordSets", "ListResourceRecordSets", "GetHostedZone")
EVENTS = (
    *("PutRule", "DeleteRule", "DescribeRule", "PutTargets", "RemoveTargets", "ListTargetsByRule"),
    *("TagResource", "UntagResource", "ListTagsForResource"),
)


def actions_of(settings: Settings, account: str, partition: str) -> Iterator[Actions]:
    """Yield every operation for the resources of the stack. Existing resources are not created or deleted."""
    environment = settings.environment

    def arn(service: str, rest: str) -> str:
        return f"arn:{partition}:{service}:{settings.region}:{account}:{rest}"

    if settings.network.existing is None:
        yield Actions("ec2", NETWORK if settings.network.nat == "none" else (*NETWORK, *NAT))
    if settings.network.transit_gateway is not None:
        yield Actions("ec2", TRANSIT)
    if settings.network.mirrors.bucket:
        yield Actions("s3", BUCKET, f"arn:{partition}:s3:::{runtime_bucket(environment, account)}")
    yield Actions("ec2", (*GROUPS, *_TAGGED_EC2))
    if settings.cluster.existing is None:
        yield Actions("eks", CLUSTER, arn("eks", f"cluster/{settings.cluster_name}"))
        # The issuer's id is known only after the cluster has been created.
        yield Actions("iam", ISSUER, f"arn:{partition}:iam::{account}:oidc-provider/oidc.eks.{settings.region}")
    if settings.cluster.existing is None or settings.service.deployed:
        # The first cluster and the first load balancer of an account have AWS create a role.
        yield Actions("iam", ("CreateServiceLinkedRole",), f"arn:{partition}:iam::{account}:role/aws-service-role/*")
    yield Actions("eks", IN_CLUSTER, arn("eks", f"cluster/{settings.cluster_name}"))
    yield Actions("iam", ROLES, f"arn:{partition}:iam::{account}:role/{environment}-agents")
    if settings.network.nat == "none" and settings.network.existing is None:
        # In other networks Karpenter creates it with its own role.
        yield Actions("iam", PROFILE, f"arn:{partition}:iam::{account}:instance-profile/{environment}-agents")
    yield Actions("kms", KEYS, arn("kms", "key/*"))
    if not settings.storage.existing:
        yield Actions("elasticfilesystem", FILES, arn("elasticfilesystem", "file-system/*"))
    yield Actions("elasticfilesystem", IN_FILES, arn("elasticfilesystem", "file-system/*"))
    if settings.workspaces or scan_jobs(settings):
        yield Actions("elasticfilesystem", POINTS[:1], arn("elasticfilesystem", "file-system/*"))
        yield Actions("elasticfilesystem", POINTS[1:], arn("elasticfilesystem", "access-point/*"))
    if settings.workspaces:
        # The access points of seats are found by their tags after the seats have been removed.
        yield Actions("tag", ("GetResources",))
    yield Actions("logs", ("DescribeLogGroups",), arn("logs", "log-group:*"))
    yield Actions("logs", LOGS, arn("logs", f"log-group:/agent-environment/{environment}/agents"))
    yield Actions("sqs", QUEUE, arn("sqs", f"{environment}-agents"))
    yield Actions("events", EVENTS, arn("events", f"rule/{environment}-agents"))
    yield from _service_actions(settings, account, partition)
    yield from _cost_actions(settings, account, partition)


def _service_actions(settings: Settings, account: str, partition: str) -> Iterator[Actions]:
    """Yield the operations for the tables of the service, and for the load balancer and records of its domain."""
    service, name = settings.service, f"{settings.environment}-agents"
    if not service.deployed:
        return
    regional = f"{settings.region}:{account}"
    yield Actions("dynamodb", TABLES, f"arn:{partition}:dynamodb:{regional}:table/{name}-service")
    if service.domain is None:
        return
    balancer = f"arn:{partition}:elasticloadbalancing:{regional}:loadbalancer/net/{name}-gateway"
    yield Actions("elasticloadbalancing", BALANCERS, balancer)
    yield Actions("elasticloadbalancing", DESCRIBE_BALANCERS)
    if service.dns is not None:
        for zone in dict.fromkeys((service.dns.zone, service.dns.workspace_zone or service.dns.zone)):
            yield Actions("route53", RECORDS, f"arn:{partition}:route53:::hostedzone/{zone}")
        yield Actions("route53", ("GetChange",), f"arn:{partition}:route53:::change/*")


_TAGS = ("TagResource", "UntagResource", "ListTagsForResource")
BUDGETS = ("ModifyBudget", "ViewBudget", *_TAGS)
COST_TAGS = ("UpdateCostAllocationTagsStatus", "ListCostAllocationTags")
MONITORS = ("CreateAnomalyMonitor", "GetAnomalyMonitors", "UpdateAnomalyMonitor", "DeleteAnomalyMonitor")
ANOMALIES = (
    *("CreateAnomalySubscription", "GetAnomalySubscriptions", "UpdateAnomalySubscription"),
    *("DeleteAnomalySubscription", *_TAGS),
)
EXPORTS = ("CreateExport", "GetExport", "UpdateExport", "DeleteExport", *_TAGS)
BUCKET = (
    *("CreateBucket", "DeleteBucket", "ListBucket", "ListBucketVersions", "DeleteObject", "DeleteObjectVersion"),
    *("GetBucketTagging", "PutBucketTagging", "GetBucketPolicy", "PutBucketPolicy", "DeleteBucketPolicy"),
    *("GetBucketPublicAccessBlock", "PutBucketPublicAccessBlock"),
    *("GetBucketOwnershipControls", "PutBucketOwnershipControls"),
    *("GetEncryptionConfiguration", "PutEncryptionConfiguration"),
    *("GetLifecycleConfiguration", "PutLifecycleConfiguration"),
    # The provider reads every property of a bucket, whether or not the program sets it.
    *("GetAccelerateConfiguration", "GetBucketAcl", "GetBucketCORS", "GetBucketLogging", "GetBucketRequestPayment"),
    *("GetBucketVersioning", "GetBucketWebsite", "GetBucketObjectLockConfiguration", "GetReplicationConfiguration"),
)
CATALOGUE = (
    *("CreateDatabase", "GetDatabase", "UpdateDatabase", "DeleteDatabase", "GetTags", "TagResource", "UntagResource"),
    *("CreateTable", "GetTable", "UpdateTable", "DeleteTable", "GetPartitionIndexes"),
)
WORKGROUP = (
    *("CreateWorkGroup", "GetWorkGroup", "UpdateWorkGroup", "DeleteWorkGroup"),
    *("CreateNamedQuery", "GetNamedQuery", "DeleteNamedQuery", *_TAGS),
)
DASHBOARD = ("PutDashboard", "GetDashboard", "DeleteDashboards")


def _cost_actions(settings: Settings, account: str, partition: str) -> Iterator[Actions]:
    """Yield the operations for the cost controls of the stack."""
    cost, name = settings.cost, f"{settings.environment}-agents-costs"
    regional = f"{settings.region}:{account}"
    if cost.monthly_budget is not None:
        yield Actions("budgets", BUDGETS, f"arn:{partition}:budgets::{account}:budget/{name}-month")
    if cost.cost_tags == "activate":
        yield Actions("ce", COST_TAGS)
    if cost.anomaly_alerts:
        yield Actions("ce", ANOMALIES if cost.anomaly_monitor else (*ANOMALIES, *MONITORS))
    if cost.usage_export:
        yield Actions("s3", BUCKET, f"arn:{partition}:s3:::{name}-usage-{account}")
        # IAM also treats an export of the bill as a report.
        yield Actions("cur", ("PutReportDefinition",))
        yield Actions("bcm-data-exports", EXPORTS)
        database = f"{name.replace('-', '_')}_usage"
        yield Actions("glue", CATALOGUE, f"arn:{partition}:glue:{regional}:database/{database}")
        yield Actions("athena", WORKGROUP, f"arn:{partition}:athena:{regional}:workgroup/{name}-usage")
    if cost.platform_dashboard:
        yield Actions("cloudwatch", DASHBOARD, f"arn:{partition}:cloudwatch::{account}:dashboard/{name}-platform")
