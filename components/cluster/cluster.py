"""The cluster: EKS with its access entries, control plane logs, and everything that must run before there are nodes.

Creates, in this order: the KMS key and log group, the cluster, access entries, security group rules between cluster and
nodes, Fargate profiles of the controllers, and the add-ons that need no node. `ClusterAddons` has the add-ons that need
nodes; they are created after `Capacity` and deleted before it.
"""

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_eks
from pulumi_aws import cloudwatch, iam

from agentenv.components._lib import iam_policies
from agentenv.components._lib.aws_context import aws_context
from agentenv.components._lib.encryption_key import LONGEST, SHORTEST, create_key
from agentenv.components._lib.iam_policies import Document
from agentenv.components._lib.kubernetes_provider import api_provider
from agentenv.components._lib.options import ChildOptions, child_options, component_outputs
from agentenv.components._lib.planned_documents import OUTPUT
from agentenv.components._lib.tags import Labels
from agentenv.components._lib.token_identity import TokenIdentity, token_identity
from agentenv.components.cluster.access import Access, Entries
from agentenv.components.cluster.addons import CNI, EFS_NODE, Installer
from agentenv.components.cluster.api_authorization import after_authorization
from agentenv.components.cluster.context import ClusterContext
from agentenv.components.cluster.fargate import FargateContext, create_fargate
from agentenv.components.cluster.irsa import AUDIENCE, Issuer, Roles, ServiceAccount
from agentenv.components.cluster.security_groups import SecurityGroupRules
from agentenv.components.network.network import NetworkContext
from agentenv.components.sandboxes.fargate_security_groups import PodGroups, group_ids
from agentenv.core.iam.documents import policy_document
from agentenv.core.nodes.fargate_profiles import controllers
from agentenv.core.plan import ClusterPlan

LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")


class Cluster(pulumi.ComponentResource):
    """An EKS cluster with its keys, logs, access entries, Fargate profiles and first add-ons."""

    name: pulumi.Output[str]
    """Its name, known once it is created."""

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
    """The ARN of the issuer's IAM OIDC provider."""

    efs_client_role_arns: pulumi.Output[list[str]]
    """The roles that mount file systems: only that of the EFS CSI driver on nodes."""

    def __init__(
        self, name: str, plan: ClusterPlan, network: NetworkContext, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Create the cluster in a network."""
        labels, settings = Labels.of(plan.environment, "cluster", name), plan.settings
        cluster_name, boundary = plan.environment.cluster_name, plan.environment.permissions_boundary
        super().__init__("agent-environment:index:Cluster", name, {}, opts)
        self._labels, self._aws = labels, aws_context(self)
        self._child: ChildOptions = child_options(self, opts)
        self._roles = Roles(labels, self._child, boundary)

        cluster = self._cluster(plan, network)
        # Outputs of the cluster resource itself, so that their users depend on it.
        self.name = cluster.eks_cluster.apply(lambda eks: eks.name)
        self.arn = cluster.eks_cluster.apply(lambda eks: eks.arn)
        self.endpoint = cluster.eks_cluster.apply(lambda eks: eks.endpoint)
        self.kubeconfig = cluster.kubeconfig_json
        self.security_group_id = cluster.cluster_security_group_id
        self.issuer_url = cluster.oidc_provider_url
        invoke_options = pulumi.InvokeOptions(parent=self)
        entries = Entries(self.name, self._aws, labels, self._child, invoke_options).grant(Access.of(settings))
        nodes = network.nodes_security_group_id
        security_groups = SecurityGroupRules(
            nodes, self.security_group_id, network.endpoints_security_group_id, labels, self._child
        )
        # Without them, clients outside of the VPC reach no private endpoint.
        admitted = security_groups.admit(plan.private_access)
        after = pulumi.ResourceOptions(depends_on=[*entries, *admitted])
        authorized = after_authorization(self.kubeconfig, entries, self)
        self.provider = api_provider(name, authorized, self.arn, self._child(after))
        issuer = iam.OpenIdConnectProvider(
            f"{name}-issuer",
            url=self.issuer_url,
            client_id_lists=[AUDIENCE],
            tags=labels.tags("issuer"),
            opts=self._child(),
        )
        self.issuer_arn = issuer.arn
        security_groups.create()
        groups = PodGroups(network.vpc_id, self.security_group_id, nodes, labels, self._child).create(
            plan.fargate_classes
        )
        self.class_security_group_ids = group_ids(groups)
        fargate_context = FargateContext(
            self.name,
            cluster_name,
            network.subnet_ids,
            self._aws,
            network.logs_key_arn,
            settings.log_days,
            self.provider,
            controllers(settings),
            classes=[each.name for each in plan.fargate_classes],
        )
        profiles = create_fargate(fargate_context, labels, self._roles, self._child)
        self._install(Installer(self.name, plan.addon_builds, labels, self._child))
        files = self._roles.pod_identity_role(
            "efs-node", "Mounts file systems for pods on nodes", self._aws, cluster_name, EFS_NODE
        )
        self.efs_client_role_arns = pulumi.Output.all(files.arn)
        self.context = ClusterContext(
            cluster_name,
            self.endpoint,
            self.issuer,
            self.class_security_group_ids,
            karpenter_profile=profiles["karpenter"].fargate_profile_name,
        )
        self.register_outputs({**component_outputs(self), OUTPUT: self._roles.planned_documents.entries})

    @property
    def issuer(self) -> Issuer:
        """Return its OIDC issuer, for roles that trust its tokens."""
        return Issuer(self.issuer_arn, self.issuer_url)

    def irsa_role(
        self, name: str, namespace: str, service_account: str, statements: Sequence[pulumi.Input[Document]]
    ) -> iam.Role:
        """Create an IAM role for exactly one service account (IRSA), with these policy statements."""
        role = self._roles.irsa_role(
            name, f"For {namespace}/{service_account}", self.issuer, ServiceAccount(namespace, service_account)
        )
        to_output: pulumi.Output[Any] = pulumi.Output.all(*statements)
        self._roles.add_policy(role, name, to_output.apply(lambda facts: iam_policies.to_json(policy_document(*facts))))
        return role

    def _cluster(self, plan: ClusterPlan, network: NetworkContext) -> pulumi_eks.Cluster:
        """Create the cluster, its key and its log group."""
        labels, settings = self._labels, plan.settings
        ranges = [str(cidr) for cidr in settings.public_access_cidrs]
        deletion_protected = settings.deletion_protection
        key = create_key(
            "secrets",
            "Secrets of the cluster",
            self._aws.apply(iam_policies.secrets_key_policy),
            labels,
            self._child,
            options=pulumi.ResourceOptions(protect=deletion_protected or None),
            # Without its key the cluster cannot be recovered.
            deletion_window=LONGEST if deletion_protected else SHORTEST,
        )
        logs = cloudwatch.LogGroup(
            f"{labels.base}-control-plane",
            # EKS writes to this name. A log group that EKS creates itself has no retention and no key.
            name=f"/aws/eks/{plan.environment.cluster_name}/cluster",
            retention_in_days=settings.log_days,
            kms_key_id=network.logs_key_arn,
            tags=labels.tags("control-plane"),
            opts=self._child(),
        )
        identity = token_identity()
        credentials = pulumi_eks.KubeconfigOptionsArgs(profile_name=identity.profile, role_arn=identity.role_arn)
        return pulumi_eks.Cluster(
            labels.base,
            provider_credential_opts=credentials if identity != TokenIdentity() else None,
            name=plan.environment.cluster_name,
            version=settings.version,
            vpc_id=network.vpc_id,
            private_subnet_ids=list(network.subnet_ids),
            authentication_mode=pulumi_eks.AuthenticationMode.API,
            endpoint_private_access=True,
            endpoint_public_access=bool(ranges),
            public_access_cidrs=ranges or None,
            kubernetes_service_ip_address_range=str(settings.service_cidr),
            encryption_config_key_arn=key.arn,
            enabled_cluster_log_types=list(LOG_TYPES),
            upgrade_policy={"support_type": settings.support_policy.upper()},
            deletion_protection=deletion_protected,
            # All of this is created below instead, with pinned versions and explicit dependencies.
            bootstrap_self_managed_addons=False,
            create_oidc_provider=False,
            skip_default_node_group=True,
            skip_default_security_groups=True,
            use_default_vpc_cni=True,
            coredns_addon_options={"enabled": False},
            kube_proxy_addon_options={"enabled": False},
            tags=labels.tags(""),
            opts=self._child(
                pulumi.ResourceOptions(
                    depends_on=[logs],
                    protect=deletion_protected or None,
                    transforms=[cluster_transform(plan.environment.permissions_boundary)],
                )
            ),
        )

    def _install(self, addons: Installer) -> None:
        """Install the DaemonSets of nodes."""
        cni = self._roles.irsa_role("cni", "Gives pods on nodes their addresses", self.issuer, CNI)
        policies = self._roles.attach_aws_policies(cni, "cni", self._aws, ["AmazonEKS_CNI_Policy"])
        addons.install("vpc-cni", after=policies, token_role=cni.arn)
        addons.install("kube-proxy")
        addons.install("eks-pod-identity-agent")


def cluster_transform(boundary: str | None) -> pulumi.ResourceTransform:
    """Return a transform that sets properties for which the EKS component has no argument.

    By default EKS makes the creator of a cluster its administrator, without a visible access entry. Here access entries
    decide. The property cannot be changed later, so the transform sets it before the cluster is created.
    """

    def transform(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        props: dict[str, Any] = dict(args.props)
        if args.type_ == "aws:eks/cluster:Cluster":
            access_config: dict[str, Any] = props.get("accessConfig") or {}
            access = {**access_config, "bootstrapClusterCreatorAdminPermissions": False}
            return pulumi.ResourceTransformResult({**props, "accessConfig": access}, args.opts)
        if args.type_ == "aws:iam/role:Role" and boundary:
            return pulumi.ResourceTransformResult({**props, "permissionsBoundary": boundary}, args.opts)
        return None

    return transform
