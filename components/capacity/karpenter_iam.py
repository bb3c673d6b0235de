"""What Karpenter's controller may do: six policies, each for this cluster, and for what a node pool of it asked for.

Karpenter marks whatever it makes with the cluster and the pool. So it may make only what is marked so, and change or
end only what is.
"""

from typing import Any

from agentenv.components._lib import iam_policies
from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.iam_policies import Document

POOL = "karpenter.sh/nodepool"
NODE_CLASS = "karpenter.k8s.aws/ec2nodeclass"
MADE = ("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")


def controller(aws: AwsContext, cluster: str, node_role: str, queue: str) -> dict[str, Document]:
    """The six policies by name."""
    return {
        "node-lifecycle": node_lifecycle(aws, cluster),
        "iam-integration": iam_integration(aws, cluster, node_role),
        "eks-integration": iam_policies.document(
            _allow("ThisCluster", ["eks:DescribeCluster"], [aws.arn("eks", f"cluster/{cluster}")])
        ),
        "interruption": interruption(queue),
        "zonal-shift": zonal_shift(aws, cluster),
        "resource-discovery": resource_discovery(aws),
    }


def node_lifecycle(aws: AwsContext, cluster: str) -> Document:
    """Launch and end nodes of this cluster, from images and into subnets and groups that are marked for it."""
    owned = {f"aws:ResourceTag/kubernetes.io/cluster/{cluster}": "owned"}
    asked = {
        f"aws:RequestTag/kubernetes.io/cluster/{cluster}": "owned",
        "aws:RequestTag/eks:eks-cluster-name": cluster,
    }
    of_a_pool = {f"aws:ResourceTag/{POOL}": "*"}
    for_a_pool = {f"aws:RequestTag/{POOL}": "*"}
    made = [aws.arn("ec2", f"{kind}/*") for kind in MADE]
    launch = ["ec2:CreateFleet", "ec2:RunInstances"]
    return iam_policies.document(
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
            {"StringEquals": owned, "StringLike": of_a_pool},
        ),
        _allow(
            "Launch", [*launch, "ec2:CreateLaunchTemplate"], made, {"StringEquals": asked, "StringLike": for_a_pool}
        ),
        _allow(
            "MarkWhatIsMade",
            ["ec2:CreateTags"],
            made,
            {
                "StringEquals": {
                    **asked,
                    "ec2:CreateAction": ["CreateFleet", "CreateLaunchTemplate", "RunInstances"],
                },
                "StringLike": for_a_pool,
            },
        ),
        _allow(
            "NameNodes",
            ["ec2:CreateTags"],
            [aws.arn("ec2", "instance/*")],
            {
                "StringEquals": owned,
                "StringLike": of_a_pool,
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
            {"StringEquals": owned, "StringLike": of_a_pool},
        ),
    )


def iam_integration(aws: AwsContext, cluster: str, node_role: str) -> Document:
    """Give nodes their role, by instance profiles of this cluster, and give no other role to anything."""
    profiles = [f"arn:{aws.partition}:iam::{aws.account}:instance-profile/*"]
    owned = _marks("aws:ResourceTag", cluster, aws)
    asked = {**_marks("aws:RequestTag", cluster, aws), "aws:RequestTag/eks:eks-cluster-name": cluster}
    of_a_class = {f"aws:ResourceTag/{NODE_CLASS}": "*"}
    for_a_class = {f"aws:RequestTag/{NODE_CLASS}": "*"}
    return iam_policies.document(
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
            {"StringEquals": asked, "StringLike": for_a_class},
        ),
        _allow(
            "MarkProfiles",
            ["iam:TagInstanceProfile"],
            profiles,
            {"StringEquals": {**owned, **asked}, "StringLike": {**of_a_class, **for_a_class}},
        ),
        _allow(
            "ChangeProfiles",
            ["iam:AddRoleToInstanceProfile", "iam:DeleteInstanceProfile", "iam:RemoveRoleFromInstanceProfile"],
            profiles,
            {"StringEquals": owned, "StringLike": of_a_class},
        ),
        _allow("LookAtRole", ["iam:GetRole"], [node_role]),
    )


def interruption(queue: str) -> Document:
    """Hear what AWS is about to take away."""
    return iam_policies.document(
        _allow("Hear", ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"], [queue])
    )


def zonal_shift(aws: AwsContext, cluster: str) -> Document:
    """Hear which zones this cluster has been moved out of; what is managed is named in a condition, not as resource."""
    managed = {"arc-zonal-shift:ResourceIdentifier": aws.arn("eks", f"cluster/{cluster}")}
    return iam_policies.document(
        _allow("ThisCluster", ["arc-zonal-shift:GetManagedResource"], ["*"], {"StringEquals": managed})
    )


def resource_discovery(aws: AwsContext) -> Document:
    """Look at what there is to launch, in this region only; none of these can be narrowed further."""
    here = {"StringEquals": {"aws:RequestedRegion": aws.region}}
    what = (
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
    return iam_policies.document(
        _allow("LookAround", [f"ec2:Describe{one}" for one in what], ["*"], here),
        _allow(
            "LatestImages",
            ["ssm:GetParameter"],
            [f"arn:{aws.partition}:ssm:{aws.region}::parameter/aws/service/*"],
        ),
        # The price list is not of any region.
        _allow("Prices", ["pricing:GetProducts"], ["*"]),
        _allow(
            "LookAtProfiles",
            ["iam:GetInstanceProfile", "iam:ListInstanceProfiles"],
            [f"arn:{aws.partition}:iam::{aws.account}:instance-profile/*"],
        ),
    )


def queue_policy(queue: str, rules: list[str]) -> Document:
    """Who may write to the queue: the rules of this environment; nobody speaks with it in the clear."""
    return iam_policies.document(
        {
            "Sid": "OurRules",
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": queue,
            "Condition": {"ArnEquals": {"aws:SourceArn": sorted(rules)}},
        },
        {
            "Sid": "RefusePlainText",
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": "sqs:*",
            "Resource": queue,
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        },
    )


def _marks(of: str, cluster: str, aws: AwsContext) -> dict[str, str]:
    return {f"{of}/kubernetes.io/cluster/{cluster}": "owned", f"{of}/topology.kubernetes.io/region": aws.region}


def _public(aws: AwsContext, kind: str) -> str:
    return f"arn:{aws.partition}:ec2:{aws.region}::{kind}/*"


def _allow(sid: str, actions: list[str], resources: list[str], condition: dict[str, Any] | None = None) -> Document:
    said: Document = {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}
    return {**said, "Condition": condition} if condition else said
