"""The component `eks:index:Cluster`: its children in the order they come to life, and what it hands out.

Without node groups: whoever wants the default one is refused. Everything else is as the official component does it,
flaws included; `inputs` says what is not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi
from pulumi.runtime import is_dry_run

from agentenv.rehearsal.providers.eks import access_entries as access
from agentenv.rehearsal.providers.eks import fargate, readiness, security_groups
from agentenv.rehearsal.providers.eks.addons import VpcCniAddon, own_addon
from agentenv.rehearsal.providers.eks.children import Child, Maker, found_again, present
from agentenv.rehearsal.providers.eks.cluster_outputs import Made, outputs
from agentenv.rehearsal.providers.eks.inputs import FARGATE, Refused, refuse_strangers, refuse_values
from agentenv.rehearsal.providers.eks.kubeconfig import kubeconfig, region_of, text
from agentenv.rehearsal.providers.eks.resource_references import Reference
from agentenv.rehearsal.providers.eks.service_roles import ServiceRole

TYPE: Final = "eks:index:Cluster"
_OUTPUTS: Final = ("arn", "certificateAuthority", "endpoint", "identities", "name", "version", "vpcConfig")
# Set when a cluster is made; EKS has no way of changing them, and older clusters are told differently.
_IGNORED: Final = ("accessConfig.bootstrapClusterCreatorAdminPermissions", "bootstrapSelfManagedAddons")


class Cluster(pulumi.ComponentResource):
    """An EKS cluster with what the component makes around it."""

    def __init__(
        self,
        name: str,
        given: Mapping[str, Any],
        others: Mapping[str, Reference],
        versions: Mapping[str, str],
        options: pulumi.ResourceOptions,
    ) -> None:
        refuse_values(f"{TYPE} {name}", given)
        super().__init__(TYPE, name, {}, options)
        self._name, self._given, self._maker = name, given, Maker(self, versions)
        self._tags = given.get("tags")
        self._partition = self._maker.ask("aws:index/getPartition:getPartition", {}).apply(lambda at: at["partition"])
        self._subnets = _subnets(given)
        self._group = self._cluster_group(others.get("clusterSecurityGroup"))
        role, role_arn, attached = self._role(others.get("serviceRole"))
        self._cluster = self._eks(role_arn, attached)
        self._kube_proxy()
        self._endpoint = pulumi.Output.all(self._cluster.out("endpoint"), given.get("endpointPublicAccess")).apply(
            lambda known: self._once_healthy(*known)
        )
        own, handed_out = self._kubeconfig(with_profile=True), self._kubeconfig(with_profile=False)
        provider = pulumi.ProviderResource(
            "kubernetes",
            f"{name}-eks-k8s",
            {"kubeconfig": own.apply(text)},
            pulumi.ResourceOptions(parent=self, version=versions.get("kubernetes")),
        )
        entries = access.entries(self._maker, name, self._cluster, given.get("accessEntries") or {})
        cni = self._vpc_cni(provider, entries)
        profile = self._fargate()
        nodes, entrance = self._node_group()
        self.outputs = outputs(
            Made(
                cluster=self._cluster,
                role=role,
                group=self._group,
                nodes=nodes,
                entrance=entrance,
                profile=profile,
                cni=cni,
                provider=provider,
                endpoint=self._endpoint,
                kubeconfig=handed_out,
                subnets=self._subnets,
                encryption=self._encryption(),
            ),
            given,
        )
        self.register_outputs(self.outputs)

    # -- children -----------------------------------------------------------------------------------------------------

    def _cluster_group(self, other: Reference | None) -> Child | None:
        if other is not None:
            return found_again(other.urn, ())
        if self._given.get("skipDefaultSecurityGroups"):
            return None
        named = {"Name": f"{self._name}-eksClusterSecurityGroup"}
        tags = _merged(named, self._given.get("clusterSecurityGroupTags"), self._tags)
        return security_groups.cluster_group(self._maker, self._name, self._given["vpcId"], tags)

    def _role(self, other: Reference | None) -> tuple[Child, pulumi.Output[str], list[pulumi.Resource]]:
        """The service role, its ARN, and what has to be there before it can be used."""
        if other is not None:
            found = found_again(other.urn, ("arn",))
            return found, found.out("arn"), []
        made = ServiceRole(
            f"{self._name}-eksRole",
            self._maker,
            service="eks.amazonaws.com",
            description="Allows EKS to manage clusters on your behalf.",
            policies=["AmazonEKSClusterPolicy"],
            partition=self._partition,
            tags=self._tags,
            actions=("sts:AssumeRole", "sts:TagSession"),
        )
        return made.role, made.role.out("arn"), made.whole

    def _eks(self, role_arn: pulumi.Output[str], attached: list[pulumi.Resource]) -> Child:
        given = self._given
        managed = given.get("bootstrapSelfManagedAddons")
        inputs = {
            "name": given.get("name"),
            "roleArn": role_arn,
            "kubernetesNetworkConfig": self._network(),
            "bootstrapSelfManagedAddons": True if managed is None else managed,
            "vpcConfig": {
                "securityGroupIds": [self._group.id] if self._group else None,
                "subnetIds": self._subnets,
                "endpointPrivateAccess": given.get("endpointPrivateAccess"),
                "endpointPublicAccess": given.get("endpointPublicAccess"),
                "publicAccessCidrs": self._ranges(),
            },
            "version": given.get("version"),
            "enabledClusterLogTypes": given.get("enabledClusterLogTypes"),
            "tags": _merged({"Name": f"{self._name}-eksCluster"}, given.get("clusterTags"), self._tags),
            "encryptionConfig": self._encryption(),
            "accessConfig": {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": True},
            "upgradePolicy": given.get("upgradePolicy"),
            "deletionProtection": given.get("deletionProtection"),
        }
        return self._maker.child(
            "aws:eks/cluster:Cluster", f"{self._name}-eksCluster", inputs, _OUTPUTS, after=attached, ignoring=_IGNORED
        )

    def _kube_proxy(self) -> None:
        options = self._given.get("kubeProxyAddonOptions") or {}
        if options.get("enabled", True):
            values = options.get("configurationValues")
            self._addon("kube-proxy", options, values)

    def _addon(
        self, addon: str, options: Mapping[str, Any], configuration: Any, after: Sequence[pulumi.Resource] = ()
    ) -> None:
        own_addon(
            self._maker,
            self._name,
            addon,
            cluster=self._cluster,
            options=options,
            tags=self._tags,
            configuration=configuration,
            after=after,
        )

    def _vpc_cni(self, provider: pulumi.ProviderResource, entries: list[Child]) -> VpcCniAddon | None:
        if self._given.get("useDefaultVpcCni"):
            return None
        given = {
            **(self._given.get("vpcCniOptions") or {}),
            "clusterName": self._cluster.out("name"),
            "clusterVersion": self._cluster.out("version"),
            "tags": self._tags,
        }
        options = pulumi.ResourceOptions(parent=self, depends_on=list(entries), providers={"kubernetes": provider})
        return VpcCniAddon(f"{self._name}-vpc-cni", given, self._maker.versions, options)

    def _fargate(self) -> pulumi.Output[Child | None]:
        """The Fargate profile, if one is wanted; and CoreDNS, which wants a place to run."""
        dns = self._given.get("corednsAddonOptions") or {}

        def make(wanted: Any) -> Child | None:
            made: Child | None = None
            if wanted:
                said = {} if wanted is True else wanted
                refuse_strangers(f"{TYPE} {self._name}: fargate", FARGATE, said)
                made = fargate.profile(
                    self._maker,
                    self._name,
                    said,
                    cluster=self._cluster,
                    subnets=self._subnets,
                    partition=self._partition,
                    tags=self._tags,
                )
            values = dns.get("configurationValues")
            if dns.get("enabled") or values or (made and dns.get("enabled") is None):
                on_fargate = {"computeType": "Fargate"} if made else None
                configuration = _merged(on_fargate, values) if on_fargate or values else None
                self._addon("coredns", dns, configuration, [made] if made else [])
            return made

        return pulumi.Output.from_input(self._given.get("fargate")).apply(make)

    def _node_group(self) -> tuple[Child | None, Child | None]:
        if self._given.get("skipDefaultSecurityGroups") or self._group is None:
            return None, None
        given, cluster = self._given, self._cluster.out("name")
        tags = security_groups.node_tags(self._name, cluster, given.get("nodeSecurityGroupTags"), self._tags)
        return security_groups.node_group(self._maker, self._name, given["vpcId"], tags, self._group.id)

    # -- parts of the cluster's inputs --------------------------------------------------------------------------------

    def _network(self) -> pulumi.Output[dict[str, Any]] | None:
        services, family = (self._given.get(key) for key in ("kubernetesServiceIpAddressRange", "ipFamily"))
        if not services and not family:
            return None

        def config(known: list[Any]) -> dict[str, Any]:
            of = known[1] or "ipv4"
            return present({"ipFamily": of, "serviceIpv4Cidr": known[0] if of == "ipv4" else None})

        return pulumi.Output.all(services, family).apply(config)

    def _ranges(self) -> pulumi.Output[Any] | None:
        ranges = self._given.get("publicAccessCidrs")
        if not ranges:
            return None

        def public(known: list[Any]) -> Any:
            if known[1] is False:
                raise Refused(
                    f"{TYPE} {self._name}: publicAccessCidrs is set, and endpointPublicAccess is false; leave one out"
                )
            return known[0]

        return pulumi.Output.all(ranges, self._given.get("endpointPublicAccess")).apply(public)

    def _encryption(self) -> dict[str, Any] | None:
        key = self._given.get("encryptionConfigKeyArn")
        return {"provider": {"keyArn": key}, "resources": ["secrets"]} if key else None

    # -- what its callers need ----------------------------------------------------------------------------------------

    async def _once_healthy(self, endpoint: str, public: Any) -> str:
        """The endpoint, when its API answers. One that is closed to the outside is not asked."""
        if is_dry_run() or not public:
            return endpoint

        def tell(words: str) -> None:
            pulumi.log.info(words, self._cluster, ephemeral=True)

        if not await readiness.healthy(endpoint, tell):
            pulumi.log.warn(f"{endpoint}/healthz has not answered; its kubeconfig is handed out all the same", self)
        return endpoint

    def _kubeconfig(self, *, with_profile: bool) -> pulumi.Output[dict[str, Any]]:
        """The program's kubeconfig goes to many people, so it names nobody's profile; the component's own does."""
        profile = os.environ.get("AWS_PROFILE") or pulumi.Config("aws").get("profile")
        credentials = self._given.get("providerCredentialOpts") or ({"profileName": profile} if profile else {})

        def made(known: list[Any]) -> dict[str, Any]:
            name, endpoint, authority, arn, who = known
            return kubeconfig(
                cluster=name,
                endpoint=endpoint,
                authority=authority,
                region=region_of(arn),
                role=who.get("roleArn"),
                profile=who.get("profileName") if with_profile else None,
            )

        cluster = self._cluster
        authority = cluster.within("certificateAuthority", "data")
        return pulumi.Output.all(cluster.out("name"), self._endpoint, authority, cluster.out("arn"), credentials).apply(
            made
        )


def _subnets(given: Mapping[str, Any]) -> pulumi.Output[list[str]]:
    if given.get("subnetIds") is not None:
        return pulumi.Output.from_input(given["subnetIds"])
    halves = (given.get("publicSubnetIds") or [], given.get("privateSubnetIds") or [])
    return pulumi.Output.all(*halves).apply(lambda known: [*known[0], *known[1]])


def _merged(*parts: Any) -> pulumi.Output[dict[str, Any]]:
    """Objects in one; what comes later counts."""
    return pulumi.Output.all(*parts).apply(lambda known: {k: v for part in known for k, v in (part or {}).items()})
