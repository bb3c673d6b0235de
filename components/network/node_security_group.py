"""The security group of an environment's nodes: closed, until other components add what they need."""

import pulumi
from pulumi_aws import ec2

from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.core.nodes.node_pools import DISCOVERY_TAG


def create_nodes_security_group(
    labels: Labels, child: ChildOptions, vpc_id: pulumi.Input[str], cluster: str | None
) -> ec2.SecurityGroup:
    """Make the group; Karpenter finds it by the cluster's name in its tags."""
    # The tag kubernetes.io/cluster/… is not for this group: EKS puts it on the cluster's own, and load balancer
    # controllers refuse an interface that somebody gives two groups with it.
    found: dict[str, pulumi.Input[str]] = {DISCOVERY_TAG: cluster} if cluster else {}
    return ec2.SecurityGroup(
        f"{labels.base}-nodes",
        name=labels.name("security-group", "nodes"),
        description="Nodes of the environment",
        vpc_id=vpc_id,
        tags=labels.tags("nodes", **found),
        opts=child(),
    )
