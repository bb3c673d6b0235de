"""Components that run on the cluster: nodes, and the add-ons that need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pulumi

from agentenv.components.capacity.capacity import Capacity
from agentenv.components.cluster.cluster_addons import ClusterAddons
from agentenv.components.cluster.context import ClusterContext
from agentenv.components.cluster.irsa import Issuer
from agentenv.core.nodes.mirrors import Mirrors
from agentenv.core.nodes.node_pools import Demand, node_pools
from tests.fast.components.shapes import planned

STANDARD = Demand("standard", "kata", "spot")


def on_cluster() -> ClusterContext:
    """A cluster that nodes join."""
    url = "https://oidc.eks.eu-west-1.amazonaws.com/id/ABC"
    issuer = f"arn:aws:iam::123456789012:oidc-provider/{url.removeprefix('https://')}"
    output = pulumi.Output.from_input
    issuer_ = Issuer(output(issuer), output(url))
    return ClusterContext("dev-agents", "https://dev-agents.example", issuer_, karpenter_profile="controllers")


def capacity(
    name: str = "nodes",
    opts: pulumi.ResourceOptions | None = None,
    *,
    demands: Sequence[Demand] = (STANDARD,),
    mirrors: Mirrors | None = None,
    isolated: bool = False,
    runtime_bucket: bool = False,
    **settings: Any,
) -> Capacity:
    """Capacity for one class of sandboxes; the settings are those of a stack file."""
    plan_ = planned({"capacity": settings}).capacity
    pools = tuple(node_pools(plan_.settings, demands))
    plan_ = replace(plan_, pools=pools, mirrors=mirrors or Mirrors(), isolated=isolated, runtime_bucket=runtime_bucket)
    return Capacity(name, plan_, on_cluster(), opts)


def cluster_addons(
    name: str = "addons",
    opts: pulumi.ResourceOptions | None = None,
    *,
    file_system_arns: pulumi.Input[Sequence[pulumi.Input[str]]] = (
        "arn:aws:elasticfilesystem:eu-west-1:123456789012:file-system/fs-1",
    ),
    efs_node_role_arn: pulumi.Input[str] = "arn:aws:iam::123456789012:role/efs-node",
    sections: Mapping[str, Any] | None = None,
) -> ClusterAddons:
    """The add-ons on nodes."""
    return ClusterAddons(name, planned(sections).cluster, file_system_arns, efs_node_role_arn, opts)
