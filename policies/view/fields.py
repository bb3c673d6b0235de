"""A value of a resource with its path: it is present, missing or not known yet.

Everything below an unknown value is unknown too, and an unknown list has one unknown element. So a rule that walks down
a resource never loses an unknown value. A value of the wrong type, such as a string instead of a mapping, counts as
unknown, because its effect in the API is unknown.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, cast

from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown

__all__ = [
    "MISSING",
    "UNKNOWN",
    "Field",
    "UnknownReached",
    "boolean_or_unknown",
    "is_one_of",
    "is_zero",
    "number_or_unknown",
    "scalar",
    "sets_no_limit",
]


class Missing(Enum):
    """The type of `MISSING`, the value of a missing field."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
_ZERO: Final = re.compile(r"[+-]?(0+\.?0*|\.0+)([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?")


class UnknownReached(Exception):
    """A rule read a value that is not known; its verdict is indeterminate."""

    def __init__(self, field: Field) -> None:
        super().__init__(field.path)
        self.field = field


@dataclass(slots=True, unsafe_hash=True)
class Field:
    """One value: the URN of its resource, its path, and plain data, `MISSING` or `UNKNOWN`.

    Immutable by convention only: a preview creates tens of thousands, and a frozen dataclass takes three times as long.
    """

    urn: str
    path: str
    raw: object

    @property
    def missing(self) -> bool:
        """Return whether there is no value; null counts as missing."""
        return self.raw is MISSING

    @property
    def unknown(self) -> bool:
        """Return whether the value is not known yet."""
        return self.raw is UNKNOWN

    @property
    def known(self) -> bool:
        """Return whether there is a value and it is known."""
        return self.raw is not MISSING and self.raw is not UNKNOWN

    @property
    def value(self) -> object:
        """Return the plain value, None if it is missing; raise `UnknownReached` if it is not known.

        Use it for scalars: a mapping with an unknown property is itself known.
        """
        if self.raw is UNKNOWN:
            raise UnknownReached(self)
        return None if self.raw is MISSING else self.raw

    @property
    def text(self) -> str | None:
        """Return a string value; None if it is missing."""
        value = self.value
        if value is None or isinstance(value, str):
            return value
        raise UnknownReached(self)

    @property
    def number(self) -> float | None:
        """Return a numeric value, or a string with a number; None if it is missing."""
        value = self.value
        if value is None:
            return None
        try:
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise UnknownReached(self)
            number = float(value)
        except (ValueError, OverflowError):
            raise UnknownReached(self) from None
        # Python parses 1e999 and .inf, but the APIs do not
        if not math.isfinite(number):
            raise UnknownReached(self)
        return number

    def at(self, *keys: str | int) -> Field:
        """Return the value below this one, by keys of mappings and indexes of lists."""
        field = self
        for key in keys:
            field = field._below(key)
        return field

    def elements(self) -> list[Field]:
        """Return the elements of a list; one unknown element if the list is not known."""
        if self.missing:
            return []
        raw = self.raw
        if isinstance(raw, list):
            items = cast("list[object]", raw)
            return [Field(self.urn, f"{self.path}[{index}]", _plain(item)) for index, item in enumerate(items)]
        return [Field(self.urn, f"{self.path}[*]", UNKNOWN)]

    def entries(self) -> Iterator[tuple[str, Field]]:
        """Yield the keys and values of a mapping; an unknown `*` if the mapping is not known."""
        if self.missing:
            return
        raw = self.raw
        if isinstance(raw, Mapping):
            for key, value in cast("Mapping[str, object]", raw).items():
                yield str(key), Field(self.urn, _join(self.path, str(key)), _plain(value))
            return
        yield "*", Field(self.urn, _join(self.path, "*"), UNKNOWN)

    def has(self, key: str) -> bool | None:
        """Return whether a mapping has a key, with any value; None if that is not known."""
        raw = self.raw
        if isinstance(raw, Mapping):
            return cast("Mapping[str, object]", raw).get(key) is not None
        return False if raw is MISSING else None

    def parsed(self) -> Field:
        """Return the document in a JSON string; the value itself if it is not a string, unknown if it is not JSON."""
        if not isinstance(self.raw, str):
            return self
        try:
            return Field(self.urn, self.path, _plain(json.loads(self.raw)))
        except ValueError:
            return Field(self.urn, self.path, UNKNOWN)

    def holds_unknown(self) -> bool:
        """Return whether it, or anything below it, is not known."""
        return _holds_unknown(self.raw)

    def _below(self, key: str | int) -> Field:
        raw = self.raw
        if isinstance(key, int):
            path = f"{self.path}[{key}]"
            if isinstance(raw, list):
                items = cast("list[object]", raw)
                return Field(self.urn, path, _plain(items[key]) if -len(items) <= key < len(items) else MISSING)
        else:
            path = _join(self.path, key)
            # Nearly all mappings are dicts, and this check takes a tenth of the time
            if isinstance(raw, dict) or isinstance(raw, Mapping):  # noqa: SIM101
                return Field(self.urn, path, _plain(cast("Mapping[str, object]", raw).get(key, MISSING)))
        return Field(self.urn, path, MISSING if raw is MISSING else UNKNOWN)


def _plain(value: object) -> object:
    return MISSING if value is None else value


def _join(path: str, key: str) -> str:
    """Append a key to a path. A key with dots or slashes is in brackets, as in the engine's property paths."""
    if not key.isalnum() and any(mark in key for mark in "./[]"):
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key


def _holds_unknown(raw: object) -> bool:
    if raw is UNKNOWN:
        return True
    if isinstance(raw, Mapping):
        return any(map(_holds_unknown, cast("Mapping[str, object]", raw).values()))
    return isinstance(raw, list) and any(map(_holds_unknown, cast("list[object]", raw)))


def scalar(field: Field) -> str | int | float | bool | None:
    """Return the value if it is a scalar; None if it is missing, unknown, a list or a mapping."""
    return field.raw if isinstance(field.raw, str | int | float | bool) else None


def is_one_of(field: Field, values: Collection[object]) -> bool:
    """Return whether the value is one of these scalars."""
    value = scalar(field)
    return value is not None and value in values


def number_or_unknown(field: Field) -> float | Unknown | None:
    """Return the value as a number, `UNKNOWN` if it is not one. Unlike `Field.number`, this does not end the rule."""
    try:
        return field.number
    except UnknownReached:
        return UNKNOWN


def boolean_or_unknown(field: Field) -> bool | Unknown | None:
    """Return the value of a boolean field, `UNKNOWN` if it is neither true nor false, such as a template."""
    if field.missing:
        return None
    return field.raw if isinstance(field.raw, bool) else UNKNOWN


def is_zero(value: object) -> bool:
    """Return whether the value is a Kubernetes quantity of zero, in any unit."""
    return not isinstance(value, bool) and (value == 0 or (isinstance(value, str) and bool(_ZERO.fullmatch(value))))


def sets_no_limit(field: Field) -> bool:
    """Return whether the quantity limits nothing: it is missing, or 0, which the kubelet reads as no limit."""
    return field.missing or is_zero(field.raw)
