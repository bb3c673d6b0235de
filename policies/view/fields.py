"""A value of a resource in its place: it is there, it is missing, or it is not known yet.

Whatever is read below a value that is not known is not known either, and the elements of a list that is not known are
one element that is not known: so that a rule which walks down a resource can lose no unknown on its way. A value of a
shape that nothing can be read from (a text where a mapping belongs) counts as not known: nobody can say what the API
will make of it.
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
    """Its one value stands where nothing is given."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
_ZERO: Final = re.compile(r"[+-]?(0+\.?0*|\.0+)([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?")


class UnknownReached(Exception):
    """A rule asked for a value that is not known: the core makes an indeterminate finding of it."""

    def __init__(self, field: Field) -> None:
        super().__init__(field.path)
        self.field = field


@dataclass(slots=True, unsafe_hash=True)
class Field:
    """One value: whose it is, where, and what it is (plain data, `MISSING` or `UNKNOWN`).

    Nobody changes one. It is not frozen all the same: a preview makes tens of thousands, and a frozen one takes three
    times as long to make.
    """

    urn: str
    path: str
    raw: object

    @property
    def missing(self) -> bool:
        """Nothing is given here; null is nothing."""
        return self.raw is MISSING

    @property
    def unknown(self) -> bool:
        """Something is or will be here, and nobody can say yet what."""
        return self.raw is UNKNOWN

    @property
    def known(self) -> bool:
        """A value is here."""
        return self.raw is not MISSING and self.raw is not UNKNOWN

    @property
    def value(self) -> object:
        """The plain value, None where it is missing; `UnknownReached` where it is not known.

        The property inside it that is not known does not make the whole unknown: this is for leaves.
        """
        if self.raw is UNKNOWN:
            raise UnknownReached(self)
        return None if self.raw is MISSING else self.raw

    @property
    def text(self) -> str | None:
        """The value where it is a text; None where it is missing."""
        value = self.value
        if value is None or isinstance(value, str):
            return value
        raise UnknownReached(self)

    @property
    def number(self) -> float | None:
        """The value where it is a number, or a text that is one; None where it is missing."""
        value = self.value
        if value is None:
            return None
        try:
            found = (
                float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else _fail(self)
            )
        except (ValueError, OverflowError):
            raise UnknownReached(self) from None
        # Written as 1e999 or .inf it is a number to Python, and to nobody else
        return found if math.isfinite(found) else _fail(self)

    def at(self, *keys: str | int) -> Field:
        """The value below this one; below a list where the key is a number."""
        found = self
        for key in keys:
            found = found._below(key)
        return found

    def elements(self) -> list[Field]:
        """The elements of a list; one that is not known where the list is not known."""
        if self.missing:
            return []
        raw = self.raw
        if isinstance(raw, list):
            items = cast("list[object]", raw)
            return [Field(self.urn, f"{self.path}[{index}]", _plain(item)) for index, item in enumerate(items)]
        return [Field(self.urn, f"{self.path}[*]", UNKNOWN)]

    def entries(self) -> Iterator[tuple[str, Field]]:
        """The keys and values of a mapping; one `*` that is not known where the mapping is not known."""
        if self.missing:
            return
        raw = self.raw
        if isinstance(raw, Mapping):
            for key, value in cast("Mapping[str, object]", raw).items():
                yield str(key), Field(self.urn, _join(self.path, str(key)), _plain(value))
            return
        yield "*", Field(self.urn, _join(self.path, "*"), UNKNOWN)

    def has(self, key: str) -> bool | None:
        """Whether a mapping has that key, whatever its value; None where that is not known."""
        raw = self.raw
        if isinstance(raw, Mapping):
            return cast("Mapping[str, object]", raw).get(key) is not None
        return False if raw is MISSING else None

    def parsed(self) -> Field:
        """The document in a text of JSON; the value itself where it is no text, unknown where it cannot be read."""
        if not isinstance(self.raw, str):
            return self
        try:
            return Field(self.urn, self.path, _plain(json.loads(self.raw)))
        except ValueError:
            return Field(self.urn, self.path, UNKNOWN)

    def holds_unknown(self) -> bool:
        """Whether it, or anything below it, is not known."""
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
            # Nearly all mappings are plain dictionaries, and asking for those takes a tenth of the time
            if isinstance(raw, dict) or isinstance(raw, Mapping):  # noqa: SIM101
                return Field(self.urn, path, _plain(cast("Mapping[str, object]", raw).get(key, MISSING)))
        return Field(self.urn, path, MISSING if raw is MISSING else UNKNOWN)


def _plain(value: object) -> object:
    return MISSING if value is None else value


def _join(path: str, key: str) -> str:
    """A key that has dots or slashes of its own stands in brackets, as the engine writes property paths."""
    if not key.isalnum() and any(mark in key for mark in "./[]"):
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key


def _holds_unknown(raw: object) -> bool:
    if raw is UNKNOWN:
        return True
    if isinstance(raw, Mapping):
        return any(map(_holds_unknown, cast("Mapping[str, object]", raw).values()))
    return isinstance(raw, list) and any(map(_holds_unknown, cast("list[object]", raw)))


def _fail(field: Field) -> float:
    raise UnknownReached(field)


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
