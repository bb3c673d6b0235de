"""The base of errors about invalid values, with what was found, what is allowed, and a hint."""

from __future__ import annotations


class InvalidValueError(ValueError):
    """An invalid value: what was found, what is allowed, and a hint."""

    def __init__(self, found: str, allowed: str, hint: str) -> None:
        super().__init__(f"{found}; allowed: {allowed}; {hint}")
        self.found = found
        self.allowed = allowed
        self.hint = hint
