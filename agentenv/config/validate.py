"""Validate plain data against the settings, and repair data with mistakes so that constraints can be checked, too.

All mistakes are reported at once. So invalid values are replaced by defaults, and the constraints are checked on the
result. `reader` drops the findings that depend on a replaced value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from agentenv.config import vocabulary
from agentenv.config.decode import Plain
from agentenv.config.mistakes import Mistake, Place, mistake_at, nearest, shown
from agentenv.config.settings import Settings

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_ROUNDS = 40
# Texts that are a value of the type without their quotes
_UNQUOTED = {"int_type": r"-?[0-9]+", "bool_type": "true|false|yes|no|on|off"}

# Values for required settings, which violate no constraint.
_PLACEHOLDERS: dict[Place, Plain] = {
    ("environment",): "dev",
    ("region",): "us-east-1",
    ("sandboxClasses", "*", "image"): f"example.com/sandbox@sha256:{'0' * 64}",
}


@dataclass(frozen=True)
class Checked:
    """The result of a check: the repaired settings, the mistakes, and the places that were invalid."""

    settings: Settings | None
    mistakes: list[Mistake]
    tainted: list[Place]
    original: dict[Place, list[int]]

    def place(self, place: Place) -> Place:
        """Return the place in the stack file of a place in the repaired settings, which may lack some list items."""
        return _original(place, self.original)


def check(data: dict[str, Plain]) -> Checked:
    """Validate the data and return the mistakes with the repaired settings."""
    try:
        return Checked(_validated(data), [], [], {})
    except ValidationError as errors:
        details = list(_places(errors))
    mistakes = [_mistake(place, error) for place, error in details]
    tainted = [place for place, _ in details] + [_meant(place, error) for place, error in details]
    settings, original = _repaired(data, details)
    return Checked(settings, mistakes, tainted, original)


def _validated(data: object) -> Settings:
    return Settings.model_validate(data, by_alias=True, by_name=False)


def _places(errors: ValidationError) -> Iterator[tuple[Place, ErrorDetails]]:
    for error in errors.errors(include_url=False):
        # Pydantic counts valid items only, and each invalid one has its own message.
        short = error["type"] == "too_short" and len(error["input"]) >= error.get("ctx", {})["min_length"]
        if not short:
            yield error["loc"], error


def _mistake(place: Place, error: ErrorDetails) -> Mistake:
    kind, context = error["type"], error.get("ctx", {})
    value: object = error["input"]
    found = "nothing" if kind == "missing" else shown(value)
    if kind == "mistake":
        return mistake_at(place, found, str(context["allowed"]), str(context["hint"]))
    if kind == "extra_forbidden":
        return _unknown(place)
    hint = ""
    if isinstance(value, str):
        hint = nearest(value, vocabulary.words(place))
        if not hint and re.fullmatch(_UNQUOTED.get(kind, "(?!)"), value):
            hint = "write it without quotes"
    elif kind == "string_type" and isinstance(value, bool | int | float):
        hint = "put it in quotes"
    if kind == "missing":
        hint = "it has no default"
    elif value is None and place:
        hint = "remove the key, or set a value"
    return mistake_at(place, found, vocabulary.allowed(place), hint)


def _unknown(place: Place) -> Mistake:
    """Return the mistake of an unknown key, with the most similar key or the section it belongs to."""
    key = str(place[-1])
    known = vocabulary.keys(place[:-1])
    hint = nearest(key, known)
    if not hint and (elsewhere := vocabulary.sections_with(key)):
        hint = f"it belongs under {' or '.join(elsewhere)}"
    return replace(mistake_at(place, f"the key {shown(key)}", ", ".join(known), hint), unknown_key=place)


def _meant(place: Place, error: ErrorDetails) -> Place:
    """Return the place of the key that a mistyped one stands for, whose default must not be checked either."""
    if error["type"] != "extra_forbidden":
        return place
    hint = nearest(str(place[-1]), vocabulary.keys(place[:-1]))
    return (*place[:-1], hint.split("'")[1]) if hint else place


def _repaired(
    data: dict[str, Plain], details: list[tuple[Place, ErrorDetails]]
) -> tuple[Settings | None, dict[Place, list[int]]]:
    tree = _mutable(data)
    for _ in range(MAX_ROUNDS):
        for place, error in details:
            if not _repair(tree, place, missing=error["type"] == "missing"):
                return None, {}
        original: dict[Place, list[int]] = {}
        try:
            return _validated(_compressed(tree, (), original)), original
        except ValidationError as errors:
            details = [(_original(place, original), error) for place, error in _places(errors)]
    return None, {}


_REMOVED = object()


def _repair(tree: dict[str, Any], place: Place, *, missing: bool) -> bool:
    """Remove an invalid value, or add a missing one; return False when nothing is left to remove."""
    if not place:
        return False
    pattern = tuple("*" if isinstance(token, int) else token for token in place)
    if missing and pattern not in _PLACEHOLDERS:
        return _repair(tree, place[:-1], missing=False)
    node: Any = tree
    for token in place[:-1]:
        # A mapping or list around it was removed already.
        if isinstance(token, str) and token not in node:
            return True
        node = node[token]
        if node is _REMOVED:
            return True
    if missing:
        node[place[-1]] = _PLACEHOLDERS[pattern]
    elif isinstance(place[-1], int):
        node[place[-1]] = _REMOVED
    else:
        # The data has no such place, so the whole mapping is removed.
        if place[-1] not in node:
            return _repair(tree, place[:-1], missing=False)
        del node[place[-1]]
    return True


def _mutable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _mutable(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, tuple):
        return [_mutable(inner) for inner in cast("tuple[Any, ...]", value)]
    return value


def _compressed(value: Any, place: Place, original: dict[Place, list[int]]) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: _compressed(inner, (*place, key), original) for key, inner in items}
    if isinstance(value, list):
        retained = [(index, inner) for index, inner in enumerate(cast("list[Any]", value)) if inner is not _REMOVED]
        original[place] = [index for index, _ in retained]
        return tuple(_compressed(inner, (*place, position), original) for position, (_, inner) in enumerate(retained))
    return value


def _original(place: Place, original: dict[Place, list[int]]) -> Place:
    tokens: list[str | int] = []
    for position, token in enumerate(place):
        indexes = original.get(place[:position])
        tokens.append(indexes[token] if indexes is not None and isinstance(token, int) else token)
    return tuple(tokens)
