"""RuntimeClasses of the stack, and how strongly they isolate a pod from its node."""

from __future__ import annotations

from typing import Final

from agentenv.policies.view.cluster.pods import PodSpec
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.resource import KubernetesObject
from agentenv.policies.view.tenants.tenants import TIER_STRENGTH

# The isolation of each handler: containers on the node's kernel (0), a kernel in user space (1), or a virtual machine
# (2). The keys are prefixes, because installers append the hypervisor.
HANDLERS: Final = {
    "runc": 0,
    "crun": 0,
    "youki": 0,
    "nvidia": 0,
    "runsc": 1,
    "gvisor": 1,
    "kata": 2,
    "isolated-sandbox": 2,
    "firecracker": 2,
}
# EKS creates this class if Nitro sandboxes are enabled (EKS documents).
EKS_RUNTIME_CLASSES: Final = frozenset({"isolated-sandbox"})


def isolation_strength(graph: Graph, pod: PodSpec) -> int | None:
    """Return how strongly a pod is isolated, comparable to `TIER_STRENGTH`; None if that is not known."""
    name = pod.at("runtimeClassName")
    if name.missing or name.raw == "":
        return TIER_STRENGTH["verified"]
    if not isinstance(name.raw, str):
        return None
    runtime_class = runtime_classes(graph).get(name.raw)
    return handler_strength(name.raw if runtime_class is None else runtime_class.at("handler").raw)


def handler_strength(handler: object) -> int | None:
    """Return the isolation of a handler, by its prefix."""
    if not isinstance(handler, str):
        return None
    return next((strength for prefix, strength in HANDLERS.items() if handler.startswith(prefix)), None)


@once_per_graph
def runtime_classes(graph: Graph) -> dict[str, KubernetesObject]:
    """Return the RuntimeClasses of the stack, by name."""
    classes = [item for item in graph.objects("node.k8s.io", "RuntimeClass") if not item.patch]
    return {item.name.raw: item for item in classes if isinstance(item.name.raw, str)}


def unnamed_runtime_class(graph: Graph) -> Field | None:
    """Return the name field of a RuntimeClass whose name is not known; None if there is none."""
    classes = graph.objects("node.k8s.io", "RuntimeClass")
    return next((item.name for item in classes if not isinstance(item.name.raw, str)), None)
