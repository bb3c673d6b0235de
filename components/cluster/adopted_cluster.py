"""An adopted cluster: an existing EKS cluster that is used as it is.

The environment adds, in this order, security group rules between the cluster and its nodes, Fargate profiles for the
controllers, and the role that mounts file systems. It deletes these again. The cluster, its access entries, its own
add-ons and its OIDC provider stay with their owner. The caller must already have access to the API.
"""

import json
from typing import Any, NotRequired, TypedDict

import pulumi

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.aws_context import AwsContext, aws_context
from agentenv.components._lib.existing import ExistingClusterFacts, read_cluster
from agentenv.components._lib.kubernetes_provider import api_provider
from agentenv.components._lib.options import ChildOptions, child_options, component_outputs
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.components.cluster.addons import EFS_NODE
from agentenv.components.cluster.cluster_layout import sandboxes_on_fargate
from agentenv.components.cluster.fargate import FargateContext, controllers, create_fargate
from agentenv.components.cluster.irsa import Issuer, Roles
from agentenv.components.cluster.security_groups import SecurityGroupRules
from agentenv.components.sandboxes.fargate_security_groups import (
    FargateClass,
    PodGroups,
    group_ids,
    read_fargate_classes,
)

API = "client.authentication.k8s.io/v1beta1"
# CoreDNS stays with the cluster's owner, wherever it runs.
CONTROLLERS = ("karpenter", "agent-sandbox")


class AdoptedClusterArgs(TypedDict):
    """The arguments of an adopted cluster."""

    ownership: Ownership
    """The owner of the environment, for tags and names."""

    name: str
    """The cluster's name."""

    version: str
    """The Kubernetes version that it must run, such as `1.35`."""

    vpc_id: NotRequired[str]
    """The VPC that it must be in, if that is known."""

    subnet_ids: list[pulumi.Input[str]]
    """The private subnets, one per zone, for pods on Fargate."""

    nodes_security_group_id: pulumi.Input[str]
    """The security group of the environment's nodes."""

    sandbox_controller: NotRequired[str]
    """Where the agent-sandbox controller runs: on `fargate` (default) or on `system` nodes."""

    fargate_classes: NotRequired[list[FargateClass]]
    """The sandbox classes on Fargate and the rules of their security groups. Default: none."""

    permissions_boundary: NotRequired[str]
    """The permissions boundary of every IAM role that is created."""


class AdoptedCluster(pulumi.ComponentResource):
    """An existing EKS cluster with rules for an environment's nodes and Fargate profiles for its controllers."""

    name: pulumi.Output[str]
    """Its name."""

    arn: pulumi.Output[str]
    """Its ARN."""

    endpoint: pulumi.Output[str]
    """The endpoint of its API server."""

    kubeconfig: pulumi.Output[str]
    """Its kubeconfig. It holds no credential: clients run `aws eks get-token`."""

    security_group_id: pulumi.Output[str]
    """The cluster security group, of its network interfaces and of pods on Fargate."""

    class_security_group_ids: pulumi.Output[dict[str, list[str]]]
    """The security groups of the pods of each Fargate class."""

    issuer_url: pulumi.Output[str]
    """The URL of its OIDC issuer, which signs service account tokens."""

    issuer_arn: pulumi.Output[str]
    """The ARN of the issuer's IAM OIDC provider, which must exist."""

    efs_client_role_arns: pulumi.Output[list[str]]
    """The roles that mount file systems: only that of the EFS CSI driver on nodes."""

    def __init__(self, name: str, args: AdoptedClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Adopt the cluster; raise before creating anything if it cannot be adopted."""
        reader = ArgumentReader.of("cluster", args, AdoptedClusterArgs)
        labels = Labels.of(reader, "cluster", name)
        cluster, version = reader.text("name"), reader.text("version")
        subnets = reader.inputs("subnet_ids")
        if len(subnets) < 2:
            raise ArgumentError("cluster.subnet_ids", f"{len(subnets)}", "subnets in at least two zones")
        vpc = reader.text("vpc_id") if reader.has("vpc_id") else None
        boundary = reader.text("permissions_boundary") if reader.has("permissions_boundary") else None
        classes, on_fargate = read_fargate_classes(reader, "fargate_classes"), sandboxes_on_fargate(reader)

        super().__init__("agent-environment:index:AdoptedCluster", name, {}, opts)
        facts = read_cluster(cluster, version, vpc, pulumi.InvokeOptions(parent=self))
        aws = aws_context(self)
        child: ChildOptions = child_options(self, opts)
        roles = Roles(labels, child, boundary)

        to_output = pulumi.Output.from_input
        self.name = to_output(cluster)
        self.arn = to_output(facts.arn)
        self.endpoint = to_output(facts.endpoint)
        self.kubeconfig = aws.apply(lambda context: _kubeconfig(cluster, facts, context))
        self.security_group_id = to_output(facts.security_group_id)
        self.issuer_url = to_output(facts.issuer)
        self.issuer_arn = aws.apply(lambda context: _issuer_arn(facts, context))
        self.provider = api_provider(name, self.kubeconfig, self.arn, child(), adopted=True)
        SecurityGroupRules(args["nodes_security_group_id"], self.security_group_id, None, labels, child).create()
        groups = PodGroups(facts.vpc_id, self.security_group_id, args["nodes_security_group_id"], labels, child).make(
            classes
        )
        self.class_security_group_ids = group_ids(groups)
        fargate_context = FargateContext(
            self.name,
            cluster,
            subnets,
            aws,
            None,
            0,
            self.provider,
            controllers(CONTROLLERS, sandboxes=on_fargate),
            classes=[each["name"] for each in classes],
        )
        create_fargate(fargate_context, labels, roles, child)
        files = roles.pod_identity_role("efs-node", "Mounts file systems for pods on nodes", aws, cluster, EFS_NODE)
        self.efs_client_role_arns = pulumi.Output.all(files.arn)
        self.register_outputs(component_outputs(self))

    @property
    def issuer(self) -> Issuer:
        """Return its OIDC issuer, for roles that trust its tokens."""
        return Issuer(self.issuer_arn, self.issuer_url)


def _issuer_arn(facts: ExistingClusterFacts, aws: AwsContext) -> str:
    return f"arn:{aws.partition}:iam::{aws.account}:oidc-provider/{facts.issuer.removeprefix('https://')}"


def _kubeconfig(name: str, facts: ExistingClusterFacts, aws: AwsContext) -> str:
    command: dict[str, Any] = {
        "apiVersion": API,
        "command": "aws",
        "args": ["--region", aws.region, "eks", "get-token", "--cluster-name", name, "--output", "json"],
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "kubernetes",
                    "cluster": {"server": facts.endpoint, "certificate-authority-data": facts.authority},
                }
            ],
            "contexts": [{"name": "aws", "context": {"cluster": "kubernetes", "user": "aws"}}],
            "current-context": "aws",
            "users": [{"name": "aws", "user": {"exec": command}}],
        },
        separators=(",", ":"),
    )
