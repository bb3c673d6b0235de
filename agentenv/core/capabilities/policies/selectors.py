"""Evaluate label selectors as Kubernetes does: on the labels of one pod, or as the set of all selected pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.core.capabilities.sets.pods import ANY, PRESENT, Side, Values
from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown, as_list, as_mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentenv.core.capabilities.sets.pods import Key

ABSENT = Values(frozenset({None}))


class UnreadableSelectorError(ValueError):
    """A selector that is not known, or that the API server would reject."""


def conditions(selector: object, side: Side) -> dict[Key, Values]:
    """Return a selector's conditions by label; raise `UnreadableSelectorError` where they are not known."""
    result: dict[Key, Values] = {}
    for key, values in _conditions(selector):
        result[side, key] = result.get((side, key), ANY) & values
    return result


def matches(selector: object, labels: Mapping[str, str | Unknown] | Unknown) -> bool | None:
    """Return whether a selector selects a pod with those labels; None where it depends on unknown values."""
    try:
        required = _conditions(selector)
    except UnreadableSelectorError:
        return None
    verdict: bool | None = True
    for key, values in required:
        if labels is UNKNOWN:
            verdict = None
            continue
        value = labels.get(key)
        if value is UNKNOWN:
            # The label is present with an unknown value: that decides only where no value or every value matches.
            if not values & PRESENT:
                return False
            verdict = verdict if not PRESENT - values else None
        elif value not in values:
            return False
    return verdict


def _conditions(selector: object) -> list[tuple[str, Values]]:
    raw = as_mapping(selector)
    if raw is None:
        raise UnreadableSelectorError
    labels, expressions = as_mapping(raw.get("matchLabels")), as_list(raw.get("matchExpressions"))
    if labels is None or expressions is None:
        raise UnreadableSelectorError
    result: list[tuple[str, Values]] = []
    for key, value in labels.items():
        if not isinstance(value, str):
            raise UnreadableSelectorError
        result.append((key, Values(frozenset({value}))))
    return result + [_expression(expression) for expression in expressions]


def _expression(expression: object) -> tuple[str, Values]:
    raw = as_mapping(expression) or {}
    key, values = raw.get("key"), as_list(raw.get("values"))
    named = frozenset(value for value in values or [] if isinstance(value, str))
    if not isinstance(key, str) or values is None or len(named) < len(set(map(repr, values))):
        raise UnreadableSelectorError
    match raw.get("operator"), bool(named):
        case "In", True:
            return key, Values(named)
        case "NotIn", True:
            return key, Values(named, all_but=True)
        case "Exists", False:
            return key, PRESENT
        case "DoesNotExist", False:
            return key, ABSENT
        case _:
            raise UnreadableSelectorError
