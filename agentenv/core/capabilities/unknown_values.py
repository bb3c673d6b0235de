"""Plain data as resources have it: mappings and lists of anything, in which a value may not be known yet."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, cast


class Unknown(Enum):
    """Its one value stands where a value will be; whoever reads raw resources puts it in place of their own mark."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN


def as_mapping(value: object) -> Mapping[str, object] | None:
    """The value where it is a mapping; nothing given is an empty one. None where it is unknown or something else."""
    if value is None:
        return {}
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None


def as_list(value: object) -> list[object] | None:
    """The value where it is a list; nothing given is an empty one. None where it is unknown or something else."""
    if value is None:
        return []
    return list(cast("list[object]", value)) if isinstance(value, list | tuple) else None


def as_number(value: object) -> int | None:
    """The value where it is a whole number; the engine hands whole numbers over as floats."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        return None
    return int(value)
