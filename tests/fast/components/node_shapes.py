"""Arguments for what runs on the cluster: nodes, and the add-ons that need them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tests.fast.components.shapes import OWNERSHIP

if TYPE_CHECKING:
    import pulumi

    from agentenv.components.capacity.capacity import Capacity
    from agentenv.components.cluster.cluster_addons import ClusterAddons


def capacity(name: str = "nodes", opts: pulumi.ResourceOptions | None = None, **given: Any) -> Capacity:
    """Capacity as the settings have it unless told, for one class of sandboxes, less what is given as None."""
    from agentenv.components.capacity.capacity import Capacity
    from agentenv.config.sections.capacity import Capacity as Settings
    from agentenv.core.nodes.from_settings import node_layout

    layout = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(node_layout(Settings())).items()
    }
    args: Any = {
        "ownership": OWNERSHIP,
        "cluster_name": "dev-agents",
        "cluster_endpoint": "https://dev-agents.example",
        "issuer_url": "https://oidc.eks.eu-west-1.amazonaws.com/id/ABC",
        "issuer_arn": "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/ABC",
        "demands": [{"tier": "standard", "capacity": "spot"}],
        **given,
        "layout": {**layout, **given.get("layout", {})},
    }
    chosen: Any = {key: value for key, value in args.items() if value is not None}
    return Capacity(name, chosen, opts)


def cluster_addons(name: str = "addons", opts: pulumi.ResourceOptions | None = None, **given: Any) -> ClusterAddons:
    """The add-ons on nodes."""
    from agentenv.components.cluster.cluster_addons import ClusterAddons

    args: Any = {
        "ownership": OWNERSHIP,
        "cluster_name": "dev-agents",
        "version": "1.35",
        "file_system_arns": ["arn:aws:elasticfilesystem:eu-west-1:123456789012:file-system/fs-1"],
        "efs_node_role_arn": "arn:aws:iam::123456789012:role/efs-node",
        **given,
    }
    return ClusterAddons(name, args, opts)
