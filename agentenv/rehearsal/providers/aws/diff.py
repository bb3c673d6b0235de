"""What changed between two sets of inputs: which paths, and whether they can be changed in place.

Not a change: another order where the service keeps a set, another spelling of the same policy or CIDR, a value left out
that the cloud fills in, an empty value and none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agentenv.rehearsal.providers.aws import shapes
from agentenv.rehearsal.providers.aws import value_kinds as kinds
from agentenv.rehearsal.providers.aws.row import Row
from agentenv.rehearsal.providers.common.property_values import UNKNOWN, Path, has_unknown

Verb = Literal["add", "delete", "update"]


@dataclass(frozen=True)
class Change:
    path: Path
    verb: Verb
    replaces: bool


def same(row: Row, kind: Any, left: Any, right: Any, dotted: str, *, partial: bool = False) -> bool:  # noqa: PLR0911 - a case a kind of value
    """Whether two values mean the same. `partial`: what the left one leaves out may be anything in the right one."""
    if left is right and left is not UNKNOWN:
        return True
    if has_unknown(left) or has_unknown(right):
        return False
    form = row.forms.get(dotted)
    if form is not None:
        left, right = (form(one) if isinstance(one, dict) else one for one in (left, right))
    special = row.kinds.get(dotted)
    if special is not None and special.whole:
        return special.same(left or [], right or [])
    if isinstance(kind, list) and kind[0] == "array" and not (special and isinstance(left, str)):
        return _same_list(row, kind, left or [], right or [], dotted, partial=partial)
    if kinds.empty(left) and kinds.empty(right):
        return True
    if special is not None and left is not None and right is not None:
        return special.same(left, right)
    if isinstance(kind, list) and isinstance(left, dict) and isinstance(right, dict):
        return left == right
    if isinstance(kind, dict) and (isinstance(left, dict) or isinstance(right, dict)):
        return _same_object(row, kind, left or {}, right or {}, dotted, partial=partial)
    return left == right or str(left) == str(right)


def _same_object(row: Row, kind: Any, left: Any, right: Any, dotted: str, *, partial: bool) -> bool:
    if not isinstance(left, dict) or not isinstance(right, dict):
        return False
    return all(
        (partial and kinds.left_out(left.get(key)))
        or same(row, fact["t"], left.get(key), right.get(key), f"{dotted}.{key}", partial=partial)
        for key, fact in kind.items()
    )


def _same_list(row: Row, kind: Any, left: Any, right: Any, dotted: str, *, partial: bool) -> bool:
    if not isinstance(left, list) or not isinstance(right, list) or len(left) != len(right):
        return False
    if dotted in row.ordered:
        return all(same(row, kind[1], a, b, dotted, partial=partial) for a, b in zip(left, right, strict=True))
    rest = list(right)
    for item in left:
        index = next((i for i, r in enumerate(rest) if same(row, kind[1], item, r, dotted, partial=partial)), None)
        if index is None:
            return False
        del rest[index]
    return True


def changes(row: Row, shape: shapes.Shape, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """The changes from the old inputs to the new ones."""
    out: list[Change] = []
    moved = row.replaces_when(old, new) if row.replaces_when else set[str]()
    for name, fact in shape.inputs.items():
        before, after = old.get(name), new.get(name)
        if after is None and (before is None or shape.computed(name) or name in row.undeclared):
            continue
        replaces = fact.replaces or name in row.replaces or name in moved or (name == "region" and row.regional)
        out.extend(_walk(row, fact.type, before, after, (name,), replaces=replaces))
    return out


def _walk(row: Row, kind: Any, before: Any, after: Any, path: Path, *, replaces: bool) -> list[Change]:
    dotted = ".".join(str(part) for part in path)
    if same(row, kind, before, after, dotted):
        return []
    if isinstance(before, dict) and isinstance(after, dict) and dotted not in row.kinds:
        facts = shapes.fields(kind) if isinstance(kind, dict) else None
        out: list[Change] = []
        for key in sorted({*before, *after}):
            fact = facts.get(key) if facts is not None else None
            inner = fact.type if fact else (kind[1] if isinstance(kind, list) else "any")
            deeper = replaces or bool(fact and fact.replaces) or f"{dotted}.{key}" in row.replaces
            out += _walk(row, inner, before.get(key), after.get(key), (*path, key), replaces=deeper)
        if out:
            return out
    verb: Verb = "add" if before is None else "delete" if after is None else "update"
    return [Change(path, verb, replaces)]
