"""What happens to each resource, and how sure that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from agentenv.cli.review.graph import Graph

Operation = Literal["create", "update", "replace", "delete"]
OPERATIONS: Final[tuple[Operation, ...]] = ("create", "update", "replace", "delete")
# Whose word it is: the engine's own, what the two graphs show, a table of what cannot be changed in place, what the
# replacement of something else brings along, or a kind of resource that no table knows.
Sureness = Literal["engine", "shown", "table", "follows", "guess"]
SURENESS: Final[Mapping[Sureness, str]] = {
    "engine": "",
    "shown": "",
    "table": "",
    "follows": "because what it hangs on is replaced",
    "guess": "no table says whether this kind of resource can be changed in place",
}

# The engine's own words for a step, by what a person calls it; a replacement is several steps of one resource
_WORDS: Final[Mapping[str, Operation]] = {
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
    """One resource that does not stay as it is."""

    operation: Operation
    urn: str
    type: str
    keys: tuple[str, ...] = ()  # the inputs that differ; of a replacement, those that make it one
    sureness: Sureness = "engine"

    @property
    def name(self) -> str:
        """Its name in the program."""
        return self.urn.rsplit("::", 1)[-1]

    @property
    def why(self) -> str:
        """What makes it so, in words: the inputs, and how far to trust that."""
        said = [", ".join(self.keys)] if self.keys else []
        return "; ".join([*said, *([SURENESS[self.sureness]] if SURENESS[self.sureness] else [])])


def told(steps: Iterable[Mapping[str, Any]], before: Graph, after: Graph) -> list[Change]:
    """What the engine says that it would do, one change a resource."""
    found: dict[str, Change] = {}
    for step in steps:
        operation = _WORDS.get(step["op"])
        urn = step["urn"]
        resource = after.get(urn) or before.get(urn)
        if operation is None or resource is None or resource.plumbing:
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


def counted(changes: Iterable[Change]) -> dict[str, int]:
    """How many of each operation."""
    found = Counter(change.operation for change in changes)
    return {operation: found[operation] for operation in OPERATIONS}
