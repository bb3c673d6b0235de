"""A value as a word, a number or a switch: what has another shape is none, whatever else it is."""

from __future__ import annotations

from collections.abc import Collection

from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown
from agentenv.policies.view.fields import Field, UnknownReached


def word(field: Field) -> str | int | float | bool | None:
    """The value where it is one word; None where it is missing, not known, or a list or a mapping."""
    return field.raw if isinstance(field.raw, str | int | float | bool) else None


def one_of(field: Field, words: Collection[object]) -> bool:
    """Whether it is one of those words."""
    found = word(field)
    return found is not None and found in words


def number_of(field: Field) -> float | Unknown | None:
    """The value as a number, `UNKNOWN` where nobody can read one: a rule that goes on asks so, and not by `.number`."""
    try:
        return field.number
    except UnknownReached:
        return UNKNOWN


def switch(field: Field) -> bool | Unknown | None:
    """The value of a switch, `UNKNOWN` where it is neither true nor false: nobody can say what a template fills in."""
    if field.missing:
        return None
    return field.raw if isinstance(field.raw, bool) else UNKNOWN
