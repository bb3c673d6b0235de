"""The default security groups of the component: one for the cluster, one for the nodes."""

from __future__ import annotations

from typing import Any, Final

import pulumi

from agentenv.rehearsal.providers.eks.children import Child, ChildFactory

_GROUP: Final = "aws:ec2/securityGroup:SecurityGroup"
_RULE: Final = "aws:ec2/securityGroupRule:SecurityGroupRule"
_DESCRIPTION: Final = "Managed by Pulumi"  # the official SDK's default
_ALL_TRAFFIC: Final = {"fromPort": 0, "toPort": 0, "protocol": "-1"}
_INTERNET_EGRESS: Final = {
    "description": "Allow internet access.",
    "type": "egress",
    "cidrBlocks": ["0.0.0.0/0"],
    **_ALL_TRAFFIC,
}


def cluster_group(factory: ChildFactory, name: str, vpc: Any, tags: Any) -> Child:
    """Register the group of the cluster, with a rule for egress to the internet."""
    group = _group(factory, f"{name}-eksClusterSecurityGroup", vpc, tags)
    factory.child(_RULE, f"{name}-eksClusterInternetEgressRule", {**_INTERNET_EGRESS, "securityGroupId": group.id})
    return group


def node_group(
    factory: ChildFactory, name: str, vpc: Any, tags: Any, cluster_group: pulumi.Input[str]
) -> tuple[Child, Child]:
    """Register the group of the nodes with its rules. Return it and the cluster's ingress rule for nodes."""
    group = _group(factory, f"{name}-nodeSecurityGroup", vpc, tags)

    def rule(suffix: str, inputs: dict[str, Any], outputs: tuple[str, ...] = ()) -> Child:
        return factory.child(_RULE, f"{name}-{suffix}", {"securityGroupId": group.id, **inputs}, outputs)

    rule(
        "eksNodeIngressRule",
        {"description": "Allow nodes to communicate with each other", "type": "ingress", "self": True, **_ALL_TRAFFIC},
    )
    rule(
        "eksNodeClusterIngressRule",
        {
            "description": "Allow worker Kubelets and pods to receive communication from the cluster control plane",
            "type": "ingress",
            "fromPort": 1025,
            "toPort": 65535,
            "protocol": "tcp",
            "sourceSecurityGroupId": cluster_group,
        },
    )
    https: dict[str, Any] = {"type": "ingress", "fromPort": 443, "toPort": 443, "protocol": "tcp"}
    rule(
        "eksExtApiServerClusterIngressRule",
        {
            "description": "Allow pods running extension API servers on port 443 to receive communication from cluster "
            "control plane",
            "sourceSecurityGroupId": cluster_group,
            **https,
        },
    )
    rule("eksNodeInternetEgressRule", _INTERNET_EGRESS)
    ingress_rule = rule(
        "eksClusterIngressRule",
        {
            "description": "Allow pods to communicate with the cluster API Server",
            "securityGroupId": cluster_group,
            "sourceSecurityGroupId": group.id,
            **https,
        },
        ("securityGroupRuleId",),
    )
    return group, ingress_rule


def node_tags(name: str, cluster: Any, *tags: Any) -> pulumi.Output[dict[str, str]]:
    """Return the tags of the nodes' group, by which controllers find it."""

    def merged(known: list[Any]) -> dict[str, str]:
        cluster_name, *rest = known
        merged_tags = {"Name": f"{name}-nodeSecurityGroup", f"kubernetes.io/cluster/{cluster_name}": "owned"}
        for more in rest:
            merged_tags.update(more or {})
        return merged_tags

    return pulumi.Output.all(cluster, *tags).apply(merged)


def _group(factory: ChildFactory, name: str, vpc: Any, tags: Any) -> Child:
    return factory.child(
        _GROUP, name, {"vpcId": vpc, "revokeRulesOnDelete": True, "tags": tags, "description": _DESCRIPTION}
    )
