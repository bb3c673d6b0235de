"""Decode configuration values into plain data of bounded size, or report mistakes.

The result has text keys, tuples for lists, and limited nesting.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import cast

from agentenv.config.mistakes import Mistake, Place, mistake_at, shown

MAX_DEPTH = 24
MAX_VALUES = 200_000

# The settings that are text. All others are mappings or lists, which the engine passes as JSON text.
TEXT_SETTINGS = frozenset({"protect", "region", "environment"})

Plain = None | bool | int | float | str | tuple["Plain", ...] | dict[str, "Plain"]


class _Rejected:
    """The result of a value that was rejected."""


_REJECTED = _Rejected()


class _TooMuchError(Exception):
    """The value is nested too deeply, or too long."""


class Reader:
    """Decode values and collect mistakes. Use one reader for each stack file: the size limit covers all values."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []
        self._left = MAX_VALUES

    def read(self, data: dict[str, Plain], name: str, value: object) -> None:
        """Add the decoded value to the data; report and omit a value that cannot be decoded."""
        place = (name,)
        if isinstance(value, str):
            parsed = self._parsed(value)
            # An object in place of a text is JSON, too, and is reported as an object
            if name not in TEXT_SETTINGS or type(parsed) in {dict, list}:
                value = parsed
        try:
            decoded = self._plain(value, place)
        except _TooMuchError:
            # A single message, however many values are beyond the limit.
            allowed = f"at most {MAX_DEPTH} levels and {MAX_VALUES} values"
            decoded = self._wrong(place, "too many or too deeply nested values", allowed)
        if not isinstance(decoded, _Rejected):
            data[name] = decoded

    def _parsed(self, text: str) -> object:
        """Return the value of JSON text, or the text itself if it is not JSON; the engine passes objects as JSON."""
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text

    def _plain(self, value: object, place: Place) -> Plain | _Rejected:
        self._left -= 1
        if len(place) > MAX_DEPTH or self._left < 0:
            raise _TooMuchError
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[object, object]", value), place)
        if isinstance(value, list | tuple):
            return self._list(cast("list[object] | tuple[object, ...]", value), place)
        if isinstance(value, str):
            return value if self._encodable(value, place) else _REJECTED
        if isinstance(value, Decimal):
            return str(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        return self._wrong(
            place, shown(value), "text, a number, true or false, a list or a mapping", "put it in quotes"
        )

    def _mapping(self, value: Mapping[object, object], place: Place) -> Plain | _Rejected:
        if list(value) == ["secure"]:
            return self._wrong(place, "a secret", "a plain value", "no setting is secret: set it without --secret")
        mapping: dict[str, Plain] = {}
        for key, inner in value.items():
            if not isinstance(key, str):
                self._wrong(place, f"the key {shown(key)}", "keys that are text", "put it in quotes")
                continue
            if not self._encodable(key, place):
                continue
            decoded = self._plain(inner, (*place, key))
            if not isinstance(decoded, _Rejected):
                mapping[key] = decoded
        return mapping

    def _list(self, value: list[object] | tuple[object, ...], place: Place) -> Plain | _Rejected:
        decoded = [self._plain(inner, (*place, index)) for index, inner in enumerate(value)]
        # None keeps the indexes of the following items; only a None in the file itself is a mistake.
        return tuple(None if isinstance(inner, _Rejected) else inner for inner in decoded)

    def _encodable(self, text: str, place: Place) -> bool:
        try:
            text.encode()
        except UnicodeEncodeError:
            self._wrong(place, "text with an unpaired surrogate", "text in UTF-8")
            return False
        return True

    def _wrong(self, place: Place, found: str, allowed: str, hint: str = "") -> _Rejected:
        self.mistakes.append(mistake_at(place, found, allowed, hint))
        return _REJECTED
