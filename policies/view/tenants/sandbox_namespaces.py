"""The namespaces that hold sandboxes: those of classes, and any other with a sandbox, template, pool or claim."""

from __future__ import annotations

from dataclasses import dataclass

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.resource import KubernetesObject

AGENTS = "agents.x-k8s.io"
EXTENSIONS = "extensions.agents.x-k8s.io"
CLASS_PREFIX = "sandbox-"
# Namespaces of the platform with the same prefix
NO_CLASSES = frozenset({"sandbox-schedules", "sandbox-system", "sandbox-router"})


@dataclass(frozen=True, eq=False)
class SandboxNamespace:
    """A namespace with sandboxes, and its declaration if the stack has it."""

    name: str | None  # None if it is not known yet
    field: Field  # the declaration, or the field that names the namespace
    declaration: KubernetesObject | None

    def contains(self, item: KubernetesObject, graph: Graph) -> bool | None:
        """Return whether an object is in it; None if that is not known yet."""
        namespace = item.namespace
        if isinstance(namespace.raw, str):
            return None if self.name is None else namespace.raw == self.name
        targets = graph.targets(item.resource, "metadata", "kubernetes:core/v1:Namespace")
        if self.declaration is not None and targets:
            return self.declaration.resource in targets
        return None


@once_per_graph
def sandbox_namespaces(graph: Graph) -> list[SandboxNamespace]:
    """Return the namespaces with sandboxes."""
    objects = [
        *graph.objects(AGENTS, "Sandbox"),
        *graph.objects(EXTENSIONS, "SandboxTemplate", "SandboxWarmPool", "SandboxClaim"),
    ]
    used = {item.namespace.raw for item in objects if isinstance(item.namespace.raw, str)}
    targets = {
        target.urn for item in objects for target in graph.targets(item.resource, "metadata") if item.namespace.unknown
    }
    namespaces: list[SandboxNamespace] = []
    for declaration in graph.objects("", "Namespace"):
        name = declaration.name.raw if isinstance(declaration.name.raw, str) else None
        if declaration.patch or (name in NO_CLASSES and name not in used):
            continue
        labelled = not declaration.labels.at(CLASS_LABEL).missing and declaration.labels.known
        if labelled or name in used or declaration.urn in targets or (name or "").startswith(CLASS_PREFIX):
            namespaces.append(SandboxNamespace(name, declaration.root, declaration))
    seen = {namespace.name for namespace in namespaces}
    for item in objects:
        name = item.namespace.raw if isinstance(item.namespace.raw, str) else None
        if name is not None and name not in seen:
            seen.add(name)
            namespaces.append(SandboxNamespace(name, item.namespace, None))
    return namespaces
