"""The cluster: EKS, who may use it, what its control plane says, and what has to run before there are nodes.

In the order it comes to life: key and log group, the cluster itself, entries for those who may use it, doors between
its interfaces and the nodes, Fargate for the controllers, and the add-ons that need no node. Add-ons that do are
`ClusterAddons`, which come after `Capacity` and go before it.
"""

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_eks
from pulumi_aws import cloudwatch, iam, kms

from agentenv.components._lib import iam_policies
from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.aws_context import aws_context
from agentenv.components._lib.iam_policies import Document
from agentenv.components._lib.kubernetes_provider import api_provider
from agentenv.components._lib.options import ChildOptions, child_options
from agentenv.components._lib.planned_documents import OUTPUT
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.components.cluster.access import Access, ClusterAccess, Entries
from agentenv.components.cluster.addons import CNI, EFS_NODE, Builds, Installer
from agentenv.components.cluster.cluster_layout import ClusterLayout, public_ranges, sandboxes_on_fargate
from agentenv.components.cluster.fargate import Ground, controllers, fargate
from agentenv.components.cluster.irsa import AUDIENCE, Issuer, Roles, ServiceAccount
from agentenv.components.cluster.security_groups import Doors
from agentenv.components.network.flow_logs import RETENTION_DAYS
from agentenv.components.sandboxes.fargate_security_groups import (
    FargateClass,
    PodGroups,
    group_ids,
    read_fargate_classes,
)
from agentenv.config.settings import is_production

LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")


class ClusterArgs(TypedDict):
    """What a cluster is made from."""

    ownership: Ownership
    """Whose it is."""

    name: str
    """Its name, by which network and nodes know it too."""

    layout: ClusterLayout
    """What it is to be."""

    vpc_id: pulumi.Input[str]
    """The VPC it is in."""

    subnet_ids: list[pulumi.Input[str]]
    """A private subnet a zone, for its interfaces and for pods on Fargate."""

    nodes_security_group_id: pulumi.Input[str]
    """The group of the nodes."""

    endpoints_security_group_id: NotRequired[pulumi.Input[str]]
    """The group of the network's interface endpoints, where it has some."""

    logs_key_arn: pulumi.Input[str]
    """The key for its log groups."""

    fargate_classes: NotRequired[list[FargateClass]]
    """The classes of sandboxes that run on Fargate, and what their security groups hold; none unless told."""

    deletion_protection: NotRequired[bool]
    """Whether EKS and Pulumi refuse to delete it; true in `prod` unless told."""

    permissions_boundary: NotRequired[str]
    """The permissions boundary of every role that is made."""


class Cluster(pulumi.ComponentResource):
    """An EKS cluster with its keys, logs, access entries, Fargate profiles and first add-ons."""

    name: pulumi.Output[str]
    """Its name, once it is there."""

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
    """The same, as an identity provider of IAM."""

    efs_client_role_arns: pulumi.Output[list[str]]
    """The roles that mount file systems: that of the storage driver on nodes, and no other."""

    def __init__(self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make the cluster; a wrong plain argument raises before anything is made."""
        reader = ArgumentReader.of("cluster", args, ClusterArgs)
        layout = reader.part("layout", ClusterLayout)
        labels = Labels.of(reader, "cluster", name)
        cluster_name, version = reader.text("name"), layout.text("version")
        builds = Builds.of(layout, version)
        access = Access.of(
            layout.part("access", ClusterAccess) if layout.has("access") else ArgumentReader("access", {})
        )
        ranges = public_ranges(layout)
        subnets = reader.inputs("subnet_ids")
        if len(subnets) < 2:
            raise ArgumentError("cluster.subnet_ids", f"{len(subnets)}", "subnets in two zones at least")
        days = layout.whole("log_days", 1, 3653, default=30, among=RETENTION_DAYS)
        support = layout.choice("support_policy", ("standard", "extended"), default="standard")
        services = layout.text("service_cidr", default="172.20.0.0/16")
        kept = reader.flag("deletion_protection", default=is_production(labels.environment))
        classes, on_fargate = read_fargate_classes(reader, "fargate_classes"), sandboxes_on_fargate(layout)
        boundary = reader.text("permissions_boundary") if reader.has("permissions_boundary") else None

        super().__init__("agent-environment:index:Cluster", name, {}, opts)
        self._labels, self._aws = labels, aws_context(self)
        self._child: ChildOptions = child_options(self, opts)
        self._roles = Roles(labels, self._child, boundary)

        key = self._secrets_key(kept=kept)
        logs = cloudwatch.LogGroup(
            f"{name}-control-plane",
            # EKS writes to this name. A group that it has to make itself has no retention and no key.
            name=f"/aws/eks/{cluster_name}/cluster",
            retention_in_days=days,
            kms_key_id=args["logs_key_arn"],
            tags=labels.tags("control-plane"),
            opts=self._child(),
        )
        made = pulumi_eks.Cluster(
            name,
            name=cluster_name,
            version=version,
            vpc_id=args["vpc_id"],
            private_subnet_ids=subnets,
            authentication_mode=pulumi_eks.AuthenticationMode.API,
            endpoint_private_access=True,
            endpoint_public_access=bool(ranges),
            public_access_cidrs=ranges or None,
            kubernetes_service_ip_address_range=services,
            encryption_config_key_arn=key.arn,
            enabled_cluster_log_types=list(LOG_TYPES),
            upgrade_policy={"support_type": support.upper()},
            deletion_protection=kept,
            # Everything below is made here instead, pinned and in an order of ours.
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
                    depends_on=[logs], protect=kept or None, transforms=[cluster_transform(boundary)]
                )
            ),
        )
        # By way of the cluster itself, whatever takes these waits for it and goes before it.
        self.name = made.eks_cluster.apply(lambda eks: eks.name)
        self.arn = made.eks_cluster.apply(lambda eks: eks.arn)
        self.endpoint = made.eks_cluster.apply(lambda eks: eks.endpoint)
        self.kubeconfig = made.kubeconfig_json
        self.security_group_id = made.cluster_security_group_id
        self.issuer_url = made.oidc_provider_url
        asked = pulumi.InvokeOptions(parent=self)
        entries = Entries(self.name, self._aws, labels, self._child, asked).grant(access)
        after = pulumi.ResourceOptions(depends_on=entries)
        self.provider = api_provider(name, self.kubeconfig, self.arn, self._child(after))
        issuer = iam.OpenIdConnectProvider(
            f"{name}-issuer",
            url=self.issuer_url,
            client_id_lists=[AUDIENCE],
            tags=labels.tags("issuer"),
            opts=self._child(),
        )
        self.issuer_arn = issuer.arn
        endpoints = args.get("endpoints_security_group_id")
        doors = Doors(args["nodes_security_group_id"], self.security_group_id, endpoints, labels, self._child).open()
        groups = PodGroups(args["vpc_id"], self.security_group_id, labels, self._child).make(classes)
        self.class_security_group_ids = group_ids(groups)
        ground = Ground(
            self.name,
            cluster_name,
            subnets,
            self._aws,
            args["logs_key_arn"],
            days,
            self.provider,
            controllers(sandboxes=on_fargate),
            classes=[one["name"] for one in classes],
        )
        profiles = fargate(ground, labels, self._roles, self._child)
        self._install(Installer(self.name, builds, labels, self._child), profiles["coredns"], doors)
        files = self._roles.pod_identity_role(
            "efs-node", "Mounts file systems for pods on nodes", self._aws, cluster_name, EFS_NODE
        )
        self.efs_client_role_arns = pulumi.Output.all(files.arn)
        outputs = {output: getattr(self, output) for output in Cluster.__annotations__}
        self.register_outputs({**outputs, OUTPUT: self._roles.planned_documents.entries})

    @property
    def issuer(self) -> Issuer:
        """Who signs its tokens, for roles that trust them."""
        return Issuer(self.issuer_arn, self.issuer_url)

    def irsa_role(
        self, name: str, namespace: str, service_account: str, statements: Sequence[pulumi.Input[Document]]
    ) -> iam.Role:
        """A role for the tokens of exactly one service account, and what it may do."""
        role = self._roles.irsa_role(
            name, f"For {namespace}/{service_account}", self.issuer, ServiceAccount(namespace, service_account)
        )
        known: pulumi.Output[Any] = pulumi.Output.all(*statements)
        self._roles.add_policy(
            role, name, known.apply(lambda found: iam_policies.to_json(iam_policies.document(*found)))
        )
        return role

    def _secrets_key(self, *, kept: bool) -> kms.Key:
        key = kms.Key(
            f"{self._labels.base}-secrets",
            description=f"Secrets of the cluster of environment {self._labels.environment}",
            enable_key_rotation=True,
            # A cluster whose key is gone is gone.
            deletion_window_in_days=30 if kept else 7,
            policy=iam_policies.policy_json(self._aws.apply(iam_policies.secrets_key_policy)),
            tags=self._labels.tags("secrets"),
            opts=self._child(pulumi.ResourceOptions(protect=kept or None)),
        )
        kms.Alias(
            f"{self._labels.base}-secrets",
            name=self._labels.name("kms-alias", "secrets", prefix="alias/"),
            target_key_id=key.key_id,
            opts=self._child(),
        )
        return key

    def _install(self, addons: Installer, dns: pulumi.Resource, doors: Sequence[pulumi.Resource]) -> None:
        """What needs no node: daemons that come with each node, and CoreDNS, which is on Fargate."""
        cni = self._roles.irsa_role("cni", "Gives pods on nodes their addresses", self.issuer, CNI)
        may = self._roles.attach_aws_policies(cni, "cni", self._aws, ["AmazonEKS_CNI_Policy"])
        addons.install("vpc-cni", after=may, token_role=cni.arn)
        addons.install("kube-proxy")
        addons.install("eks-pod-identity-agent")
        addons.install("coredns", after=[dns, *doors])


def cluster_transform(boundary: str | None) -> pulumi.ResourceTransform:
    """What the component makes and gives no argument for.

    It makes its caller the cluster's administrator, without an entry that anybody sees; here entries decide. It ignores
    later changes of that, so it has to be said before the cluster is made.
    """

    def change(made: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        props: dict[str, Any] = dict(made.props)
        if made.type_ == "aws:eks/cluster:Cluster":
            said: dict[str, Any] = props.get("accessConfig") or {}
            access = {**said, "bootstrapClusterCreatorAdminPermissions": False}
            return pulumi.ResourceTransformResult({**props, "accessConfig": access}, made.opts)
        if made.type_ == "aws:iam/role:Role" and boundary:
            return pulumi.ResourceTransformResult({**props, "permissionsBoundary": boundary}, made.opts)
        return None

    return change
