"""An adopted cluster: an existing EKS cluster that is used as it is.

The environment adds, in this order, security group rules between the cluster and its nodes, Fargate profiles for the
controllers, and the role that mounts file systems. It deletes these again. The cluster, its access entries, its own
add-ons and its OIDC provider stay with their owner. The caller must already have access to the API.
"""

import json
from typing import Any

import pulumi

from agentenv.components._lib.aws_context import AwsContext, aws_context
from agentenv.components._lib.existing import ExistingClusterFacts, read_cluster
from agentenv.components._lib.kubernetes_provider import api_provider
from agentenv.components._lib.options import ChildOptions, child_options, component_outputs
from agentenv.components._lib.tags import Labels
from agentenv.components._lib.token_identity import TokenIdentity, token_identity
from agentenv.components.cluster.addons import EFS_NODE
from agentenv.components.cluster.api_authorization import after_authorization
from agentenv.components.cluster.context import ClusterContext
from agentenv.components.cluster.fargate import FargateContext, create_fargate
from agentenv.components.cluster.irsa import Issuer, Roles
from agentenv.components.cluster.security_groups import SecurityGroupRules
from agentenv.components.network.network import NetworkContext
from agentenv.components.sandboxes.fargate_security_groups import PodGroups, group_ids
from agentenv.core.nodes.fargate_profiles import controllers
from agentenv.core.plan import ClusterPlan

API = "client.authentication.k8s.io/v1beta1"


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

    def __init__(
        self, name: str, plan: ClusterPlan, network: NetworkContext, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Adopt the cluster; raise before creating anything if it cannot be adopted."""
        labels = Labels.of(plan.environment, "cluster", name)
        cluster = plan.environment.cluster_name

        super().__init__("agent-environment:index:AdoptedCluster", name, {}, opts)
        invoke_options = pulumi.InvokeOptions(parent=self)
        facts = read_cluster(cluster, plan.settings.version, plan.existing_vpc, invoke_options)
        aws = aws_context(self)
        child: ChildOptions = child_options(self, opts)
        roles = Roles(labels, child, plan.environment.permissions_boundary)

        to_output = pulumi.Output.from_input
        self.name = to_output(cluster)
        self.arn = to_output(facts.arn)
        self.endpoint = to_output(facts.endpoint)
        identity = token_identity()
        self.kubeconfig = aws.apply(lambda context: _kubeconfig(cluster, facts, context, identity))
        self.security_group_id = to_output(facts.security_group_id)
        self.issuer_url = to_output(facts.issuer)
        self.issuer_arn = aws.apply(lambda context: _issuer_arn(facts, context))
        authorized = after_authorization(self.kubeconfig, [], self)
        self.provider = api_provider(name, authorized, self.arn, child(), adopted=True)
        SecurityGroupRules(network.nodes_security_group_id, self.security_group_id, None, labels, child).create()
        groups = PodGroups(facts.vpc_id, self.security_group_id, network.nodes_security_group_id, labels, child).create(
            plan.fargate_classes
        )
        self.class_security_group_ids = group_ids(groups)
        fargate_context = FargateContext(
            self.name,
            cluster,
            network.subnet_ids,
            aws,
            None,
            0,
            self.provider,
            controllers(plan.settings),
            classes=[each.name for each in plan.fargate_classes],
        )
        profiles = create_fargate(fargate_context, labels, roles, child)
        files = roles.pod_identity_role("efs-node", "Mounts file systems for pods on nodes", aws, cluster, EFS_NODE)
        self.efs_client_role_arns = pulumi.Output.all(files.arn)
        self.context = ClusterContext(
            cluster,
            self.endpoint,
            self.issuer,
            self.class_security_group_ids,
            karpenter_profile=profiles["karpenter"].fargate_profile_name,
        )
        self.register_outputs(component_outputs(self))

    @property
    def issuer(self) -> Issuer:
        """Return its OIDC issuer, for roles that trust its tokens."""
        return Issuer(self.issuer_arn, self.issuer_url)


def _issuer_arn(facts: ExistingClusterFacts, aws: AwsContext) -> str:
    return f"arn:{aws.partition}:iam::{aws.account}:oidc-provider/{facts.issuer.removeprefix('https://')}"


def _kubeconfig(name: str, facts: ExistingClusterFacts, aws: AwsContext, identity: TokenIdentity) -> str:
    command: dict[str, Any] = {
        "apiVersion": API,
        "command": "aws",
        "args": [
            *("--region", aws.region, "eks", "get-token", "--cluster-name", name, "--output", "json"),
            *identity.arguments,
        ],
        **({"env": identity.environment} if identity.environment else {}),
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
