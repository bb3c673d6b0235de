"""Node classes, node pools and runtime classes as objects of the cluster, in an order that lets them go again.

A pool is deleted in the foreground: it is gone only when its nodes are, and they are only when they have been drained
or the grace of their termination has passed. A class waits for its pools, and the controller for its classes; so no
instance is left that nobody knows of and that would hold on to the network.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.node import v1 as node

from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.core.nodes import tiers
from agentenv.core.nodes.bootstrap import user_data
from agentenv.core.nodes.node_pools import NodeLayout, NodePool, node_classes
from agentenv.core.pinned_versions import Source

# What ending a machine takes after it has been drained: beyond it a destroy gives up with the controller still there,
# and can be run again.
MARGIN = 30 * 60
# Karpenter says at once of a class what it cannot find, such as its image, its role or its subnets: an update says it
# too, instead of ending with pools that never launch anything.
WORKING = {"pulumi.com/waitFor": "condition=Ready"}


@dataclass(frozen=True)
class LaunchContext:
    """What nodes are launched with."""

    cluster: str
    # What nodes are to AWS: a role from which Karpenter makes profiles, or where it cannot reach IAM, a profile.
    identity: Mapping[str, pulumi.Input[str]]
    key: pulumi.Input[str]
    # What builds the walls of nodes.
    runtimes: Mapping[str, Source]
    # What has to be there for as long as there are nodes: who launches and ends them, and what they need to join.
    ready: Sequence[pulumi.Resource]


def deletion_timeout(layout: NodeLayout) -> str:
    """How long a deletion of nodes is waited for: as long as they may take to drain, and then to end."""
    return f"{(layout.termination_grace + MARGIN) // 60}m"


def create_node_pools(
    layout: NodeLayout, pools: Sequence[NodePool], launch: LaunchContext, labels: Labels, child: ChildOptions
) -> dict[str, CustomResource]:
    """Make the classes and pools; returns the pools by name."""
    kinds = {
        kind.name: CustomResource(
            f"{labels.base}-{kind.name}",
            api_version="karpenter.k8s.aws/v1",
            kind="EC2NodeClass",
            metadata={"name": kind.name, "annotations": dict(WORKING)},
            spec=kind.spec(
                layout,
                cluster=launch.cluster,
                identity={**launch.identity},
                key=launch.key,
                user_data=user_data(kind.wall, launch.runtimes) if kind.wall else None,
                tags={**labels.everywhere, "sandbox-nodes": kind.name},
            ),
            opts=child(
                pulumi.ResourceOptions(
                    depends_on=list(launch.ready),
                    custom_timeouts=pulumi.CustomTimeouts(delete=deletion_timeout(layout)),
                )
            ),
        )
        for kind in node_classes(pools)
    }
    return {
        pool.name: CustomResource(
            f"{labels.base}-{pool.name}",
            api_version="karpenter.sh/v1",
            kind="NodePool",
            metadata={
                "name": pool.name,
                "annotations": {"pulumi.com/deletionPropagationPolicy": "foreground", **WORKING},
            },
            spec=pool.spec(layout),
            opts=child(
                pulumi.ResourceOptions(
                    depends_on=[kinds[pool.node_class.name]],
                    custom_timeouts=pulumi.CustomTimeouts(delete=deletion_timeout(layout)),
                )
            ),
        )
        for pool in pools
    }


def create_runtime_classes(pools: Sequence[NodePool], labels: Labels, child: ChildOptions) -> list[node.RuntimeClass]:
    """Make the runtime classes of the walls that some pool has."""
    walls = {pool.node_class.wall.word: pool.node_class.wall for pool in pools if pool.node_class.wall}
    made = [(wall, tiers.runtime_class(wall)) for wall in walls.values()]
    return [
        node.RuntimeClass(
            f"{labels.base}-{wall.word}",
            metadata=said["metadata"],
            handler=said["handler"],
            overhead={"pod_fixed": said["overhead"]["podFixed"]},
            scheduling={
                "node_selector": said["scheduling"]["nodeSelector"],
                "tolerations": said["scheduling"]["tolerations"],
            },
            opts=child(),
        )
        for wall, said in made
        if said
    ]
