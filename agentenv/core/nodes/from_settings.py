"""The demands of sandbox classes, which node pools are created from."""

from __future__ import annotations

from agentenv.config.settings import Settings
from agentenv.core.nodes.node_pools import Demand


def demands(settings: Settings) -> list[Demand]:
    """Return the demands of the classes that run on nodes."""
    return [
        Demand(sandbox_class.tier, sandbox_class.kernel, sandbox_class.capacity, sandbox_class.gpu > 0)
        for sandbox_class in settings.sandbox_classes
        if sandbox_class.compute == "karpenter"
    ]
