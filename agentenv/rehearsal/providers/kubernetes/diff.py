"""Changes between two sets of inputs, and drift in the cluster."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN, Path

Verb = Literal["add", "delete", "update"]


class Absent:
    """The field does not exist."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()


@dataclass(frozen=True)
class Change:
    path: Path
    verb: Verb


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return the changes from the old inputs to the new ones. Null and absent are equal."""
    return _fields(old, new, ())


def _changes(old: Any, new: Any, path: Path) -> list[Change]:
    before, after = ABSENT if old is None else old, ABSENT if new is None else new
    if before is ABSENT or after is ABSENT:
        return [] if before is after else [Change(path, "add" if before is ABSENT else "delete")]
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return _fields(before, after, path)
    if isinstance(before, list) and isinstance(after, list):
        return _items(before, after, path)
    known = before is not UNKNOWN and after is not UNKNOWN
    return [] if known and equal(before, after) else [Change(path, "update")]


def _fields(before: Mapping[str, Any], after: Mapping[str, Any], path: Path) -> list[Change]:
    return [
        change
        for key in sorted({*before, *after})
        for change in _changes(before.get(key), after.get(key), (*path, key))
    ]


def _items(before: Sequence[Any], after: Sequence[Any], path: Path) -> list[Change]:
    out: list[Change] = []
    for index in range(max(len(before), len(after))):
        item_path = (*path, index)
        if index >= len(before):
            out.append(Change(item_path, "add"))
        elif index >= len(after):
            out.append(Change(item_path, "delete"))
        else:
            out.extend(_changes(before[index], after[index], item_path))
    return out


def equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal. True and 1 are not."""
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(equal(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(equal(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right)


def with_string_data(secret: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Secret with `stringData`, decoded from `data`: the server only keeps `data`, which hides drift."""
    string_data, data = inputs.get("stringData"), secret.get("data")
    if not isinstance(string_data, Mapping) or not isinstance(data, Mapping):
        return dict(secret)
    text = {k: base64.b64decode(str(data[k])).decode(errors="replace") for k in string_data if k in data}
    return {**secret, "stringData": text}


def drifted_inputs(inputs: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with the current values of the cluster.

    Where nothing changed in the cluster the input keeps its spelling, so that the server's normalized form (`1000m`
    becomes `1`) is not a change. Fields that are not ours are left to whoever set them.
    """
    drifted_values = _drifted(dict(inputs), before, now)
    return drifted_values if isinstance(drifted_values, dict) else {}


def _drifted(inputs: Any, before: Any, now: Any) -> Any:
    if equal(before, now):
        return inputs
    if isinstance(inputs, Mapping) and isinstance(now, Mapping):
        was: Mapping[str, Any] = before if isinstance(before, Mapping) else {}
        out = {k: _drifted(v, was.get(k, ABSENT), now.get(k, ABSENT)) for k, v in inputs.items()}
        return {k: v for k, v in out.items() if v is not ABSENT}
    if isinstance(inputs, list) and isinstance(now, list):
        return _drifted_list(inputs, before if isinstance(before, list) else [], now)
    return now


def _drifted_list(inputs: list[Any], before: list[Any], now: list[Any]) -> list[Any]:
    names = _names(inputs)
    if names is not None and _names(before) is not None and (current_items := _names(now)) is not None:
        was = {item["name"]: item for item in before}
        return [
            _drifted(item, was.get(item["name"], ABSENT), current_items[item["name"]])
            for item in inputs
            if item["name"] in current_items
        ]
    if len(inputs) == len(before) == len(now):
        return [_drifted(*three) for three in zip(inputs, before, now, strict=True)]
    return now


def _names(items: list[Any]) -> dict[str, Any] | None:
    """Return the items by name, if each has a unique name: the server merges such lists by name."""
    if not all(isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in items):
        return None
    by_name = {item["name"]: item for item in items}
    return by_name if len(by_name) == len(items) else None
