"""Karpenter: its CRDs and its controller, which runs on Fargate so that it never depends on its own nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

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
from agentenv.components.capacity.karpenter_iam import controller_policies
from agentenv.components.cluster.context import ClusterContext
from agentenv.components.cluster.irsa import Roles, ServiceAccount
from agentenv.core.iam.documents import policy_document
from agentenv.core.nodes.fargate_profiles import SCHEDULER
from agentenv.core.pinned_versions import releases
from agentenv.core.plan import CapacityPlan

NAMESPACE = "karpenter"
CONTROLLER = ServiceAccount(NAMESPACE, "karpenter")
NODE_POLICIES = (
    # It also allows the Pod Identity agent to assume roles for pods. The VPC CNI has its own role, so
    # AmazonEKS_CNI_Policy is not in this list.
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
)


@dataclass(frozen=True)
class KarpenterContext:
    """The cluster that Karpenter serves, and its plan."""

    plan: CapacityPlan
    cluster: ClusterContext
    aws: pulumi.Output[AwsContext]


@dataclass(frozen=True)
class NodeIdentity:
    """The IAM role of nodes."""

    role: iam.Role
    # The field of an EC2NodeClass: `role`, or `instanceProfile`.
    identity: Mapping[str, pulumi.Input[str]]
    ready: Sequence[pulumi.Resource]


def create_node_role(karpenter: KarpenterContext, roles: Roles) -> NodeIdentity:
    """Create the IAM role of nodes, and its access entry in the cluster."""
    role = roles.create_role(
        "node",
        "What nodes are to AWS",
        karpenter.aws.apply(lambda context: iam_policies.to_json(_instances(context))),
    )
    entry = eks.AccessEntry(
        f"{roles.labels.base}-node",
        cluster_name=karpenter.cluster.name,
        principal_arn=role.arn,
        type="EC2_LINUX",
        tags=roles.labels.tags("node"),
        opts=roles.child(),
    )
    ready = [*roles.attach_aws_policies(role, "node", karpenter.aws, NODE_POLICIES), entry]
    if not karpenter.plan.isolated:
        return NodeIdentity(role, {"role": role.name}, ready)
    # To create an instance profile of a role Karpenter calls IAM, which has no VPC endpoint.
    profile = iam.InstanceProfile(
        f"{roles.labels.base}-node",
        name=roles.labels.name("iam-instance-profile", "node"),
        role=role.name,
        tags=roles.labels.tags("node"),
        opts=roles.child(),
    )
    return NodeIdentity(role, {"instanceProfile": profile.name}, [*ready, profile])


def install_karpenter(karpenter: KarpenterContext, nodes: NodeIdentity, queue: sqs.Queue, roles: Roles) -> helm.Release:
    """Install the CRDs and the controller; return the controller, which depends on everything that it uses."""
    name, child = roles.labels.base, roles.child
    settings, mirrors = karpenter.plan.settings.controller, karpenter.plan.mirrors
    resources = {"cpu": str(settings.cpu), "memory": str(settings.memory)}
    role = roles.irsa_role("controller", "Launches and ends nodes", karpenter.cluster.issuer, CONTROLLER)
    references = (Reference(nodes.role.arn, placeholder_role_arn), Reference(queue.arn, placeholder_queue_arn))

    def document(name: str, context: AwsContext, node: str, messages: str) -> Document:
        return controller_policies(context, karpenter.cluster.name, node, messages)[name]

    policies = [
        roles.add_policy(
            role,
            name,
            PlannedDocument(karpenter.aws, partial(document, name), references),
        )
        for name in (
            "node-lifecycle",
            "iam-integration",
            "eks-integration",
            "interruption",
            "zonal-shift",
            "resource-discovery",
        )
    ]
    namespace = create_restricted_namespace(f"{name}-karpenter", NAMESPACE, child)
    # The chart pins the version and digest of the image.
    charts, public = releases().charts, releases().images["karpenter-controller"]
    crds = helm.Release(
        f"{name}-definitions",
        name="karpenter-crd",
        namespace=namespace.metadata.name,
        chart=charts["karpenter-crd"].address,
        version=charts["karpenter-crd"].version,
        max_history=3,
        opts=child(),
    )
    return helm.Release(
        f"{name}-controller",
        name="karpenter",
        namespace=namespace.metadata.name,
        chart=charts["karpenter"].address,
        version=charts["karpenter"].version,
        skip_crds=True,
        max_history=3,
        timeout=600,
        values={
            "replicas": settings.replicas,
            **_on_fargate(karpenter.cluster.karpenter_profile),
            # The VPC's DNS: CoreDNS may one day run on nodes that Karpenter has yet to launch.
            "dnsPolicy": "Default",
            "settings": {
                "clusterName": karpenter.cluster.name,
                "clusterEndpoint": karpenter.cluster.endpoint,
                "interruptionQueue": queue.name,
                "isolatedVPC": karpenter.plan.isolated,
                "eksControlPlane": True,
                # A preferred zone spread is no reason to launch a node in each zone. On existing nodes the scheduler
                # still honours it.
                "preferencePolicy": "Ignore",
                # Replaces nodes that are not Ready for 30 minutes, unless a fifth of their pool is unhealthy. Claimed
                # sandboxes on them would otherwise wait for ever: nothing else may disrupt their nodes.
                "featureGates": {"nodeRepair": True},
            },
            "serviceAccount": {
                "name": CONTROLLER.name,
                "annotations": {"eks.amazonaws.com/role-arn": role.arn},
            },
            "controller": {
                **({"image": {"repository": mirrors.image(public)}} if mirrors.registry else {}),
                "resources": {"requests": resources, "limits": resources},
            },
        },
        opts=child(pulumi.ResourceOptions(depends_on=[crds, *policies, *nodes.ready])),
    )


def _on_fargate(profile: pulumi.Input[str] | None) -> dict[str, Any]:
    """Return the values that send its pods to Fargate, also before the webhook of a new profile marks pods."""
    if profile is None:
        return {}
    return {"schedulerName": SCHEDULER, "podLabels": {"eks.amazonaws.com/fargate-profile": profile}}


def _instances(aws: AwsContext) -> iam_policies.Document:
    return policy_document(
        {
            "Sid": "Instances",
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Service": f"ec2.{aws.dns_suffix}"},
        }
    )
