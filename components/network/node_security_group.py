"""The security group of an environment's nodes; other components add the rules that they need."""

import pulumi
from pulumi_aws import ec2

from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.core.nodes.node_pools import DISCOVERY_TAG


def create_nodes_security_group(
    labels: Labels, child: ChildOptions, vpc_id: pulumi.Input[str], cluster: str
) -> ec2.SecurityGroup:
    """Create the security group; Karpenter discovers it by a tag with the cluster's name."""
    # No tag kubernetes.io/cluster/… here: EKS sets it on the cluster security group, and load balancer controllers
    # reject a network interface with two groups that carry it.
    return ec2.SecurityGroup(
        f"{labels.base}-nodes",
        name=labels.name("security-group", "nodes"),
        description="Nodes of the environment",
        vpc_id=vpc_id,
        tags=labels.tags("nodes", **{DISCOVERY_TAG: cluster}),
        opts=child(),
    )
