"""Node classes, node pools and runtime classes, in an order that deletes them without leaving instances behind.

A node pool is deleted in the foreground: it is gone once its nodes are drained, or their termination grace period has
passed. A node class is deleted after its pools, and the controller after its node classes. So no instance is left that
Karpenter no longer knows and that would block the deletion of the network.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.node import v1 as node

from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.config.sections.capacity import Capacity
from agentenv.core.nodes import tiers
from agentenv.core.nodes.bootstrap import user_data
from agentenv.core.nodes.node_pools import NodePool, node_classes
from agentenv.core.pinned_versions import Runtime

# The time to terminate an instance after it is drained. A destroy that takes longer fails while the controller still
# exists, and can be run again.
TERMINATION_MARGIN = timedelta(minutes=30)
# Karpenter reports on a node class what it cannot resolve, such as its image, role or subnets. Awaiting the condition
# makes the update fail too, instead of leaving pools that never launch a node.
WAIT_FOR_READY = {"pulumi.com/waitFor": "condition=Ready"}


@dataclass(frozen=True)
class LaunchContext:
    """The values that node classes are created with."""

    cluster: str
    # The `role` from which Karpenter creates instance profiles, or an `instanceProfile` where it cannot reach IAM.
    identity: Mapping[str, pulumi.Input[str]]
    key: pulumi.Input[str]
    # The sandbox runtimes that nodes install.
    runtimes: pulumi.Output[dict[str, Runtime]]
    # Must exist as long as there are nodes: the controller, and what nodes need to join the cluster.
    ready: Sequence[pulumi.Resource]


def deletion_timeout(settings: Capacity) -> str:
    """Return the timeout for deleting nodes: their termination grace period and the time to terminate."""
    return f"{(settings.termination_grace + TERMINATION_MARGIN) // timedelta(minutes=1)}m"


def create_node_pools(
    settings: Capacity, pools: Sequence[NodePool], launch: LaunchContext, labels: Labels, child: ChildOptions
) -> dict[str, CustomResource]:
    """Create the node classes and node pools; return the pools by name."""
    node_class_objects = {
        node_class.name: CustomResource(
            f"{labels.base}-{node_class.name}",
            api_version="karpenter.k8s.aws/v1",
            kind="EC2NodeClass",
            metadata={"name": node_class.name, "annotations": dict(WAIT_FOR_READY)},
            spec=node_class.spec(
                settings,
                cluster=launch.cluster,
                identity={**launch.identity},
                key=launch.key,
                user_data=launch.runtimes.apply(partial(user_data, node_class.wall)),
                tags={**labels.everywhere, "sandbox-nodes": node_class.name},
            ),
            opts=child(
                pulumi.ResourceOptions(
                    depends_on=list(launch.ready),
                    custom_timeouts=pulumi.CustomTimeouts(delete=deletion_timeout(settings)),
                )
            ),
        )
        for node_class in node_classes(pools)
    }
    return {
        pool.name: CustomResource(
            f"{labels.base}-{pool.name}",
            api_version="karpenter.sh/v1",
            kind="NodePool",
            metadata={
                "name": pool.name,
                "annotations": {"pulumi.com/deletionPropagationPolicy": "foreground", **WAIT_FOR_READY},
            },
            spec=pool.spec(settings),
            opts=child(
                pulumi.ResourceOptions(
                    depends_on=[node_class_objects[pool.node_class.name]],
                    custom_timeouts=pulumi.CustomTimeouts(delete=deletion_timeout(settings)),
                )
            ),
        )
        for pool in pools
    }


def create_runtime_classes(pools: Sequence[NodePool], labels: Labels, child: ChildOptions) -> list[node.RuntimeClass]:
    """Create the runtime classes of the sandbox runtimes in use."""
    walls = {pool.node_class.wall.word: pool.node_class.wall for pool in pools if pool.node_class.wall}
    runtime_classes = [(wall, tiers.runtime_class(wall)) for wall in walls.values()]
    return [
        node.RuntimeClass(
            f"{labels.base}-{wall.word}",
            metadata=manifest["metadata"],
            handler=manifest["handler"],
            overhead={"pod_fixed": manifest["overhead"]["podFixed"]},
            scheduling={
                "node_selector": manifest["scheduling"]["nodeSelector"],
                "tolerations": manifest["scheduling"]["tolerations"],
            },
            opts=child(),
        )
        for wall, manifest in runtime_classes
        if manifest
    ]
