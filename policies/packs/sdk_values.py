"""Convert the SDK's values to plain mappings, lists and scalars, with `UNKNOWN` for unknown values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from pulumi_policy.proxy import UnknownValueError

from agentenv.core.capabilities.unknown_values import UNKNOWN


def plain(value: object) -> object:
    """Convert a value and everything below it. The SDK's proxies raise for unknown values."""
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return plain_mapping(cast("Mapping[str, object]", value))
    if isinstance(value, Sequence):
        items = cast("Sequence[object]", value)
        return [_item(items, index) for index in range(len(items))]
    # An asset or an archive, which is not read
    return value if isinstance(value, int) else UNKNOWN


def plain_mapping(value: Mapping[str, object]) -> dict[str, object]:
    """Convert a mapping, such as the inputs of a resource."""
    converted: dict[str, object] = {}
    for key in value:
        try:
            converted[str(key)] = plain(value[key])
        except UnknownValueError:
            converted[str(key)] = UNKNOWN
    return converted


class LazyMapping(Mapping[str, object]):
    """A mapping that converts each value when it is read. Most outputs never are."""

    def __init__(self, props: Mapping[str, object]) -> None:
        self._props = props
        self._read: dict[str, object] = {}

    def __getitem__(self, key: str) -> object:
        if key not in self._read:
            try:
                self._read[key] = plain(self._props[key])
            except UnknownValueError:
                self._read[key] = UNKNOWN
        return self._read[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._props)

    def __len__(self) -> int:
        return len(self._props)


def _item(items: Sequence[object], index: int) -> object:
    try:
        return plain(items[index])
    except UnknownValueError:
        return UNKNOWN
