"""Turns whatever was handed over as configuration into plain data of bounded size, or into mistakes.

Everything after this step may rely on text keys, tuples for lists, and nothing nested beyond reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import cast

from agentenv.config.mistakes import Mistake, Place, mistake_at, shown

DEEPEST = 24
MOST_VALUES = 200_000

# Everything else is a mapping or a list, which the engine hands over as JSON text.
TEXTS = frozenset({"protect", "region", "environment"})

Plain = None | bool | int | float | str | tuple["Plain", ...] | dict[str, "Plain"]


class _Gone:
    """Stands where a value was refused."""


_GONE = _Gone()


class _TooMuchError(Exception):
    """The value is nested or long beyond reason."""


class Reader:
    """Reads values and collects the mistakes it meets; one a stack file, because the size is counted over all."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []
        self._left = MOST_VALUES

    def read(self, data: dict[str, Plain], name: str, value: object) -> None:
        """Put the value into the data as plain data; what could not be read is left out and reported."""
        place = (name,)
        if isinstance(value, str):
            parsed = self._parsed(value)
            # An object where a text belongs comes as JSON too, and is told of as what was written
            if name not in TEXTS or type(parsed) in {dict, list}:
                value = parsed
        try:
            found = self._plain(value, place)
        except _TooMuchError:
            # One message is enough: whoever nests a thousand lists does not want a thousand answers.
            allowed = f"at most {DEEPEST} levels and {MOST_VALUES} values"
            found = self._wrong(place, "more than a stack file holds", allowed)
        if not isinstance(found, _Gone):
            data[name] = found

    def _parsed(self, text: str) -> object:
        """The engine hands objects over as JSON text; what is not JSON stays the text it is."""
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text

    def _plain(self, value: object, place: Place) -> Plain | _Gone:
        self._left -= 1
        if len(place) > DEEPEST or self._left < 0:
            raise _TooMuchError
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[object, object]", value), place)
        if isinstance(value, list | tuple):
            return self._list(cast("list[object] | tuple[object, ...]", value), place)
        if isinstance(value, str):
            return value if self._encodable(value, place) else _GONE
        if isinstance(value, Decimal):
            return str(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        return self._wrong(
            place, shown(value), "text, a number, true or false, a list or a mapping", "put it in quotes"
        )

    def _mapping(self, value: Mapping[object, object], place: Place) -> Plain | _Gone:
        if list(value) == ["secure"]:
            return self._wrong(place, "a secret", "a plain value", "no setting is secret: set it without --secret")
        made: dict[str, Plain] = {}
        for key, inner in value.items():
            if not isinstance(key, str):
                self._wrong(place, f"the key {shown(key)}", "keys that are text", "put it in quotes")
                continue
            if not self._encodable(key, place):
                continue
            found = self._plain(inner, (*place, key))
            if not isinstance(found, _Gone):
                made[key] = found
        return made

    def _list(self, value: list[object] | tuple[object, ...], place: Place) -> Plain | _Gone:
        found = [self._plain(inner, (*place, index)) for index, inner in enumerate(value)]
        # None keeps the places of those that follow; it is a mistake of its own only where it was found.
        return tuple(None if isinstance(inner, _Gone) else inner for inner in found)

    def _encodable(self, text: str, place: Place) -> bool:
        try:
            text.encode()
        except UnicodeEncodeError:
            self._wrong(place, "text with half a character", "text in UTF-8")
            return False
        return True

    def _wrong(self, place: Place, found: str, allowed: str, hint: str = "") -> _Gone:
        self.mistakes.append(mistake_at(place, found, allowed, hint))
        return _GONE
