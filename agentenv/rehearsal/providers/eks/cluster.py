"""The component `eks:index:Cluster`: its children, in the order of their creation, and its outputs.

The default node group is not supported. Everything else matches the official component, defects included; `inputs`
lists the exceptions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi
from pulumi.runtime import is_dry_run

from agentenv.rehearsal.providers.common.property_values import without_none
from agentenv.rehearsal.providers.eks import access_entries, fargate, readiness, security_groups
from agentenv.rehearsal.providers.eks.addons import VpcCniAddon, default_addon
from agentenv.rehearsal.providers.eks.children import Child, ChildFactory, existing_resource
from agentenv.rehearsal.providers.eks.cluster_outputs import ClusterParts, outputs
from agentenv.rehearsal.providers.eks.inputs import FARGATE, UnsupportedInputs, check_known_inputs, check_values
from agentenv.rehearsal.providers.eks.kubeconfig import kubeconfig, region_of, to_json
from agentenv.rehearsal.providers.eks.resource_references import Reference
from agentenv.rehearsal.providers.eks.service_roles import ServiceRole

TYPE: Final = "eks:index:Cluster"
_OUTPUTS: Final = ("arn", "certificateAuthority", "endpoint", "identities", "name", "version", "vpcConfig")
# Set at create; EKS cannot update them, and returns other values for older clusters.
_IGNORED: Final = ("accessConfig.bootstrapClusterCreatorAdminPermissions", "bootstrapSelfManagedAddons")


class Cluster(pulumi.ComponentResource):
    """An EKS cluster with the resources the component registers around it."""

    def __init__(
        self,
        name: str,
        args: Mapping[str, Any],
        references: Mapping[str, Reference],
        versions: Mapping[str, str],
        options: pulumi.ResourceOptions,
    ) -> None:
        check_values(f"{TYPE} {name}", args)
        super().__init__(TYPE, name, {}, options)
        self._name, self._args, self._factory = name, args, ChildFactory(self, versions)
        self._tags = args.get("tags")
        self._partition = self._factory.invoke("aws:index/getPartition:getPartition", {}).apply(
            lambda response: response["partition"]
        )
        self._subnets = _subnets(args)
        self._group = self._cluster_group(references.get("clusterSecurityGroup"))
        role, role_arn, attached = self._role(references.get("serviceRole"))
        self._cluster = self._eks(role_arn, attached)
        self._kube_proxy()
        self._endpoint = pulumi.Output.all(self._cluster.output("endpoint"), args.get("endpointPublicAccess")).apply(
            lambda known: self._endpoint_when_healthy(*known)
        )
        component_kubeconfig, program_kubeconfig = (
            self._kubeconfig(with_profile=True),
            self._kubeconfig(with_profile=False),
        )
        provider = pulumi.ProviderResource(
            "kubernetes",
            f"{name}-eks-k8s",
            {"kubeconfig": component_kubeconfig.apply(to_json)},
            pulumi.ResourceOptions(parent=self, version=versions.get("kubernetes")),
        )
        entries = access_entries.entries(self._factory, name, self._cluster, args.get("accessEntries") or {})
        cni = self._vpc_cni(provider, entries)
        profile = self._fargate()
        nodes, ingress_rule = self._node_group()
        self.outputs = outputs(
            ClusterParts(
                cluster=self._cluster,
                role=role,
                group=self._group,
                nodes=nodes,
                ingress_rule=ingress_rule,
                profile=profile,
                cni=cni,
                provider=provider,
                endpoint=self._endpoint,
                kubeconfig=program_kubeconfig,
                subnets=self._subnets,
                encryption=self._encryption(),
            ),
            args,
        )
        self.register_outputs(self.outputs)

    # -- children -----------------------------------------------------------------------------------------------------

    def _cluster_group(self, reference: Reference | None) -> Child | None:
        if reference is not None:
            return existing_resource(reference.urn, ())
        if self._args.get("skipDefaultSecurityGroups"):
            return None
        name_tag = {"Name": f"{self._name}-eksClusterSecurityGroup"}
        tags = _merged(name_tag, self._args.get("clusterSecurityGroupTags"), self._tags)
        return security_groups.cluster_group(self._factory, self._name, self._args["vpcId"], tags)

    def _role(self, reference: Reference | None) -> tuple[Child, pulumi.Output[str], list[pulumi.Resource]]:
        """Return the service role, its ARN, and the resources it depends on."""
        if reference is not None:
            role = existing_resource(reference.urn, ("arn",))
            return role, role.output("arn"), []
        service_role = ServiceRole(
            f"{self._name}-eksRole",
            self._factory,
            service="eks.amazonaws.com",
            description="Allows EKS to manage clusters on your behalf.",
            policies=["AmazonEKSClusterPolicy"],
            partition=self._partition,
            tags=self._tags,
            actions=("sts:AssumeRole", "sts:TagSession"),
        )
        return service_role.role, service_role.role.output("arn"), service_role.resources

    def _eks(self, role_arn: pulumi.Output[str], attached: list[pulumi.Resource]) -> Child:
        args = self._args
        self_managed = args.get("bootstrapSelfManagedAddons")
        inputs = {
            "name": args.get("name"),
            "roleArn": role_arn,
            "kubernetesNetworkConfig": self._network(),
            "bootstrapSelfManagedAddons": True if self_managed is None else self_managed,
            "vpcConfig": {
                "securityGroupIds": [self._group.id] if self._group else None,
                "subnetIds": self._subnets,
                "endpointPrivateAccess": args.get("endpointPrivateAccess"),
                "endpointPublicAccess": args.get("endpointPublicAccess"),
                "publicAccessCidrs": self._public_access_cidrs(),
            },
            "version": args.get("version"),
            "enabledClusterLogTypes": args.get("enabledClusterLogTypes"),
            "tags": _merged({"Name": f"{self._name}-eksCluster"}, args.get("clusterTags"), self._tags),
            "encryptionConfig": self._encryption(),
            "accessConfig": {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": True},
            "upgradePolicy": args.get("upgradePolicy"),
            "deletionProtection": args.get("deletionProtection"),
        }
        return self._factory.child(
            "aws:eks/cluster:Cluster",
            f"{self._name}-eksCluster",
            inputs,
            _OUTPUTS,
            after=attached,
            ignore_changes=_IGNORED,
        )

    def _kube_proxy(self) -> None:
        options = self._args.get("kubeProxyAddonOptions") or {}
        if options.get("enabled", True):
            values = options.get("configurationValues")
            self._addon("kube-proxy", options, values)

    def _addon(
        self, addon: str, options: Mapping[str, Any], configuration: Any, after: Sequence[pulumi.Resource] = ()
    ) -> None:
        default_addon(
            self._factory,
            self._name,
            addon,
            cluster=self._cluster,
            options=options,
            tags=self._tags,
            configuration=configuration,
            after=after,
        )

    def _vpc_cni(self, provider: pulumi.ProviderResource, entries: list[Child]) -> VpcCniAddon | None:
        if self._args.get("useDefaultVpcCni"):
            return None
        args = {
            **(self._args.get("vpcCniOptions") or {}),
            "clusterName": self._cluster.output("name"),
            "clusterVersion": self._cluster.output("version"),
            "tags": self._tags,
        }
        options = pulumi.ResourceOptions(parent=self, depends_on=list(entries), providers={"kubernetes": provider})
        return VpcCniAddon(f"{self._name}-vpc-cni", args, self._factory.versions, options)

    def _fargate(self) -> pulumi.Output[Child | None]:
        """Register the Fargate profile, if it is enabled, and CoreDNS, which needs nodes to run on."""
        dns = self._args.get("corednsAddonOptions") or {}

        def create(setting: Any) -> Child | None:
            profile: Child | None = None
            if setting:
                options = {} if setting is True else setting
                check_known_inputs(f"{TYPE} {self._name}: fargate", FARGATE, options)
                profile = fargate.profile(
                    self._factory,
                    self._name,
                    options,
                    cluster=self._cluster,
                    subnets=self._subnets,
                    partition=self._partition,
                    tags=self._tags,
                )
            values = dns.get("configurationValues")
            if dns.get("enabled") or values or (profile and dns.get("enabled") is None):
                on_fargate = {"computeType": "Fargate"} if profile else None
                configuration = _merged(on_fargate, values) if on_fargate or values else None
                self._addon("coredns", dns, configuration, [profile] if profile else [])
            return profile

        return pulumi.Output.from_input(self._args.get("fargate")).apply(create)

    def _node_group(self) -> tuple[Child | None, Child | None]:
        if self._args.get("skipDefaultSecurityGroups") or self._group is None:
            return None, None
        args, cluster = self._args, self._cluster.output("name")
        tags = security_groups.node_tags(self._name, cluster, args.get("nodeSecurityGroupTags"), self._tags)
        return security_groups.node_group(self._factory, self._name, args["vpcId"], tags, self._group.id)

    # -- parts of the cluster's inputs --------------------------------------------------------------------------------

    def _network(self) -> pulumi.Output[dict[str, Any]] | None:
        services, family = (self._args.get(key) for key in ("kubernetesServiceIpAddressRange", "ipFamily"))
        if not services and not family:
            return None

        def config(known: list[Any]) -> dict[str, Any]:
            family = known[1] or "ipv4"
            return without_none({"ipFamily": family, "serviceIpv4Cidr": known[0] if family == "ipv4" else None})

        return pulumi.Output.all(services, family).apply(config)

    def _public_access_cidrs(self) -> pulumi.Output[Any] | None:
        ranges = self._args.get("publicAccessCidrs")
        if not ranges:
            return None

        def public(known: list[Any]) -> Any:
            if known[1] is False:
                raise UnsupportedInputs(
                    f"{TYPE} {self._name}: publicAccessCidrs is set, and endpointPublicAccess is false; leave one out"
                )
            return known[0]

        return pulumi.Output.all(ranges, self._args.get("endpointPublicAccess")).apply(public)

    def _encryption(self) -> dict[str, Any] | None:
        key = self._args.get("encryptionConfigKeyArn")
        return {"provider": {"keyArn": key}, "resources": ["secrets"]} if key else None

    # -- endpoint and kubeconfig --------------------------------------------------------------------------------------

    async def _endpoint_when_healthy(self, endpoint: str, public: Any) -> str:
        """Return the endpoint once the API is healthy. A private endpoint is not checked."""
        if is_dry_run() or not public:
            return endpoint

        def report(message: str) -> None:
            pulumi.log.info(message, self._cluster, ephemeral=True)

        if not await readiness.wait_until_healthy(endpoint, report):
            pulumi.log.warn(f"{endpoint}/healthz is not healthy; the kubeconfig is returned nevertheless", self)
        return endpoint

    def _kubeconfig(self, *, with_profile: bool) -> pulumi.Output[dict[str, Any]]:
        """Return a kubeconfig. The component's own names the AWS profile; the program's does not, as others use it."""
        profile = os.environ.get("AWS_PROFILE") or pulumi.Config("aws").get("profile")
        credentials = self._args.get("providerCredentialOpts") or ({"profileName": profile} if profile else {})

        def create(known: list[Any]) -> dict[str, Any]:
            name, endpoint, authority, arn, credentials = known
            return kubeconfig(
                cluster=name,
                endpoint=endpoint,
                authority=authority,
                region=region_of(arn),
                role=credentials.get("roleArn"),
                profile=credentials.get("profileName") if with_profile else None,
            )

        cluster = self._cluster
        authority = cluster.output_at("certificateAuthority", "data")
        return pulumi.Output.all(
            cluster.output("name"), self._endpoint, authority, cluster.output("arn"), credentials
        ).apply(create)


def _subnets(args: Mapping[str, Any]) -> pulumi.Output[list[str]]:
    if args.get("subnetIds") is not None:
        return pulumi.Output.from_input(args["subnetIds"])
    halves = (args.get("publicSubnetIds") or [], args.get("privateSubnetIds") or [])
    return pulumi.Output.all(*halves).apply(lambda known: [*known[0], *known[1]])


def _merged(*parts: Any) -> pulumi.Output[dict[str, Any]]:
    """Merge objects; later ones take precedence."""
    return pulumi.Output.all(*parts).apply(lambda known: {k: v for part in known for k, v in (part or {}).items()})
