"""Where somebody mends what a finding is about: a line of the stack file, else the one that made the resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentenv.cli.review.graph import Resource
from agentenv.cli.stack_yaml import Document, Place
from agentenv.core.capabilities.cluster_facts import CLASS_LABEL

PREFIX = "agent-environment:"
# Which section of a stack file a component is made from
SECTIONS: Mapping[str, str] = {
    "Network": "network",
    "AdoptedNetwork": "network",
    "Cluster": "cluster",
    "AdoptedCluster": "cluster",
    "ClusterAddons": "cluster",
    "Capacity": "capacity",
    "Storage": "storage",
    "AdoptedStorage": "storage",
    "SandboxClass": "sandboxClasses",
    "Guardrails": "sandboxClasses",
    "Workspace": "workspaces",
    "WorkspaceService": "service",
    "CostControls": "cost",
    "StorageMetering": "cost",
}
# Which setting decides over a property, by a word in its path
SETTINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("runtimeClassName", ("tier",)),
    ("image", ("image",)),
    ("replicas", ("pool",)),
    ("limits", ("resources",)),
    ("requests", ("resources",)),
    ("publicAccessCidrs", ("publicAccessCidrs",)),
    ("endpointPublicAccess", ("publicAccessCidrs",)),
    ("version", ("version",)),
    ("egress", ("capabilities",)),
)
NAMESPACE = "sandbox-"


@dataclass(frozen=True)
class Spot:
    """A line of a file of the repository."""

    file: str
    line: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def spots(resource: Resource | None, path: str, stack_file: str, document: Document) -> list[Spot]:
    """Where to look, the best place first; the stack file as a whole where nothing better is known."""
    found: list[Spot] = []
    if resource is not None and (place := _place(resource, path, document)) is not None:
        found.append(Spot(stack_file, document.line(place)))
    if resource is not None and resource.source is not None:
        found.append(Spot(resource.source.file, resource.source.line))
    return found or [Spot(stack_file)]


def _place(resource: Resource, path: str, document: Document) -> Place | None:
    """The place in the stack file that a resource is made from, where the file says anything of it."""
    config = document.value.get("config") if isinstance(document.value, dict) else None
    if not isinstance(config, dict):
        return None
    place = _entry(resource, config)
    if place is None:
        return None
    for word, below in SETTINGS:
        if word in path and (*place, *below) in document.lines:
            return (*place, *below)
    return place


def _entry(resource: Resource, config: Mapping[str, Any]) -> Place | None:
    if (name := class_of(resource)) is not None:
        place = _named(config, "sandboxClasses", name)
        if place is not None:
            return place
    component = _component(resource)
    if component is None or (section := SECTIONS.get(component[0])) is None:
        return None
    if section == "workspaces":
        return next(
            (place for word in _tails(component[1]) if (place := _named(config, section, word)) is not None), None
        )
    return ("config", PREFIX + section) if PREFIX + section in config else None


def class_of(resource: Resource) -> str | None:
    """The class that a resource is part of, as its namespace, labels or tags say."""
    inputs = resource.inputs
    metadata = inputs.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    for said in (metadata.get("labels"), inputs.get("tags")):
        if isinstance(said, Mapping) and isinstance(found := said.get(CLASS_LABEL) or said.get("sandbox-class"), str):
            return found
    namespace = metadata.get("namespace") or (metadata.get("name") if inputs.get("kind") == "Namespace" else None)
    if isinstance(namespace, str) and namespace.startswith(NAMESPACE):
        return namespace.removeprefix(NAMESPACE)
    return None


def _component(resource: Resource) -> tuple[str, str] | None:
    """The innermost component of ours that a resource is in, as its URN says: its kind, and its name if it is one."""
    kinds = resource.urn.split("::")[2].split("$") if resource.urn.count("::") >= 3 else []
    ours = [kind.rpartition(":")[2] for kind in kinds if kind.startswith("agent-environment:index:")]
    names = (resource.parent or resource.urn).rsplit("::", 1)[-1]
    return (ours[-1], names) if ours else None


def _named(config: Mapping[str, Any], section: str, name: str) -> Place | None:
    rows = config.get(PREFIX + section)
    for index, row in enumerate(rows if isinstance(rows, list) else ()):
        if isinstance(row, dict) and row.get("name") == name:
            return ("config", PREFIX + section, index)
    return None


def _tails(name: str) -> list[str]:
    """`agents-seat-ann` as `agents-seat-ann`, `seat-ann`, `ann`: components are called after what they are for."""
    parts = name.split("-")
    return ["-".join(parts[start:]) for start in range(len(parts))]
