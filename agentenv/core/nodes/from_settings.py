"""From settings to nodes: what a stack file says of them, as the layout and demands that pools are made from."""

from __future__ import annotations

from agentenv.config.sections.capacity import Capacity
from agentenv.config.settings import Settings
from agentenv.core.nodes.node_pools import Demand, NodeLayout
from agentenv.core.pinned_versions import releases


def node_layout(capacity: Capacity) -> NodeLayout:
    """How nodes are to be."""
    return NodeLayout(
        families=capacity.families,
        nested_families=capacity.nested_families,
        gpu_families=capacity.gpu.families,
        system_families=capacity.system.families,
        system_capacity=capacity.system.capacity,
        cpu_limit=str(capacity.limits.cpu),
        memory_limit=str(capacity.limits.memory),
        system_cpu_limit=str(capacity.system.limits.cpu),
        system_memory_limit=str(capacity.system.limits.memory),
        gpu_limit=capacity.gpu.limit,
        pods_per_node=capacity.pods_per_node,
        root_volume=str(capacity.root_volume),
        image=capacity.ami or releases().node_image,
        consolidate_after=int(capacity.consolidate_after.total_seconds()),
        expire_after=int(capacity.expire_after.total_seconds()),
        termination_grace=int(capacity.termination_grace.total_seconds()),
        disruption_budget=capacity.disruption_budget,
        drift_budget=capacity.drift_budget,
    )


def demands(settings: Settings) -> list[Demand]:
    """What the classes that run on nodes ask for."""
    return [
        Demand(one.tier, one.kernel, one.capacity, one.gpu > 0)
        for one in settings.sandbox_classes
        if one.compute == "karpenter"
    ]
