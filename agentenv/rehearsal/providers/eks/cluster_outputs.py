"""The outputs of the cluster component."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.providers.common.property_values import without_none
from agentenv.rehearsal.providers.eks.kubeconfig import to_json

if TYPE_CHECKING:
    import pulumi

    from agentenv.rehearsal.providers.eks.addons import VpcCniAddon
    from agentenv.rehearsal.providers.eks.children import Child


@dataclass(frozen=True, kw_only=True)
class ClusterParts:
    """The parts of a cluster that its outputs contain."""

    cluster: Child
    role: Child
    group: Child | None
    nodes: Child | None
    ingress_rule: Child | None
    profile: pulumi.Output[Child | None]
    cni: VpcCniAddon | None
    provider: pulumi.ProviderResource
    endpoint: pulumi.Output[str]
    kubeconfig: pulumi.Output[dict[str, Any]]
    subnets: pulumi.Output[list[str]]
    encryption: dict[str, Any] | None


def outputs(parts: ClusterParts, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the component's outputs. Absent ones are an empty string, as in the official component."""
    # Without its own security groups, the component returns the one that EKS creates for each cluster.
    eks_group = parts.cluster.output_at("vpcConfig", "clusterSecurityGroupId")
    issuer = parts.cluster.output_at("identities", 0, "oidcs", 0, "issuer").apply(lambda url: url or "")
    return {
        "kubeconfig": parts.kubeconfig,
        "kubeconfigJson": parts.kubeconfig.apply(to_json),
        "clusterSecurityGroup": parts.group,
        "instanceRoles": [],
        "nodeSecurityGroup": parts.nodes,
        "eksClusterIngressRule": parts.ingress_rule,
        "eksCluster": parts.cluster,
        "core": _core(parts, args),
        "clusterSecurityGroupId": parts.group.id if parts.group else eks_group,
        "nodeSecurityGroupId": parts.nodes.id if parts.nodes else eks_group,
        "clusterIngressRuleId": parts.ingress_rule.output("securityGroupRuleId") if parts.ingress_rule else "",
        "defaultNodeGroupAsgName": "",
        "fargateProfileId": parts.profile.apply(lambda profile: profile.id if profile else ""),
        "fargateProfileStatus": parts.profile.apply(lambda profile: profile.output("status") if profile else ""),
        "oidcProviderArn": "",
        "oidcProviderUrl": issuer,
        "oidcIssuer": issuer.apply(lambda url: url.replace("https://", "")),
        "autoModeNodeRoleName": "",
    }


def _core(parts: ClusterParts, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the output `core`, which other components of the package read."""
    nodes = {"version": args.get("version"), "nodeSecurityGroup": parts.nodes, "clusterIngressRule": parts.ingress_rule}
    values = {
        "vpcId": args["vpcId"],
        "subnetIds": parts.subnets,
        "publicSubnetIds": args.get("publicSubnetIds"),
        "privateSubnetIds": args.get("privateSubnetIds"),
        "clusterSecurityGroup": parts.group,
        "cluster": parts.cluster,
        "endpoint": parts.endpoint,
        "nodeGroupOptions": nodes,
        "kubeconfig": parts.kubeconfig,
        "provider": parts.provider,
        "vpcCni": parts.cni,
        "instanceRoles": [],
        "tags": args.get("tags"),
        "nodeSecurityGroupTags": args.get("nodeSecurityGroupTags"),
        "storageClasses": {},
        "fargateProfile": parts.profile if args.get("fargate") else None,
        "encryptionConfig": parts.encryption,
        "clusterIamRole": parts.role,
        "accessEntries": list((args.get("accessEntries") or {}).values()),
        "autoModeNodeRoleName": "",
    }
    return without_none(values)
