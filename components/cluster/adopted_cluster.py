"""A cluster that stands already: used as it is, with what an environment adds to it and takes away again.

In the order it comes to life: doors between its interfaces and the environment's nodes, profiles for the controllers,
and the role that mounts file systems. The cluster, who gets in, its own add-ons and its issuer are its owner's; whoever
runs this has to be let in already.
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
from agentenv.components.cluster.fargate import Ground, controllers, fargate
from agentenv.components.cluster.irsa import Issuer, Roles
from agentenv.components.cluster.security_groups import Doors
from agentenv.components.sandboxes.fargate_security_groups import (
    FargateClass,
    PodGroups,
    group_ids,
    read_fargate_classes,
)

API = "client.authentication.k8s.io/v1beta1"
# CoreDNS is the owner's, wherever it runs.
CONTROLLERS = ("karpenter", "agent-sandbox")


class AdoptedClusterArgs(TypedDict):
    """What is used of a cluster, and by whom."""

    ownership: Ownership
    """Whose the environment is."""

    name: str
    """The cluster's name."""

    version: str
    """The Kubernetes version that it has to run, such as `1.35`."""

    vpc_id: NotRequired[str]
    """The VPC that it has to be in, where that is known."""

    subnet_ids: list[pulumi.Input[str]]
    """A private subnet a zone, for pods on Fargate."""

    nodes_security_group_id: pulumi.Input[str]
    """The group of the environment's nodes."""

    sandbox_controller: NotRequired[str]
    """Where the agent-sandbox controller runs: on `fargate` unless told, or on the `system`'s nodes."""

    fargate_classes: NotRequired[list[FargateClass]]
    """The classes of sandboxes that run on Fargate, and what their security groups hold; none unless told."""

    permissions_boundary: NotRequired[str]
    """The permissions boundary of every role that is made."""


class AdoptedCluster(pulumi.ComponentResource):
    """An EKS cluster that stands already, with doors to an environment's nodes and places for its controllers."""

    name: pulumi.Output[str]
    """Its name."""

    arn: pulumi.Output[str]
    """Its ARN."""

    endpoint: pulumi.Output[str]
    """The address of its API."""

    kubeconfig: pulumi.Output[str]
    """How to reach it: without a credential, for one is fetched with `aws eks get-token`."""

    security_group_id: pulumi.Output[str]
    """The group of its interfaces and of pods on Fargate."""

    class_security_group_ids: pulumi.Output[dict[str, list[str]]]
    """The security groups of each class on Fargate, which its pods are put into."""

    issuer_url: pulumi.Output[str]
    """Who signs the tokens of its service accounts."""

    issuer_arn: pulumi.Output[str]
    """The same, as an identity provider of IAM, which has to be there."""

    efs_client_role_arns: pulumi.Output[list[str]]
    """The roles that mount file systems: that of the storage driver on nodes, and no other."""

    def __init__(self, name: str, args: AdoptedClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Use it; nothing is added to a cluster that is not right."""
        reader = ArgumentReader.of("cluster", args, AdoptedClusterArgs)
        labels = Labels.of(reader, "cluster", name)
        cluster, version = reader.text("name"), reader.text("version")
        subnets = reader.inputs("subnet_ids")
        if len(subnets) < 2:
            raise ArgumentError("cluster.subnet_ids", f"{len(subnets)}", "subnets in two zones at least")
        vpc = reader.text("vpc_id") if reader.has("vpc_id") else None
        boundary = reader.text("permissions_boundary") if reader.has("permissions_boundary") else None
        classes, on_fargate = read_fargate_classes(reader, "fargate_classes"), sandboxes_on_fargate(reader)

        super().__init__("agent-environment:index:AdoptedCluster", name, {}, opts)
        found = read_cluster(cluster, version, vpc, pulumi.InvokeOptions(parent=self))
        aws = aws_context(self)
        child: ChildOptions = child_options(self, opts)
        roles = Roles(labels, child, boundary)

        known = pulumi.Output.from_input
        self.name = known(cluster)
        self.arn = known(found.arn)
        self.endpoint = known(found.endpoint)
        self.kubeconfig = aws.apply(lambda context: _kubeconfig(cluster, found, context))
        self.security_group_id = known(found.security_group_id)
        self.issuer_url = known(found.issuer)
        self.issuer_arn = aws.apply(lambda context: _issuer_arn(found, context))
        self.provider = api_provider(name, self.kubeconfig, self.arn, child(), adopted=True)
        Doors(args["nodes_security_group_id"], self.security_group_id, None, labels, child).open()
        groups = PodGroups(found.vpc_id, self.security_group_id, labels, child).make(classes)
        self.class_security_group_ids = group_ids(groups)
        ground = Ground(
            self.name,
            cluster,
            subnets,
            aws,
            None,
            0,
            self.provider,
            controllers(CONTROLLERS, sandboxes=on_fargate),
            classes=[one["name"] for one in classes],
        )
        fargate(ground, labels, roles, child)
        files = roles.pod_identity_role("efs-node", "Mounts file systems for pods on nodes", aws, cluster, EFS_NODE)
        self.efs_client_role_arns = pulumi.Output.all(files.arn)
        self.register_outputs(component_outputs(self))

    @property
    def issuer(self) -> Issuer:
        """Who signs its tokens, for roles that trust them."""
        return Issuer(self.issuer_arn, self.issuer_url)


def _issuer_arn(found: ExistingClusterFacts, aws: AwsContext) -> str:
    return f"arn:{aws.partition}:iam::{aws.account}:oidc-provider/{found.issuer.removeprefix('https://')}"


def _kubeconfig(name: str, found: ExistingClusterFacts, aws: AwsContext) -> str:
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
                    "cluster": {"server": found.endpoint, "certificate-authority-data": found.authority},
                }
            ],
            "contexts": [{"name": "aws", "context": {"cluster": "kubernetes", "user": "aws"}}],
            "current-context": "aws",
            "users": [{"name": "aws", "user": {"exec": command}}],
        },
        separators=(",", ":"),
    )
