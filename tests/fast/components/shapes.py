"""Arguments that tests begin from, and change in what they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pulumi

    from agentenv.components.cluster.cluster import Cluster
    from agentenv.components.network.network import Network
    from agentenv.components.storage.storage import Storage

OWNERSHIP: dict[str, Any] = {"environment": "dev", "owner": "platform", "cost_center": "cc-1"}


def network(
    name: str = "net", opts: pulumi.ResourceOptions | None = None, *, cluster_name: str | None = None, **layout: Any
) -> Network:
    """A network of two zones, less what is given."""
    from agentenv.components.network.network import Network

    given: dict[str, Any] = {"cidr": "10.40.0.0/16", "zones": 2, "nat": "single", **layout}
    args: Any = {"ownership": OWNERSHIP, "layout": {key: value for key, value in given.items() if value is not None}}
    if cluster_name:
        args["cluster_name"] = cluster_name
    return Network(name, args, opts)


def storage(
    name: str = "files",
    opts: pulumi.ResourceOptions | None = None,
    *,
    more: dict[str, Any] | None = None,
    **layout: Any,
) -> Storage:
    """A storage in two subnets, less what is given; `more` are arguments beside the layout."""
    from agentenv.components.storage.storage import Storage

    args: Any = {
        "ownership": OWNERSHIP,
        "layout": layout,
        "vpc_id": "vpc-1",
        "subnet_ids": ["subnet-a", "subnet-b"],
        "nodes_security_group_id": "sg-nodes",
        **(more or {}),
    }
    return Storage(name, args, opts)


def cluster(
    name: str = "eks",
    opts: pulumi.ResourceOptions | None = None,
    *,
    more: dict[str, Any] | None = None,
    **layout: Any,
) -> Cluster:
    """A cluster in two subnets, less what is given; `more` are arguments beside the layout."""
    from agentenv.components.cluster.cluster import Cluster

    args: Any = {
        "ownership": OWNERSHIP,
        "name": "dev-agents",
        "layout": {"version": "1.35", **layout},
        "vpc_id": "vpc-1",
        "subnet_ids": ["subnet-a", "subnet-b"],
        "nodes_security_group_id": "sg-nodes",
        "logs_key_arn": "arn:aws:kms:eu-west-1:123456789012:key/logs",
        **(more or {}),
    }
    return Cluster(name, args, opts)
