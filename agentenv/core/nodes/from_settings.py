"""Convert settings into the node layout and the demands that node pools are created from."""

from __future__ import annotations

from agentenv.config.sections.capacity import Capacity
from agentenv.config.settings import Settings
from agentenv.core.nodes.node_pools import Demand, NodeLayout
from agentenv.core.pinned_versions import releases


def node_layout(capacity: Capacity) -> NodeLayout:
    """Return the node layout of the capacity settings."""
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
    """Return the demands of the classes that run on nodes."""
    return [
        Demand(sandbox_class.tier, sandbox_class.kernel, sandbox_class.capacity, sandbox_class.gpu > 0)
        for sandbox_class in settings.sandbox_classes
        if sandbox_class.compute == "karpenter"
    ]
