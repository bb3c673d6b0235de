"""Untyped resource properties: mappings and lists in which a value may not be known yet."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, cast


class Unknown(Enum):
    """A placeholder for a value that is not known yet; readers of raw resources map their own placeholders to it."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN


def as_mapping(value: object) -> Mapping[str, object] | None:
    """Return the value as a mapping, empty where it is None; None where it is unknown or of another type."""
    if value is None:
        return {}
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None


def as_list(value: object) -> list[object] | None:
    """Return the value as a list, empty where it is None; None where it is unknown or of another type."""
    if value is None:
        return []
    return list(cast("list[object]", value)) if isinstance(value, list | tuple) else None


def as_number(value: object) -> int | None:
    """Return the value as an integer, or None; the Pulumi engine passes integers as floats."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        return None
    return int(value)
