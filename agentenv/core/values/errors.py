"""The base of errors about invalid values, with what was found, what is allowed, and a hint; lists in messages."""

from __future__ import annotations

from collections.abc import Sequence

_MOST = 5


class InvalidValueError(ValueError):
    """An invalid value: what was found, what is allowed, and a hint."""

    def __init__(self, found: str, allowed: str, hint: str) -> None:
        super().__init__(f"{found}; allowed: {allowed}; {hint}")
        self.found = found
        self.allowed = allowed
        self.hint = hint


def first_of(texts: Sequence[str], separator: str = "; ") -> str:
    """Join the texts for a message: the first ones, and how many more there are."""
    more = f"{separator}and {len(texts) - _MOST} more" if len(texts) > _MOST else ""
    return separator.join(texts[:_MOST]) + more
