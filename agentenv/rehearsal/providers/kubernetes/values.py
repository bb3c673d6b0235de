"""Values between the engine and the API server: unknowns, secrets by path, and keys that the SDK spells otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.common.property_values import (
    UNKNOWN,
    Path,
    Unknown,
    decode,
    encode,
    format_path,
    has_unknown,
)

if TYPE_CHECKING:
    from google.protobuf import struct_pb2

__all__ = [
    "UNKNOWN",
    "Bag",
    "Path",
    "Unknown",
    "format_path",
    "has_unknown",
    "parse_path",
    "project",
    "to_api",
    "to_sdk",
]

# Definitions have keys with dashes, which the typed SDK cannot spell.
SPELLINGS: Final = {
    "x_kubernetes_embedded_resource": "x-kubernetes-embedded-resource",
    "x_kubernetes_int_or_string": "x-kubernetes-int-or-string",
    "x_kubernetes_list_map_keys": "x-kubernetes-list-map-keys",
    "x_kubernetes_list_type": "x-kubernetes-list-type",
    "x_kubernetes_map_type": "x-kubernetes-map-type",
    "x_kubernetes_preserve_unknown_fields": "x-kubernetes-preserve-unknown-fields",
    "x_kubernetes_validations": "x-kubernetes-validations",
}
_STEP: Final = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]|\.?([^.\[\]]+)')
_BACK: Final = {v: k for k, v in SPELLINGS.items()}


@dataclass(frozen=True)
class Bag:
    """Values, and which of them are secret. The values are never shown: a log may be the next to read them."""

    values: dict[str, Any] = field(default_factory=dict, repr=False)
    secrets: frozenset[Path] = frozenset()

    @staticmethod
    def of(struct: struct_pb2.Struct) -> Bag:
        return Bag(*decode(struct))

    def struct(self) -> struct_pb2.Struct:
        return encode(self.values, self.secrets)


def _respelled(value: Any, spelling: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {spelling(k): _respelled(v, spelling) for k, v in value.items()}
    if isinstance(value, list):
        return [_respelled(v, spelling) for v in value]
    return value


def to_api(values: Mapping[str, Any]) -> dict[str, Any]:
    """As the API server spells it, without the fields that are null: to it, null and absent are the same."""
    return _respelled(_without_nulls(dict(values)), lambda key: SPELLINGS.get(key, key))


def parse_path(text: str) -> Path:
    """A path as people write it, `spec.ports[0]["a.b"]`, taken apart."""
    parts: list[str | int] = []
    for match in _STEP.finditer(text):
        quoted, index, plain = match.groups()
        if index is not None:
            parts.append(int(index))
        else:
            parts.append(plain if plain is not None else quoted.replace('\\"', '"'))
    return tuple(parts)


def to_sdk(values: Mapping[str, Any]) -> dict[str, Any]:
    return _respelled(dict(values), lambda key: _BACK.get(key, key))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value]
    return value


def project(secrets: Iterable[Path], values: Mapping[str, Any]) -> frozenset[Path]:
    """Where the secrets of the inputs are in other values of the same shape.

    Lists are hidden whole: the server may order them anew, and a secret must not come to light by moving.
    """
    return frozenset(place for path in secrets if (place := _place(path, values)) is not None)


def _place(path: Path, values: Any) -> Path | None:
    for depth, key in enumerate(path):
        if isinstance(key, int):
            return path[:depth]
        if not isinstance(values, Mapping):
            return path[:depth] or None  # another shape than the inputs had: hide what there is
        if key not in values:
            return None
        values = values[key]
    return path
