"""The security groups that the component makes unless told not to: one for the cluster, one for nodes."""

from __future__ import annotations

from typing import Any, Final

import pulumi

from agentenv.rehearsal.providers.eks.children import Child, Maker

_GROUP: Final = "aws:ec2/securityGroup:SecurityGroup"
_RULE: Final = "aws:ec2/securityGroupRule:SecurityGroupRule"
_DESCRIPTION: Final = "Managed by Pulumi"  # what the official SDK says where the program says nothing
_EVERYTHING: Final = {"fromPort": 0, "toPort": 0, "protocol": "-1"}
_TO_EVERYWHERE: Final = {
    "description": "Allow internet access.",
    "type": "egress",
    "cidrBlocks": ["0.0.0.0/0"],
    **_EVERYTHING,
}


def cluster_group(maker: Maker, name: str, vpc: Any, tags: Any) -> Child:
    """The cluster's group, open to the outside in one direction."""
    group = _group(maker, f"{name}-eksClusterSecurityGroup", vpc, tags)
    maker.child(_RULE, f"{name}-eksClusterInternetEgressRule", {**_TO_EVERYWHERE, "securityGroupId": group.id})
    return group


def node_group(maker: Maker, name: str, vpc: Any, tags: Any, cluster_group: pulumi.Input[str]) -> tuple[Child, Child]:
    """The nodes' group with its rules; and the rule of the cluster's group that lets nodes in."""
    group = _group(maker, f"{name}-nodeSecurityGroup", vpc, tags)

    def rule(suffix: str, inputs: dict[str, Any], outputs: tuple[str, ...] = ()) -> Child:
        return maker.child(_RULE, f"{name}-{suffix}", {"securityGroupId": group.id, **inputs}, outputs)

    rule(
        "eksNodeIngressRule",
        {"description": "Allow nodes to communicate with each other", "type": "ingress", "self": True, **_EVERYTHING},
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
    rule("eksNodeInternetEgressRule", _TO_EVERYWHERE)
    entrance = rule(
        "eksClusterIngressRule",
        {
            "description": "Allow pods to communicate with the cluster API Server",
            "securityGroupId": cluster_group,
            "sourceSecurityGroupId": group.id,
            **https,
        },
        ("securityGroupRuleId",),
    )
    return group, entrance


def node_tags(name: str, cluster: Any, *tags: Any) -> pulumi.Output[dict[str, str]]:
    """The tags of the nodes' group, by which the cluster's controllers know it."""

    def merged(known: list[Any]) -> dict[str, str]:
        whose, *rest = known
        found = {"Name": f"{name}-nodeSecurityGroup", f"kubernetes.io/cluster/{whose}": "owned"}
        for one in rest:
            found.update(one or {})
        return found

    return pulumi.Output.all(cluster, *tags).apply(merged)


def _group(maker: Maker, name: str, vpc: Any, tags: Any) -> Child:
    return maker.child(
        _GROUP, name, {"vpcId": vpc, "revokeRulesOnDelete": True, "tags": tags, "description": _DESCRIPTION}
    )
