"""Evaluates label selectors as Kubernetes does: on the labels of one pod, or as the set of all pods they select."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.core.capabilities.sets.pods import ANY, PRESENT, Side, Values
from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown, as_list, as_mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentenv.core.capabilities.sets.pods import Key

ABSENT = Values(frozenset({None}))


class UnreadableSelectorError(ValueError):
    """A selector that is not known, or that the API server would refuse."""


def conditions(selector: object, side: Side) -> dict[Key, Values]:
    """A selector's conditions on each label; `UnreadableSelectorError` where they cannot be told."""
    found: dict[Key, Values] = {}
    for key, values in _conditions(selector):
        found[side, key] = found.get((side, key), ANY) & values
    return found


def matches(selector: object, labels: Mapping[str, str | Unknown] | Unknown) -> bool | None:
    """Whether a selector selects a pod with those labels; None where it depends on what is not known."""
    try:
        wanted = _conditions(selector)
    except UnreadableSelectorError:
        return None
    verdict: bool | None = True
    for key, values in wanted:
        if labels is UNKNOWN:
            verdict = None
            continue
        value = labels.get(key)
        if value is UNKNOWN:
            # The label is there, whatever its value: that alone decides where no value would do, or any would.
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
    found: list[tuple[str, Values]] = []
    for key, value in labels.items():
        if not isinstance(value, str):
            raise UnreadableSelectorError
        found.append((key, Values(frozenset({value}))))
    return found + [_expression(expression) for expression in expressions]


def _expression(expression: object) -> tuple[str, Values]:
    raw = as_mapping(expression) or {}
    key, given = raw.get("key"), as_list(raw.get("values"))
    named = frozenset(value for value in given or [] if isinstance(value, str))
    if not isinstance(key, str) or given is None or len(named) < len(set(map(repr, given))):
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
