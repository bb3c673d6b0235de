"""Grants of a workspace: what it may have at most, below what its class gives. Pure.

An absent part is what the class gives. A child has the meet of its own grants and those of its parent, so no descendant
has more than any of its ancestors.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar, cast, get_args

from agentenv.config.sections.capabilities import Word
from agentenv.config.sections.classes import SizeName
from agentenv.core.values.object_fields import parsed_object
from agentenv.core.values.timestamps import EARLIEST, format_timestamp, parse_timestamp

T = TypeVar("T")
_SIZES: tuple[SizeName, ...] = get_args(SizeName)
_HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Grants:
    """What a workspace may have at most; None is what its class gives."""

    ports: frozenset[int] | None = None  # of its programs, that the gateway opens
    capabilities: frozenset[Word] | None = None
    size: SizeName | None = None  # the largest that it may get
    ends: datetime | None = None  # it is deleted then

    def meet(self, other: Grants) -> Grants:
        """Return what both grant."""
        return Grants(
            _meet(self.ports, other.ports, frozenset[int].intersection),
            _meet(self.capabilities, other.capabilities, frozenset[Word].intersection),
            _meet(self.size, other.size, _smaller),
            _meet(self.ends, other.ends, min),
        )

    def beyond(self, other: Grants) -> tuple[str, ...]:
        """Return the parts that name more than other grants do; an absent part names nothing."""
        least = self.meet(other)
        return tuple(
            part
            for part in ("ports", "capabilities", "size", "ends")
            if getattr(self, part) is not None and getattr(self, part) != getattr(least, part)
        )

    def allows_port(self, port: int) -> bool:
        """Return whether the gateway may open a port."""
        return self.ports is None or port in self.ports

    def allows_size(self, size: SizeName) -> bool:
        """Return whether a workspace may have a size."""
        return self.size is None or _SIZES.index(size) <= _SIZES.index(self.size)

    def allows_identity(self) -> bool:
        """Return whether its programs may exchange their token for credentials and secrets."""
        return self.capabilities is None or "identity" in self.capabilities


EVERYTHING: Final = Grants()
# Of an annotation that cannot be read: whoever wrote it granted less than the class.
NOTHING: Final = Grants(frozenset(), frozenset(), _SIZES[0], EARLIEST)


def format_grants(grants: Grants) -> str | None:
    """Return grants as the text of their annotation; None, which removes it, where the class decides alone."""
    if grants == EVERYTHING:
        return None
    document = {
        "ports": None if grants.ports is None else sorted(grants.ports),
        "capabilities": None if grants.capabilities is None else sorted(grants.capabilities),
        "size": grants.size,
        "ends": None if grants.ends is None else format_timestamp(grants.ends),
    }
    return json.dumps({key: value for key, value in document.items() if value is not None}, separators=(",", ":"))


def read_grants(annotation: object) -> Grants:
    """Return the grants that an annotation has; nothing where it cannot be read."""
    if annotation is None:
        return EVERYTHING
    document = parsed_object(annotation)
    if document is None or document.keys() - {"ports", "capabilities", "size", "ends"}:
        return NOTHING
    ports, capabilities = document.get("ports"), document.get("capabilities")
    size, ends = document.get("size"), document.get("ends")
    end = parse_timestamp(ends)
    if (
        not _are(ports, lambda port: type(port) is int and 0 < port <= _HIGHEST_PORT)
        or not _are(capabilities, lambda word: word in get_args(Word))
        or not (size is None or (isinstance(size, str) and size in _SIZES))
        or (end is None) != (ends is None)
    ):
        return NOTHING
    return Grants(
        None if ports is None else frozenset(cast("list[int]", ports)),
        None if capabilities is None else frozenset(cast("list[Word]", capabilities)),
        next((name for name in _SIZES if name == size), None),
        end,
    )


def _smaller(first: SizeName, second: SizeName) -> SizeName:
    return first if _SIZES.index(first) <= _SIZES.index(second) else second


def _are(values: object, is_valid: Callable[[Any], bool]) -> bool:
    """Return whether a part is absent, or a list of such values."""
    if values is None:
        return True
    return isinstance(values, list) and all(
        isinstance(each, str | int) and is_valid(each) for each in cast("Any", values)
    )


def _meet(first: T | None, second: T | None, least: Callable[[T, T], T]) -> T | None:
    if first is None or second is None:
        return second if first is None else first
    return least(first, second)
