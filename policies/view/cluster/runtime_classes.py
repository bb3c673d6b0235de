"""What stands between a pod and its node: its RuntimeClass, looked up in the stack or known by its name."""

from __future__ import annotations

from typing import Final

from agentenv.policies.view.cluster.pods import PodSpec
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.resource import KubernetesObject
from agentenv.policies.view.tenants.tenants import STRENGTH

# How strong a handler of the container runtime is: containers on the node's kernel, a kernel in user space, or a
# machine of their own. Prefixes, since installers add what hypervisor it is with.
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
# EKS has this one itself where Nitro sandboxes are on (EKS documents).
OF_EKS: Final = frozenset({"isolated-sandbox"})


def strength(graph: Graph, pod: PodSpec) -> int | None:
    """How strong a pod's wall is, as tiers are; None where that is not known."""
    name = pod.at("runtimeClassName")
    if name.missing or name.raw == "":
        return STRENGTH["verified"]
    if not isinstance(name.raw, str):
        return None
    found = runtime_classes(graph).get(name.raw)
    return of_handler(name.raw if found is None else found.at("handler").raw)


def of_handler(handler: object) -> int | None:
    """How strong a handler is, by what it begins with."""
    if not isinstance(handler, str):
        return None
    return next((strong for begin, strong in HANDLERS.items() if handler.startswith(begin)), None)


@once_per_graph
def runtime_classes(graph: Graph) -> dict[str, KubernetesObject]:
    """The RuntimeClasses of the stack, by name."""
    found = [thing for thing in graph.objects("node.k8s.io", "RuntimeClass") if not thing.patch]
    return {thing.name.raw: thing for thing in found if isinstance(thing.name.raw, str)}


def unnamed(graph: Graph) -> Field | None:
    """A RuntimeClass whose name is not known: it may be any."""
    things = graph.objects("node.k8s.io", "RuntimeClass")
    return next((thing.name for thing in things if not isinstance(thing.name.raw, str)), None)
