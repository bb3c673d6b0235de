"""Untyped resource properties: mappings and lists in which a value may not be known yet."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, cast


class Unknown(Enum):
    """A placeholder for a value that is not known yet; readers of raw resources map their own placeholders to it."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN
# The placeholders that the Pulumi engine writes for unknown values: for a string, and for each other type of value
UNKNOWN_STRING: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
PLACEHOLDERS: Final = frozenset(
    {
        UNKNOWN_STRING,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)


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
