"""A value as a word: what is no text, number or flag is no word of anybody's, whatever else it is."""

from __future__ import annotations

from collections.abc import Collection

from policies.view.fields import Field


def word(field: Field) -> str | int | float | bool | None:
    """The value where it is one word; None where it is missing, not known, or a list or a mapping."""
    return field.raw if isinstance(field.raw, str | int | float | bool) else None


def one_of(field: Field, words: Collection[object]) -> bool:
    """Whether it is one of those words."""
    found = word(field)
    return found is not None and found in words
