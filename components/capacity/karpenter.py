"""Karpenter itself: its definitions, and then its controller, on Fargate so that it never depends on its own nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import pulumi
from pulumi_aws import eks, iam, sqs
from pulumi_kubernetes.helm import v3 as helm

from agentenv.components._lib import iam_policies
from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.iam_policies import Document
from agentenv.components._lib.namespaces import create_restricted_namespace
from agentenv.components._lib.planned_documents import (
    PlannedDocument,
    Reference,
    placeholder_queue_arn,
    placeholder_role_arn,
)
from agentenv.components.capacity.karpenter_iam import controller
from agentenv.components.cluster.irsa import Issuer, Roles, ServiceAccount
from agentenv.core.nodes.controller_resources import Amounts
from agentenv.core.nodes.mirrors import Mirrors
from agentenv.core.pinned_versions import releases

NAMESPACE = "karpenter"
CONTROLLER = ServiceAccount(NAMESPACE, "karpenter")
NODE_POLICIES = (
    # It also lets the identity agent of a node ask for the roles of its pods. Addresses are given by a role of the
    # network add-on's own, which is why that policy is not among these.
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
)


@dataclass(frozen=True)
class ClusterFacts:
    """The cluster that Karpenter serves."""

    cluster: str
    endpoint: pulumi.Input[str]
    issuer: Issuer
    aws: pulumi.Output[AwsContext]
    mirrors: Mirrors
    isolated: bool
    replicas: int
    amounts: Amounts


@dataclass(frozen=True)
class Nodes:
    """What a node is to AWS and to the cluster."""

    role: iam.Role
    # How classes of nodes name it: the role, or a profile with it.
    identity: Mapping[str, pulumi.Input[str]]
    ready: Sequence[pulumi.Resource]


def node_role(around: ClusterFacts, roles: Roles) -> Nodes:
    """Make the role of nodes, and let them into the cluster by it."""
    role = roles.create_role(
        "node",
        "What nodes are to AWS",
        around.aws.apply(lambda context: iam_policies.to_json(_instances(context))),
    )
    entry = eks.AccessEntry(
        f"{roles.labels.base}-node",
        cluster_name=around.cluster,
        principal_arn=role.arn,
        type="EC2_LINUX",
        tags=roles.labels.tags("node"),
        opts=roles.child(),
    )
    ready = [*roles.attach_aws_policies(role, "node", around.aws, NODE_POLICIES), entry]
    if not around.isolated:
        return Nodes(role, {"role": role.name}, ready)
    # Karpenter makes a profile of a role by asking IAM, which has no endpoint in a VPC.
    profile = iam.InstanceProfile(
        f"{roles.labels.base}-node",
        name=roles.labels.name("iam-instance-profile", "node"),
        role=role.name,
        tags=roles.labels.tags("node"),
        opts=roles.child(),
    )
    return Nodes(role, {"instanceProfile": profile.name}, [*ready, profile])


def install(around: ClusterFacts, nodes: Nodes, queue: sqs.Queue, roles: Roles) -> helm.Release:
    """Install the definitions and the controller; returns the controller, which goes before what it needs."""
    name, child = roles.labels.base, roles.child
    role = roles.irsa_role("controller", "Launches and ends nodes", around.issuer, CONTROLLER)
    names = (Reference(nodes.role.arn, placeholder_role_arn), Reference(queue.arn, placeholder_queue_arn))

    def document(word: str, context: AwsContext, node: str, messages: str) -> Document:
        return controller(context, around.cluster, node, messages)[word]

    may = [
        roles.add_policy(
            role,
            word,
            PlannedDocument(around.aws, partial(document, word), names),
        )
        for word in (
            "node-lifecycle",
            "iam-integration",
            "eks-integration",
            "interruption",
            "zonal-shift",
            "resource-discovery",
        )
    ]
    space = create_restricted_namespace(f"{name}-karpenter", NAMESPACE, child)
    # The chart says which version of the image, and by which digest.
    charts, public = releases().charts, releases().images["karpenter-controller"]
    definitions = helm.Release(
        f"{name}-definitions",
        name="karpenter-crd",
        namespace=space.metadata.name,
        chart=charts["karpenter-crd"].address,
        version=charts["karpenter-crd"].version,
        max_history=3,
        opts=child(),
    )
    return helm.Release(
        f"{name}-controller",
        name="karpenter",
        namespace=space.metadata.name,
        chart=charts["karpenter"].address,
        version=charts["karpenter"].version,
        skip_crds=True,
        max_history=3,
        timeout=600,
        values={
            "replicas": around.replicas,
            # The cluster's own names are served by pods that may need its nodes one day; it asks the VPC's instead.
            "dnsPolicy": "Default",
            "settings": {
                "clusterName": around.cluster,
                "clusterEndpoint": around.endpoint,
                "interruptionQueue": queue.name,
                "isolatedVPC": around.isolated,
                "eksControlPlane": True,
                # A wish to be spread over zones is no reason to buy a node in each: on nodes that are there, the
                # scheduler follows it all the same.
                "preferencePolicy": "Ignore",
            },
            "serviceAccount": {
                "name": CONTROLLER.name,
                "annotations": {"eks.amazonaws.com/role-arn": role.arn},
            },
            "controller": {
                **({"image": {"repository": around.mirrors.image(public)}} if around.mirrors.registry else {}),
                "resources": {"requests": asdict(around.amounts), "limits": asdict(around.amounts)},
            },
        },
        opts=child(pulumi.ResourceOptions(depends_on=[definitions, *may, *nodes.ready])),
    )


def _instances(aws: AwsContext) -> iam_policies.Document:
    return iam_policies.document(
        {
            "Sid": "Instances",
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Service": f"ec2.{aws.dns_suffix}"},
        }
    )
