"""The namespaces that hold sandboxes: a class's own, and any other in which one of the sandbox kinds stands."""

from __future__ import annotations

from dataclasses import dataclass

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.resource import KubernetesObject

AGENTS = "agents.x-k8s.io"
EXTENSIONS = "extensions.agents.x-k8s.io"
CLASS_PREFIX = "sandbox-"
# What the platform keeps beside the classes, under a name that begins like theirs
NO_CLASSES = frozenset({"sandbox-schedules", "sandbox-system", "sandbox-router"})


@dataclass(frozen=True, eq=False)
class Room:
    """A namespace with sandboxes. `space` is the Namespace itself, where the stack has it."""

    name: str | None  # None where it is not known yet
    field: Field  # what says that there is such a namespace
    space: KubernetesObject | None

    def holds(self, thing: KubernetesObject, graph: Graph) -> bool | None:
        """Whether an object is in it; None where nobody can say yet."""
        namespace = thing.namespace
        if isinstance(namespace.raw, str):
            return None if self.name is None else namespace.raw == self.name
        named = graph.targets(thing.resource, "metadata", "kubernetes:core/v1:Namespace")
        if self.space is not None and named:
            return self.space.resource in named
        return None


@once_per_graph
def rooms_of(graph: Graph) -> tuple[Room, ...]:
    """All of them, made once for a graph."""
    return tuple(_rooms(graph))


def sandbox_things(graph: Graph) -> list[KubernetesObject]:
    """Whatever makes sandboxes: they themselves, templates, pools and claims."""
    return [
        *graph.objects(AGENTS, "Sandbox"),
        *graph.objects(EXTENSIONS, "SandboxTemplate", "SandboxWarmPool", "SandboxClaim"),
    ]


def in_a_room(thing: KubernetesObject, graph: Graph) -> bool | None:
    """Whether an object stands among sandboxes; None where that is not known yet."""
    answers = [room.holds(thing, graph) for room in rooms_of(graph)]
    return True if True in answers else None if None in answers else False


def _rooms(graph: Graph) -> list[Room]:
    spaces = [one for one in graph.objects("", "Namespace") if not one.patch]
    things = sandbox_things(graph)
    holding = {thing.namespace.raw for thing in things if isinstance(thing.namespace.raw, str)}
    pointed = {
        target.urn
        for thing in things
        for target in graph.targets(thing.resource, "metadata")
        if thing.namespace.unknown
    }
    found: list[Room] = []
    for space in spaces:
        name = space.name.raw if isinstance(space.name.raw, str) else None
        if name in NO_CLASSES and name not in holding:
            continue
        labelled = not space.labels.at(CLASS_LABEL).missing and space.labels.known
        if labelled or name in holding or space.urn in pointed or (name or "").startswith(CLASS_PREFIX):
            found.append(Room(name, space.root, space))
    seen = {room.name for room in found}
    for thing in things:
        name = thing.namespace.raw if isinstance(thing.namespace.raw, str) else None
        if name is not None and name not in seen:
            seen.add(name)
            found.append(Room(name, thing.namespace, None))
    return found
