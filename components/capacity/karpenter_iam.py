"""The six IAM policies of Karpenter's controller.

Karpenter tags each resource that it creates with the cluster and the node pool. The policies allow it to create only
resources with these tags, and to change or delete only resources that have them.
"""

from typing import Any

from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.iam_policies import Document, refuse_plain_text
from agentenv.core.iam.documents import policy_document
from agentenv.core.iam.principals import SPOT, SPOT_ROLE

POOL = "karpenter.sh/nodepool"
NODE_CLASS = "karpenter.k8s.aws/ec2nodeclass"
CREATED_TYPES = ("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")


def controller_policies(aws: AwsContext, cluster: str, node_role: str, queue: str) -> dict[str, Document]:
    """Return the six policies by name."""
    return {
        "node-lifecycle": node_lifecycle(aws, cluster),
        "iam-integration": iam_integration(aws, cluster, node_role),
        "eks-integration": policy_document(
            _allow("ThisCluster", ["eks:DescribeCluster"], [aws.arn("eks", f"cluster/{cluster}")])
        ),
        "interruption": interruption(queue),
        "zonal-shift": zonal_shift(aws, cluster),
        "resource-discovery": resource_discovery(aws),
    }


def node_lifecycle(aws: AwsContext, cluster: str) -> Document:
    """Allow launching and terminating nodes of this cluster, in subnets and security groups tagged for it."""
    cluster_tags = {f"aws:ResourceTag/kubernetes.io/cluster/{cluster}": "owned"}
    request_tags = {
        f"aws:RequestTag/kubernetes.io/cluster/{cluster}": "owned",
        "aws:RequestTag/eks:eks-cluster-name": cluster,
    }
    pool_resource_tags = {f"aws:ResourceTag/{POOL}": "*"}
    pool_request_tags = {f"aws:RequestTag/{POOL}": "*"}
    created_arns = [aws.arn("ec2", f"{kind}/*") for kind in CREATED_TYPES]
    launch = ["ec2:CreateFleet", "ec2:RunInstances"]
    return policy_document(
        _allow("Images", launch, [_public(aws, "image"), _public(aws, "snapshot")]),
        _allow(
            "Places",
            launch,
            [aws.arn("ec2", "security-group/*"), aws.arn("ec2", "subnet/*")],
            {"StringEquals": {"aws:ResourceTag/karpenter.sh/discovery": cluster}},
        ),
        _allow(
            "Templates",
            launch,
            [aws.arn("ec2", "launch-template/*")],
            {"StringEquals": cluster_tags, "StringLike": pool_resource_tags},
        ),
        _allow(
            "Launch",
            [*launch, "ec2:CreateLaunchTemplate"],
            created_arns,
            {"StringEquals": request_tags, "StringLike": pool_request_tags},
        ),
        _allow(
            "MarkWhatIsMade",
            ["ec2:CreateTags"],
            created_arns,
            {
                "StringEquals": {
                    **request_tags,
                    "ec2:CreateAction": ["CreateFleet", "CreateLaunchTemplate", "RunInstances"],
                },
                "StringLike": pool_request_tags,
            },
        ),
        _allow(
            "NameNodes",
            ["ec2:CreateTags"],
            [aws.arn("ec2", "instance/*")],
            {
                "StringEquals": cluster_tags,
                "StringLike": pool_resource_tags,
                "StringEqualsIfExists": {"aws:RequestTag/eks:eks-cluster-name": cluster},
                "ForAllValues:StringEquals": {
                    "aws:TagKeys": ["Name", "eks:eks-cluster-name", "karpenter.sh/nodeclaim"]
                },
            },
        ),
        _allow(
            "End",
            ["ec2:DeleteLaunchTemplate", "ec2:TerminateInstances"],
            [aws.arn("ec2", "instance/*"), aws.arn("ec2", "launch-template/*")],
            {"StringEquals": cluster_tags, "StringLike": pool_resource_tags},
        ),
    )


def iam_integration(aws: AwsContext, cluster: str, node_role: str) -> Document:
    """Allow passing the node role in instance profiles of this cluster, and creating the account's role for Spot."""
    profiles = [f"arn:{aws.partition}:iam::{aws.account}:instance-profile/*"]
    cluster_tags = _tag_conditions("aws:ResourceTag", cluster, aws)
    request_tags = {**_tag_conditions("aws:RequestTag", cluster, aws), "aws:RequestTag/eks:eks-cluster-name": cluster}
    class_resource_tags = {f"aws:ResourceTag/{NODE_CLASS}": "*"}
    class_request_tags = {f"aws:RequestTag/{NODE_CLASS}": "*"}
    return policy_document(
        _allow(
            "PassNodesTheirRole",
            ["iam:PassRole"],
            [node_role],
            {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}},
        ),
        _allow(
            "MakeProfiles",
            ["iam:CreateInstanceProfile"],
            profiles,
            {"StringEquals": request_tags, "StringLike": class_request_tags},
        ),
        _allow(
            "MarkProfiles",
            ["iam:TagInstanceProfile"],
            profiles,
            {
                "StringEquals": {**cluster_tags, **request_tags},
                "StringLike": {**class_resource_tags, **class_request_tags},
            },
        ),
        _allow(
            "ChangeProfiles",
            ["iam:AddRoleToInstanceProfile", "iam:DeleteInstanceProfile", "iam:RemoveRoleFromInstanceProfile"],
            profiles,
            {"StringEquals": cluster_tags, "StringLike": class_resource_tags},
        ),
        _allow("LookAtRole", ["iam:GetRole"], [node_role]),
        # EC2 creates it with the permission of the first principal that requests Spot capacity in an account.
        _allow(
            "CreateSpotRole",
            ["iam:CreateServiceLinkedRole"],
            [f"arn:{aws.partition}:iam::{aws.account}:role/aws-service-role/{SPOT}/{SPOT_ROLE}"],
            {"StringEquals": {"iam:AWSServiceName": SPOT}},
        ),
    )


def interruption(queue: str) -> Document:
    """Allow receiving interruption events."""
    return policy_document(_allow("Hear", ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"], [queue]))


def zonal_shift(aws: AwsContext, cluster: str) -> Document:
    """Allow reading the zonal shifts of this cluster, which the action takes as a condition, not as a resource."""
    managed = {"arc-zonal-shift:ResourceIdentifier": aws.arn("eks", f"cluster/{cluster}")}
    return policy_document(
        _allow("ThisCluster", ["arc-zonal-shift:GetManagedResource"], ["*"], {"StringEquals": managed})
    )


def resource_discovery(aws: AwsContext) -> Document:
    """Allow describing EC2 resources in this region; these actions support no resource-level permissions."""
    in_region = {"StringEquals": {"aws:RequestedRegion": aws.region}}
    described = (
        "CapacityReservations",
        "Images",
        "InstanceStatus",
        "InstanceTypeOfferings",
        "InstanceTypes",
        "Instances",
        "LaunchTemplates",
        "PlacementGroups",
        "SecurityGroups",
        "SpotPriceHistory",
        "Subnets",
    )
    return policy_document(
        _allow("LookAround", [f"ec2:Describe{kind}" for kind in described], ["*"], in_region),
        _allow(
            "LatestImages",
            ["ssm:GetParameter"],
            [f"arn:{aws.partition}:ssm:{aws.region}::parameter/aws/service/*"],
        ),
        # The price list has no region.
        _allow("Prices", ["pricing:GetProducts"], ["*"]),
        _allow(
            "LookAtProfiles",
            ["iam:GetInstanceProfile", "iam:ListInstanceProfiles"],
            [f"arn:{aws.partition}:iam::{aws.account}:instance-profile/*"],
        ),
    )


def queue_policy(queue: str, rules: list[str]) -> Document:
    """Return the policy of the queue: only this environment's event rules send, and all access requires TLS."""
    return policy_document(
        {
            "Sid": "OurRules",
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": queue,
            "Condition": {"ArnEquals": {"aws:SourceArn": sorted(rules)}},
        },
        refuse_plain_text("sqs:*", queue),
    )


def _tag_conditions(of: str, cluster: str, aws: AwsContext) -> dict[str, str]:
    return {f"{of}/kubernetes.io/cluster/{cluster}": "owned", f"{of}/topology.kubernetes.io/region": aws.region}


def _public(aws: AwsContext, kind: str) -> str:
    return f"arn:{aws.partition}:ec2:{aws.region}::{kind}/*"


def _allow(sid: str, actions: list[str], resources: list[str], condition: dict[str, Any] | None = None) -> Document:
    statement: Document = {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}
    return {**statement, "Condition": condition} if condition else statement
