"""What Karpenter's controller may do: six policies, each for this cluster, and for what a node pool of it asked for.

Karpenter marks whatever it makes with the cluster and the pool. So it may make only what is marked so, and change or
end only what is.
"""

from typing import Any

from agentenv.components._lib import iam_policies as documents
from agentenv.components._lib.aws_context import Whereabouts
from agentenv.components._lib.iam_policies import Document

POOL = "karpenter.sh/nodepool"
NODE_CLASS = "karpenter.k8s.aws/ec2nodeclass"
MADE = ("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")


def controller(place: Whereabouts, cluster: str, node_role: str, queue: str) -> dict[str, Document]:
    """The six policies by name."""
    return {
        "node-lifecycle": node_lifecycle(place, cluster),
        "iam-integration": iam_integration(place, cluster, node_role),
        "eks-integration": documents.document(
            _allow("ThisCluster", ["eks:DescribeCluster"], [place.arn("eks", f"cluster/{cluster}")])
        ),
        "interruption": interruption(queue),
        "zonal-shift": zonal_shift(place, cluster),
        "resource-discovery": resource_discovery(place),
    }


def node_lifecycle(place: Whereabouts, cluster: str) -> Document:
    """Launch and end nodes of this cluster, from images and into subnets and groups that are marked for it."""
    owned = {f"aws:ResourceTag/kubernetes.io/cluster/{cluster}": "owned"}
    asked = {
        f"aws:RequestTag/kubernetes.io/cluster/{cluster}": "owned",
        "aws:RequestTag/eks:eks-cluster-name": cluster,
    }
    of_a_pool = {f"aws:ResourceTag/{POOL}": "*"}
    for_a_pool = {f"aws:RequestTag/{POOL}": "*"}
    made = [place.arn("ec2", f"{kind}/*") for kind in MADE]
    launch = ["ec2:CreateFleet", "ec2:RunInstances"]
    return documents.document(
        _allow("Images", launch, [_public(place, "image"), _public(place, "snapshot")]),
        _allow(
            "Places",
            launch,
            [place.arn("ec2", "security-group/*"), place.arn("ec2", "subnet/*")],
            {"StringEquals": {"aws:ResourceTag/karpenter.sh/discovery": cluster}},
        ),
        _allow(
            "Templates",
            launch,
            [place.arn("ec2", "launch-template/*")],
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
            [place.arn("ec2", "instance/*")],
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
            [place.arn("ec2", "instance/*"), place.arn("ec2", "launch-template/*")],
            {"StringEquals": owned, "StringLike": of_a_pool},
        ),
    )


def iam_integration(place: Whereabouts, cluster: str, node_role: str) -> Document:
    """Give nodes their role, by instance profiles of this cluster, and give no other role to anything."""
    profiles = [f"arn:{place.partition}:iam::{place.account}:instance-profile/*"]
    owned = _marks("aws:ResourceTag", cluster, place)
    asked = {**_marks("aws:RequestTag", cluster, place), "aws:RequestTag/eks:eks-cluster-name": cluster}
    of_a_class = {f"aws:ResourceTag/{NODE_CLASS}": "*"}
    for_a_class = {f"aws:RequestTag/{NODE_CLASS}": "*"}
    return documents.document(
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
    return documents.document(_allow("Hear", ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"], [queue]))


def zonal_shift(place: Whereabouts, cluster: str) -> Document:
    """Hear which zones this cluster has been moved out of; what is managed is named in a condition, not as resource."""
    managed = {"arc-zonal-shift:ResourceIdentifier": place.arn("eks", f"cluster/{cluster}")}
    return documents.document(
        _allow("ThisCluster", ["arc-zonal-shift:GetManagedResource"], ["*"], {"StringEquals": managed})
    )


def resource_discovery(place: Whereabouts) -> Document:
    """Look at what there is to launch, in this region only; none of these can be narrowed further."""
    here = {"StringEquals": {"aws:RequestedRegion": place.region}}
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
    return documents.document(
        _allow("LookAround", [f"ec2:Describe{one}" for one in what], ["*"], here),
        _allow(
            "LatestImages",
            ["ssm:GetParameter"],
            [f"arn:{place.partition}:ssm:{place.region}::parameter/aws/service/*"],
        ),
        # The price list is not of any region.
        _allow("Prices", ["pricing:GetProducts"], ["*"]),
        _allow(
            "LookAtProfiles",
            ["iam:GetInstanceProfile", "iam:ListInstanceProfiles"],
            [f"arn:{place.partition}:iam::{place.account}:instance-profile/*"],
        ),
    )


def queue_policy(queue: str, rules: list[str]) -> Document:
    """Who may write to the queue: the rules of this environment; nobody speaks with it in the clear."""
    return documents.document(
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


def _marks(of: str, cluster: str, place: Whereabouts) -> dict[str, str]:
    return {f"{of}/kubernetes.io/cluster/{cluster}": "owned", f"{of}/topology.kubernetes.io/region": place.region}


def _public(place: Whereabouts, kind: str) -> str:
    return f"arn:{place.partition}:ec2:{place.region}::{kind}/*"


def _allow(sid: str, actions: list[str], resources: list[str], condition: dict[str, Any] | None = None) -> Document:
    said: Document = {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}
    return {**said, "Condition": condition} if condition else said
