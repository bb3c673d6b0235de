"""The changes of resources: create, update, replace and delete, and how certain each is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from agentenv.cli.review.graph import Graph

Operation = Literal["create", "update", "replace", "delete"]
OPERATIONS: Final[tuple[Operation, ...]] = ("create", "update", "replace", "delete")
# The source of a change: the engine's preview, a comparison of both graphs, a table of inputs that force replacement,
# the replacement of a dependency, or a resource type without a table.
Sureness = Literal["engine", "shown", "table", "follows", "guess"]
SURENESS: Final[Mapping[Sureness, str]] = {
    "engine": "",
    "shown": "",
    "table": "",
    "follows": "because its dependency is replaced",
    "guess": "no table shows whether this resource type can be updated in place",
}

# The operation of each step type of the engine. A replacement has several steps for one resource.
_OPERATIONS: Final[Mapping[str, Operation]] = {
    "create": "create",
    "import": "create",
    "update": "update",
    "replace": "replace",
    "create-replacement": "replace",
    "delete-replaced": "replace",
    "import-replacement": "replace",
    "discard-replaced": "replace",
    "delete": "delete",
    "discard": "delete",
}
_WEIGHT: Final = {operation: weight for weight, operation in enumerate(("update", "create", "delete", "replace"))}


@dataclass(frozen=True)
class Change:
    """A resource that changes."""

    operation: Operation
    urn: str
    type: str
    keys: tuple[str, ...] = ()  # the changed inputs; for a replacement, those that force it
    sureness: Sureness = "engine"

    @property
    def name(self) -> str:
        """Return its name in the program."""
        return self.urn.rsplit("::", 1)[-1]

    @property
    def why(self) -> str:
        """Return the changed inputs, and how certain the change is."""
        parts = [", ".join(self.keys), SURENESS[self.sureness]]
        return "; ".join(part for part in parts if part)


def changes_from_steps(steps: Iterable[Mapping[str, Any]], before: Graph, after: Graph) -> list[Change]:
    """Return the changes of a preview, one for each resource."""
    found: dict[str, Change] = {}
    for step in steps:
        operation = _OPERATIONS.get(step["op"])
        urn = step["urn"]
        resource = after.get(urn) or before.get(urn)
        if operation is None or resource is None or resource.internal:
            continue
        known = found.get(urn)
        keys = _keys(step, operation) or (known.keys if known else ())
        heavier = known is None or _WEIGHT[operation] > _WEIGHT[known.operation]
        found[urn] = Change(operation if heavier or known is None else known.operation, urn, resource.type, keys)
    return list(found.values())


def _keys(step: Mapping[str, Any], operation: Operation) -> tuple[str, ...]:
    detailed = step.get("detailedDiff") or {}
    paths = [path for path, how in detailed.items() if operation != "replace" or "replace" in str(how.get("kind", ""))]
    reasons = step.get("replaceReasons") or () if operation == "replace" else ()
    return tuple(dict.fromkeys(paths or reasons or step.get("diffReasons") or ()))


def operation_counts(changes: Iterable[Change]) -> dict[str, int]:
    """Return the number of changes by operation."""
    counts = Counter(change.operation for change in changes)
    return {operation: counts[operation] for operation in OPERATIONS}
