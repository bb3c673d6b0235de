"""References between resources: which resource an input names, by its value or by its dependencies.

At a first preview no id is known, but two inputs that depend on the same resource refer to the same one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.resource import Resource


@dataclass(frozen=True)
class Reference:
    """The resource that an input names: its value if known, and its dependencies of the matching types."""

    field: Field
    value: str | None
    targets: tuple[Resource, ...]

    def refers_to(self, other: Resource) -> bool | None:
        """Return whether it refers to a resource; None if that is not known."""
        ids = known_ids(other)
        if self.value is not None and self.value in ids:
            return True
        if other in self.targets:
            # A known value that is not one of the known ids may be another resource's
            return True if self.value is None or not ids else None
        if self.value is not None or self.targets or self.field.missing:
            return False
        return None

    @property
    def key(self) -> str | None:
        """Return a key that is equal for references to the same resource; None if that is not known."""
        for target in self.targets:
            if len(self.targets) == 1 or self.value in known_ids(target):
                return target.urn
        return self.value


def reference(graph: Graph, resource: Resource, path: tuple[str | int, ...], *types: str) -> Reference:
    """Return the reference in the input at a path, to resources of these types."""
    field = resource.at(*path)
    value = field.raw if isinstance(field.raw, str) else None
    targets = [] if field.missing else graph.targets(resource, str(path[0]), *types)
    if value is not None and not targets:
        targets = [target for kind in types for target in _by_id(graph, kind).get(value, [])]
    return Reference(field, value, tuple(targets))


def with_listed(graph: Graph, targets: Iterable[Resource], field: Field, *types: str) -> list[Resource]:
    """Return these resources, and the resources of the types whose ids are in a list."""
    resources = list(targets)
    ids = sorted({element.raw for element in field.elements() if isinstance(element.raw, str)})
    for kind in types:
        for value in ids:
            resources += [each for each in _by_id(graph, kind).get(value, []) if each not in resources]
    return resources


def known_ids(resource: Resource) -> frozenset[str]:
    """Return the known values by which others refer to a resource: its id, ARN and name."""
    values = [resource.outputs.get(key) for key in ("id", "arn", "name", "keyId", "accessPointId")]
    values.append(resource.inputs.get("name"))
    # The engine stores the id outside of the outputs, and not every provider repeats it there
    values += [re.split("[/:]", value)[-1] for value in values if isinstance(value, str) and value.startswith("arn:")]
    return frozenset(value for value in values if isinstance(value, str) and value)


@once_per_graph
def _ids(_: Graph) -> dict[str, dict[str, list[Resource]]]:
    """Return the cache of `_by_id`, by type."""
    return {}


def _by_id(graph: Graph, kind: str) -> dict[str, list[Resource]]:
    """Return the resources of a type by each of their known ids."""
    cache = _ids(graph)
    if kind not in cache:
        by_id: dict[str, list[Resource]] = {}
        for resource in graph.of_type(kind):
            for name in known_ids(resource):
                by_id.setdefault(name, []).append(resource)
        cache[kind] = by_id
    return cache[kind]
