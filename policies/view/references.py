"""Whose id an input is: by its value, or, while ids are not known yet, by what the input hangs on.

At a first preview no id is known, and still two inputs that hang on the same resource name the same one.
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
    """What one input names: a text where it is known, and the resources of the fitting types that it hangs on."""

    field: Field
    value: str | None
    targets: tuple[Resource, ...]

    def names(self, other: Resource) -> bool | None:
        """Whether it names that resource; None where nobody can say."""
        ids = known_ids(other)
        if self.value is not None and self.value in ids:
            return True
        if other in self.targets:
            # A value that is known, and is not among the ids that are, is something else's all the same
            return True if self.value is None or not ids else None
        if self.value is not None or self.targets or self.field.missing:
            return False
        return None

    @property
    def key(self) -> str | None:
        """The same text for two references to the same thing; None where that is not known."""
        for target in self.targets:
            if len(self.targets) == 1 or self.value in known_ids(target):
                return target.urn
        return self.value


def reference(graph: Graph, resource: Resource, path: tuple[str | int, ...], *types: str) -> Reference:
    """What the input at that path names, among the resources of those types."""
    field = resource.at(*path)
    value = field.raw if isinstance(field.raw, str) else None
    targets = [] if field.missing else graph.targets(resource, str(path[0]), *types)
    if value is not None and not targets:
        targets = [one for kind in types for one in _by_id(graph, kind).get(value, [])]
    return Reference(field, value, tuple(targets))


def listed(graph: Graph, resource: Resource, path: tuple[str | int, ...], *types: str) -> list[Resource]:
    """The resources that a list of ids names, known or not."""
    return among(graph, graph.targets(resource, str(path[0]), *types), resource.at(*path), *types)


def among(graph: Graph, targets: Iterable[Resource], field: Field, *types: str) -> list[Resource]:
    """Those resources, and the others of the types whose ids a list has."""
    found = list(targets)
    values = {one.raw for one in field.elements() if isinstance(one.raw, str)}
    if values:
        known = [one for kind in types for value in sorted(values) for one in _by_id(graph, kind).get(value, [])]
        found += [one for index, one in enumerate(known) if one not in found and one not in known[:index]]
    return found


def known_ids(resource: Resource) -> frozenset[str]:
    """What it is called by others, as far as that is known: its id, ARN and name."""
    values = [resource.outputs.get(key) for key in ("id", "arn", "name", "keyId", "accessPointId")]
    values.append(resource.inputs.get("name"))
    # The engine keeps a resource's id beside its outputs, and not every provider puts it among them too
    values += [re.split("[/:]", value)[-1] for value in values if isinstance(value, str) and value.startswith("arn:")]
    return frozenset(value for value in values if isinstance(value, str) and value)


@once_per_graph
def _ids(_: Graph) -> dict[str, dict[str, list[Resource]]]:
    """By type, filled as types are asked for."""
    return {}


def _by_id(graph: Graph, kind: str) -> dict[str, list[Resource]]:
    """The resources of a type by what others call them."""
    kept = _ids(graph)
    if kind not in kept:
        found: dict[str, list[Resource]] = {}
        for one in graph.of_type(kind):
            for name in known_ids(one):
                found.setdefault(name, []).append(one)
        kept[kind] = found
    return kept[kind]
