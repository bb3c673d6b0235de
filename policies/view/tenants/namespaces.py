"""Namespaces: which are there, what their labels say, and which of them sandboxes live in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.capabilities.sets.pods import NAMESPACE_NAME
from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown
from agentenv.policies.view.cluster.pods import PLACES
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.resource import KubernetesObject

NAMESPACE_TYPES: Final = ("kubernetes:core/v1:Namespace", "kubernetes:core/v1:NamespacePatch")
SANDBOXES, EXTENSIONS = "agents.x-k8s.io", "extensions.agents.x-k8s.io"
PREFIX = "sandbox-"
# Where the platform's own work runs, whatever the stack says of it.
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
class Space:
    """One namespace: its own object where the stack makes it, and whether sandboxes live in it."""

    name: str
    made_by: KubernetesObject | None = None
    sandboxes: bool = False
    pods: bool = False
    labels: Labels = field(default_factory=dict[str, "str | Unknown"])

    @property
    def tenants(self) -> bool:
        """Whether what runs in it is somebody's sandbox: by its label, by what stands in it, or else by its name."""
        if self.sandboxes:
            return True
        if self.name in SYSTEM:
            return False
        labelled = self.made_by is not None and self.labels is not UNKNOWN and CLASS_LABEL in self.labels
        return labelled or self.name.startswith(PREFIX)

    @property
    def platform(self) -> bool:
        """Whether it surely is none of theirs: a well-known one, or one that the stack makes for something else."""
        return not self.tenants and (self.name in SYSTEM or self.made_by is not None or self.pods)


def place_of(graph: Graph, thing: KubernetesObject) -> str | Unknown:
    """The namespace an object stands in; one that has no name yet goes by its resource."""
    given = thing.namespace.raw
    if isinstance(given, str):
        return given
    targets = graph.targets(thing.resource, "metadata", *NAMESPACE_TYPES)
    return _title(targets[0].objects[0]) if len(targets) == 1 else UNKNOWN


@once_per_graph
def spaces(graph: Graph) -> dict[str, Space]:
    """The namespaces that anything of the stack stands in, by name."""
    found: dict[str, Space] = {}
    for thing in graph.objects("", "Namespace"):
        name = _title(thing)
        found[name] = Space(name, thing, labels=labels_of(thing.labels, {NAMESPACE_NAME: name}))
    for thing in _standing(graph):
        name = place_of(graph, thing)
        if name is UNKNOWN:
            continue
        one = found.setdefault(name, Space(name, labels={NAMESPACE_NAME: name}))
        one.sandboxes = one.sandboxes or thing.group in {SANDBOXES, EXTENSIONS}
        one.pods = one.pods or thing.kind in PLACES
    return found


def space_of(graph: Graph, name: str | Unknown) -> Space | None:
    """A namespace by its name, also one that nothing of the stack stands in."""
    return None if name is UNKNOWN else spaces(graph).get(name) or Space(name, labels={NAMESPACE_NAME: name})


def labels_of(given: Field, more: Mapping[str, str | Unknown] | None = None) -> Labels:
    """The labels in a field, each known or not."""
    if given.unknown:
        return UNKNOWN
    return {**(more or {}), **dict(_labels(given))}


def _labels(given: Field) -> Iterator[tuple[str, str | Unknown]]:
    for key, value in given.entries():
        yield key, value.raw if isinstance(value.raw, str) else UNKNOWN


def _standing(graph: Graph) -> Iterator[KubernetesObject]:
    for group, kinds in (
        (SANDBOXES, ("Sandbox",)),
        (EXTENSIONS, ("SandboxTemplate", "SandboxWarmPool", "SandboxClaim")),
    ):
        yield from graph.objects(group, *kinds)
    yield from (pod.owner for pod in graph.pods)


def _title(thing: KubernetesObject) -> str:
    return thing.name.raw if isinstance(thing.name.raw, str) else thing.urn
