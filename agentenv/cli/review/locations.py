"""Find where to fix a finding: a line of the stack file, or the line that registered the resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentenv.cli.review.graph import Resource
from agentenv.cli.stack_yaml import Document, Place
from agentenv.core.capabilities.cluster_facts import CLASS_LABEL

PREFIX = "agent-environment:"
# The section of the stack file for each component
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
# The setting for a property, by a word in its path
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
class Location:
    """A line of a file in the repository."""

    file: str
    line: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def locations(resource: Resource | None, path: str, stack_file: str, document: Document) -> list[Location]:
    """Return the locations to fix, the best first, with the whole stack file as the fallback."""
    result: list[Location] = []
    if resource is not None and (place := _settings_place(resource, path, document)) is not None:
        result.append(Location(stack_file, document.line(place)))
    if resource is not None and resource.source is not None:
        result.append(Location(resource.source.file, resource.source.line))
    return result or [Location(stack_file)]


def _settings_place(resource: Resource, path: str, document: Document) -> Place | None:
    """Return the settings of a resource in the stack file, None if the file has none."""
    config = document.value.get("config") if isinstance(document.value, dict) else None
    if not isinstance(config, dict):
        return None
    place = _section_place(resource, config)
    if place is None:
        return None
    for word, below in SETTINGS:
        if word in path and (*place, *below) in document.lines:
            return (*place, *below)
    return place


def _section_place(resource: Resource, config: Mapping[str, Any]) -> Place | None:
    if (name := class_of(resource)) is not None:
        place = _named_entry(config, "sandboxClasses", name)
        if place is not None:
            return place
    component = _innermost_component(resource)
    if component is None or (section := SECTIONS.get(component[0])) is None:
        return None
    if section == "workspaces":
        return next(
            (
                place
                for word in _name_suffixes(component[1])
                if (place := _named_entry(config, section, word)) is not None
            ),
            None,
        )
    return ("config", PREFIX + section) if PREFIX + section in config else None


def class_of(resource: Resource) -> str | None:
    """Return the sandbox class of a resource, from its labels, tags or namespace."""
    inputs = resource.inputs
    metadata = inputs.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    for labels in (metadata.get("labels"), inputs.get("tags")):
        if isinstance(labels, Mapping) and isinstance(
            result := labels.get(CLASS_LABEL) or labels.get("sandbox-class"), str
        ):
            return result
    namespace = metadata.get("namespace") or (metadata.get("name") if inputs.get("kind") == "Namespace" else None)
    if isinstance(namespace, str) and namespace.startswith(NAMESPACE):
        return namespace.removeprefix(NAMESPACE)
    return None


def _innermost_component(resource: Resource) -> tuple[str, str] | None:
    """Return the type of the innermost component of the package that has a resource, and the name of its parent."""
    types = resource.urn.split("::")[2].split("$") if resource.urn.count("::") >= 3 else []
    components = [type_.rpartition(":")[2] for type_ in types if type_.startswith("agent-environment:index:")]
    name = (resource.parent or resource.urn).rsplit("::", 1)[-1]
    return (components[-1], name) if components else None


def _named_entry(config: Mapping[str, Any], section: str, name: str) -> Place | None:
    rows = config.get(PREFIX + section)
    for index, row in enumerate(rows if isinstance(rows, list) else ()):
        if isinstance(row, dict) and row.get("name") == name:
            return ("config", PREFIX + section, index)
    return None


def _name_suffixes(name: str) -> list[str]:
    """Return `agents-seat-ann`, `seat-ann` and `ann` for `agents-seat-ann`, which ends in the name of its seat."""
    parts = name.split("-")
    return ["-".join(parts[start:]) for start in range(len(parts))]
