"""Namespaces of the stack, their labels, and which of them hold sandboxes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.capabilities.sets.pods import NAMESPACE_NAME
from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown
from agentenv.policies.view.cluster.pods import TEMPLATE_PATHS
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.resource import KubernetesObject

NAMESPACE_TYPES: Final = ("kubernetes:core/v1:Namespace", "kubernetes:core/v1:NamespacePatch")
SANDBOXES, EXTENSIONS = "agents.x-k8s.io", "extensions.agents.x-k8s.io"
PREFIX = "sandbox-"
# Namespaces of the platform, which never hold sandboxes.
SYSTEM: Final = frozenset(
    {
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "agent-sandbox-system",
        "karpenter",
        "aws-observability",
        "sandbox-schedules",
        "sandbox-system",
        "sandbox-router",
    }
)
Labels = Mapping[str, str | Unknown] | Unknown


@dataclass
class Namespace:
    """A namespace: its declaration if the stack creates it, and whether it has sandboxes and other pods."""

    name: str
    declaration: KubernetesObject | None = None
    has_sandboxes: bool = False
    has_pods: bool = False
    labels: Labels = field(default_factory=dict[str, "str | Unknown"])

    @property
    def has_tenants(self) -> bool:
        """Return whether its pods are sandboxes: by its objects, its label or its name."""
        if self.has_sandboxes:
            return True
        if self.name in SYSTEM:
            return False
        labelled = self.declaration is not None and self.labels is not UNKNOWN and CLASS_LABEL in self.labels
        return labelled or self.name.startswith(PREFIX)

    @property
    def is_platform(self) -> bool:
        """Return whether it certainly has no sandboxes: it is well known, or the stack uses it for something else."""
        return not self.has_tenants and (self.name in SYSTEM or self.declaration is not None or self.has_pods)


def namespace_of(graph: Graph, item: KubernetesObject) -> str | Unknown:
    """Return the namespace of an object: its name, or the URN of its resource if the name is not known yet."""
    name = item.namespace.raw
    if isinstance(name, str):
        return name
    targets = graph.targets(item.resource, "metadata", *NAMESPACE_TYPES)
    return _name_or_urn(targets[0].objects[0]) if len(targets) == 1 else UNKNOWN


@once_per_graph
def namespaces(graph: Graph) -> dict[str, Namespace]:
    """Return the namespaces of all objects of the stack, by name."""
    by_name: dict[str, Namespace] = {}
    for declaration in graph.objects("", "Namespace"):
        name = _name_or_urn(declaration)
        by_name[name] = Namespace(name, declaration, labels=labels_of(declaration.labels, {NAMESPACE_NAME: name}))
    for item in _sandboxes_and_pods(graph):
        name = namespace_of(graph, item)
        if name is UNKNOWN:
            continue
        namespace = by_name.setdefault(name, Namespace(name, labels={NAMESPACE_NAME: name}))
        namespace.has_sandboxes = namespace.has_sandboxes or item.group in {SANDBOXES, EXTENSIONS}
        namespace.has_pods = namespace.has_pods or item.kind in TEMPLATE_PATHS
    return by_name


def find_namespace(graph: Graph, name: str | Unknown) -> Namespace | None:
    """Return a namespace by its name, even if the stack has no objects in it; None if the name is not known."""
    return None if name is UNKNOWN else namespaces(graph).get(name) or Namespace(name, labels={NAMESPACE_NAME: name})


def labels_of(field: Field, more: Mapping[str, str | Unknown] | None = None) -> Labels:
    """Return the labels in a field; each value may be unknown."""
    if field.unknown:
        return UNKNOWN
    return {**(more or {}), **dict(_labels(field))}


def _labels(field: Field) -> Iterator[tuple[str, str | Unknown]]:
    for key, value in field.entries():
        yield key, value.raw if isinstance(value.raw, str) else UNKNOWN


def _sandboxes_and_pods(graph: Graph) -> Iterator[KubernetesObject]:
    for group, kinds in (
        (SANDBOXES, ("Sandbox",)),
        (EXTENSIONS, ("SandboxTemplate", "SandboxWarmPool", "SandboxClaim")),
    ):
        yield from graph.objects(group, *kinds)
    yield from (pod.owner for pod in graph.pods)


def _name_or_urn(item: KubernetesObject) -> str:
    return item.name.raw if isinstance(item.name.raw, str) else item.urn
