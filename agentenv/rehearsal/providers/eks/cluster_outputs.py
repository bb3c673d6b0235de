"""What a cluster hands out when it is whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.providers.eks.children import present
from agentenv.rehearsal.providers.eks.kubeconfig import text

if TYPE_CHECKING:
    import pulumi

    from agentenv.rehearsal.providers.eks.addons import VpcCniAddon
    from agentenv.rehearsal.providers.eks.children import Child


@dataclass(frozen=True, kw_only=True)
class Made:
    """The parts of a cluster that its outputs tell of."""

    cluster: Child
    role: Child
    group: Child | None
    nodes: Child | None
    entrance: Child | None
    profile: pulumi.Output[Child | None]
    cni: VpcCniAddon | None
    provider: pulumi.ProviderResource
    endpoint: pulumi.Output[str]
    kubeconfig: pulumi.Output[dict[str, Any]]
    subnets: pulumi.Output[list[str]]
    encryption: dict[str, Any] | None


def outputs(made: Made, given: Mapping[str, Any]) -> dict[str, Any]:
    """The component's outputs. What it has none of is an empty text, as in the official component."""
    # Without groups of its own, that which EKS makes for each cluster is told in their place.
    of_eks = made.cluster.within("vpcConfig", "clusterSecurityGroupId")
    issuer = made.cluster.within("identities", 0, "oidcs", 0, "issuer").apply(lambda url: url or "")
    return {
        "kubeconfig": made.kubeconfig,
        "kubeconfigJson": made.kubeconfig.apply(text),
        "clusterSecurityGroup": made.group,
        "instanceRoles": [],
        "nodeSecurityGroup": made.nodes,
        "eksClusterIngressRule": made.entrance,
        "eksCluster": made.cluster,
        "core": _core(made, given),
        "clusterSecurityGroupId": made.group.id if made.group else of_eks,
        "nodeSecurityGroupId": made.nodes.id if made.nodes else of_eks,
        "clusterIngressRuleId": made.entrance.out("securityGroupRuleId") if made.entrance else "",
        "defaultNodeGroupAsgName": "",
        "fargateProfileId": made.profile.apply(lambda profile: profile.id if profile else ""),
        "fargateProfileStatus": made.profile.apply(lambda profile: profile.out("status") if profile else ""),
        "oidcProviderArn": "",
        "oidcProviderUrl": issuer,
        "oidcIssuer": issuer.apply(lambda url: url.replace("https://", "")),
        "autoModeNodeRoleName": "",
    }


def _core(made: Made, given: Mapping[str, Any]) -> dict[str, Any]:
    """The output `core`, from which other components of the package take what they need."""
    nodes = {"version": given.get("version"), "nodeSecurityGroup": made.nodes, "clusterIngressRule": made.entrance}
    told = {
        "vpcId": given["vpcId"],
        "subnetIds": made.subnets,
        "publicSubnetIds": given.get("publicSubnetIds"),
        "privateSubnetIds": given.get("privateSubnetIds"),
        "clusterSecurityGroup": made.group,
        "cluster": made.cluster,
        "endpoint": made.endpoint,
        "nodeGroupOptions": nodes,
        "kubeconfig": made.kubeconfig,
        "provider": made.provider,
        "vpcCni": made.cni,
        "instanceRoles": [],
        "tags": given.get("tags"),
        "nodeSecurityGroupTags": given.get("nodeSecurityGroupTags"),
        "storageClasses": {},
        "fargateProfile": made.profile if given.get("fargate") else None,
        "encryptionConfig": made.encryption,
        "clusterIamRole": made.role,
        "accessEntries": list((given.get("accessEntries") or {}).values()),
        "autoModeNodeRoleName": "",
    }
    return present(told)
