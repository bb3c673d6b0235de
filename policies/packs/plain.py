"""Values as the packs' SDK hands them over, made plain: mappings and lists, whole numbers, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from pulumi_policy.proxy import UnknownValueError

from model.capabilities.plain import UNKNOWN


def plain(value: object) -> object:
    """A value and all below it; the SDK's proxies raise where something is not known, and we go on behind it."""
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return plain_mapping(cast("Mapping[str, object]", value))
    if isinstance(value, Sequence):
        items = cast("Sequence[object]", value)
        return [_item(items, index) for index in range(len(items))]
    # An asset or an archive: there is something, and it is not read here
    return value if isinstance(value, int) else UNKNOWN


def plain_mapping(value: Mapping[str, object]) -> dict[str, object]:
    """A mapping, such as all inputs of a resource."""
    found: dict[str, object] = {}
    for key in value:
        try:
            found[str(key)] = plain(value[key])
        except UnknownValueError:
            found[str(key)] = UNKNOWN
    return found


def _item(items: Sequence[object], index: int) -> object:
    try:
        return plain(items[index])
    except UnknownValueError:
        return UNKNOWN
