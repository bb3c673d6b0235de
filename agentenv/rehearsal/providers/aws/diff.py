"""The difference between two sets of inputs: the changed paths, and whether each can be updated in place.

These are not changes: another order of a set, another spelling of the same policy or CIDR block, an unset value that
the service computes, and an empty value for an unset one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agentenv.rehearsal.providers.aws import shapes, value_kinds
from agentenv.rehearsal.providers.aws.row import ResourceType
from agentenv.rehearsal.providers.common.property_values import UNKNOWN, Path, has_unknown

Verb = Literal["add", "delete", "update"]


@dataclass(frozen=True)
class Change:
    path: Path
    verb: Verb
    replaces: bool


def equal(row: ResourceType, kind: Any, left: Any, right: Any, dotted: str, *, partial: bool = False) -> bool:  # noqa: PLR0911 - a case a kind of value
    """Return whether two values mean the same. With `partial`, parts the left value does not set are not compared."""
    if left is right and left is not UNKNOWN:
        return True
    if has_unknown(left) or has_unknown(right):
        return False
    normalize = row.normalize.get(dotted)
    if normalize is not None:
        left, right = (normalize(side) if isinstance(side, dict) else side for side in (left, right))
    special = row.value_kinds.get(dotted)
    if special is not None and special.whole_list:
        return special.equal(left or [], right or [])
    if isinstance(kind, list) and kind[0] == "array" and not (special and isinstance(left, str)):
        return _equal_lists(row, kind, left or [], right or [], dotted, partial=partial)
    if value_kinds.empty(left) and value_kinds.empty(right):
        return True
    if special is not None and left is not None and right is not None:
        return special.equal(left, right)
    if isinstance(kind, list) and isinstance(left, dict) and isinstance(right, dict):
        return left == right
    if isinstance(kind, dict) and (isinstance(left, dict) or isinstance(right, dict)):
        return _equal_objects(row, kind, left or {}, right or {}, dotted, partial=partial)
    return left == right or str(left) == str(right)


def _equal_objects(row: ResourceType, kind: Any, left: Any, right: Any, dotted: str, *, partial: bool) -> bool:
    if not isinstance(left, dict) or not isinstance(right, dict):
        return False
    return all(
        (partial and value_kinds.unset(left.get(key)))
        or equal(row, fact["t"], left.get(key), right.get(key), f"{dotted}.{key}", partial=partial)
        for key, fact in kind.items()
    )


def _equal_lists(row: ResourceType, kind: Any, left: Any, right: Any, dotted: str, *, partial: bool) -> bool:
    if not isinstance(left, list) or not isinstance(right, list) or len(left) != len(right):
        return False
    if dotted in row.ordered_lists:
        return all(equal(row, kind[1], a, b, dotted, partial=partial) for a, b in zip(left, right, strict=True))
    rest = list(right)
    for item in left:
        index = next((i for i, r in enumerate(rest) if equal(row, kind[1], item, r, dotted, partial=partial)), None)
        if index is None:
            return False
        del rest[index]
    return True


def changes(row: ResourceType, shape: shapes.Shape, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return the changes from the old inputs to the new ones."""
    out: list[Change] = []
    replaced = row.replaced_inputs(old, new) if row.replaced_inputs else set[str]()
    for name, fact in shape.inputs.items():
        before, after = old.get(name), new.get(name)
        if after is None and (before is None or shape.computed(name) or name in row.compared_if_set):
            continue
        replaces = (
            fact.replaces or name in row.replace_on_changes or name in replaced or (name == "region" and row.regional)
        )
        out.extend(_walk(row, fact.type, before, after, (name,), replaces=replaces))
    return out


def _walk(row: ResourceType, kind: Any, before: Any, after: Any, path: Path, *, replaces: bool) -> list[Change]:
    dotted = ".".join(str(part) for part in path)
    if equal(row, kind, before, after, dotted):
        return []
    if isinstance(before, dict) and isinstance(after, dict) and dotted not in row.value_kinds:
        facts = shapes.fields(kind) if isinstance(kind, dict) else None
        out: list[Change] = []
        for key in sorted({*before, *after}):
            fact = facts.get(key) if facts is not None else None
            inner = fact.type if fact else (kind[1] if isinstance(kind, list) else "any")
            deeper = replaces or bool(fact and fact.replaces) or f"{dotted}.{key}" in row.replace_on_changes
            out += _walk(row, inner, before.get(key), after.get(key), (*path, key), replaces=deeper)
        if out:
            return out
    verb: Verb = "add" if before is None else "delete" if after is None else "update"
    return [Change(path, verb, replaces)]
