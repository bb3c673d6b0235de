"""What changed between two sets of inputs, field by field, and what changed in the cluster behind our back."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN, Path

Verb = Literal["add", "delete", "update"]


class Absent:
    """No such field."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()


@dataclass(frozen=True)
class Change:
    path: Path
    verb: Verb


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """The changes from the old inputs to the new ones; null and absent are the same."""
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
    return [] if known and same(before, after) else [Change(path, "update")]


def _fields(before: Mapping[str, Any], after: Mapping[str, Any], path: Path) -> list[Change]:
    return [
        change
        for key in sorted({*before, *after})
        for change in _changes(before.get(key), after.get(key), (*path, key))
    ]


def _items(before: Sequence[Any], after: Sequence[Any], path: Path) -> list[Change]:
    out: list[Change] = []
    for index in range(max(len(before), len(after))):
        here = (*path, index)
        if index >= len(before):
            out.append(Change(here, "add"))
        elif index >= len(after):
            out.append(Change(here, "delete"))
        else:
            out.extend(_changes(before[index], after[index], here))
    return out


def same(left: Any, right: Any) -> bool:
    """Equal, and not only because Python takes true for one."""
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right)


def in_plain_text(secret: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A Secret as it would read had it kept `stringData`: the server only keeps `data`, so that nothing could drift."""
    asked, data = inputs.get("stringData"), secret.get("data")
    if not isinstance(asked, Mapping) or not isinstance(data, Mapping):
        return dict(secret)
    text = {k: base64.b64decode(str(data[k])).decode(errors="replace") for k in asked if k in data}
    return {**secret, "stringData": text}


def drifted(inputs: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs as the cluster has them now.

    Where nothing changed in the cluster the input stays as it was written, so that the server's own spelling of it
    (`1000m` becomes `1`) is no change. Fields that are not ours are left to whoever set them.
    """
    found = _drifted(dict(inputs), before, now)
    return found if isinstance(found, dict) else {}


def _drifted(mine: Any, before: Any, now: Any) -> Any:
    if same(before, now):
        return mine
    if isinstance(mine, Mapping) and isinstance(now, Mapping):
        was: Mapping[str, Any] = before if isinstance(before, Mapping) else {}
        out = {k: _drifted(v, was.get(k, ABSENT), now.get(k, ABSENT)) for k, v in mine.items()}
        return {k: v for k, v in out.items() if v is not ABSENT}
    if isinstance(mine, list) and isinstance(now, list):
        return _drifted_list(mine, before if isinstance(before, list) else [], now)
    return now


def _drifted_list(mine: list[Any], before: list[Any], now: list[Any]) -> list[Any]:
    names = _names(mine)
    if names is not None and _names(before) is not None and (there := _names(now)) is not None:
        was = {item["name"]: item for item in before}
        return [
            _drifted(item, was.get(item["name"], ABSENT), there[item["name"]]) for item in mine if item["name"] in there
        ]
    if len(mine) == len(before) == len(now):
        return [_drifted(*three) for three in zip(mine, before, now, strict=True)]
    return now


def _names(items: list[Any]) -> dict[str, Any] | None:
    """The items by name, where each has one of its own: the server keeps such lists by name."""
    if not all(isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in items):
        return None
    by_name = {item["name"]: item for item in items}
    return by_name if len(by_name) == len(items) else None
