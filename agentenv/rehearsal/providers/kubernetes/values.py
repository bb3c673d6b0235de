"""Convert values between the engine and the API server: unknowns, secrets and keys with dashes."""

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
    "Path",
    "PropertyMap",
    "Unknown",
    "format_path",
    "has_unknown",
    "parse_path",
    "project",
    "to_api",
    "to_sdk",
]

# Definitions have keys with dashes, which the typed SDK cannot spell.
KEY_NAMES: Final = {
    "x_kubernetes_embedded_resource": "x-kubernetes-embedded-resource",
    "x_kubernetes_int_or_string": "x-kubernetes-int-or-string",
    "x_kubernetes_list_map_keys": "x-kubernetes-list-map-keys",
    "x_kubernetes_list_type": "x-kubernetes-list-type",
    "x_kubernetes_map_type": "x-kubernetes-map-type",
    "x_kubernetes_preserve_unknown_fields": "x-kubernetes-preserve-unknown-fields",
    "x_kubernetes_validations": "x-kubernetes-validations",
}
_STEP: Final = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]|\.?([^.\[\]]+)')
_SDK_KEYS: Final = {v: k for k, v in KEY_NAMES.items()}


@dataclass(frozen=True)
class PropertyMap:
    """Property values with the paths of secrets. The repr omits the values, so that logs do not contain them."""

    values: dict[str, Any] = field(default_factory=dict, repr=False)
    secrets: frozenset[Path] = frozenset()

    @staticmethod
    def of(struct: struct_pb2.Struct) -> PropertyMap:
        return PropertyMap(*decode(struct))

    def struct(self) -> struct_pb2.Struct:
        return encode(self.values, self.secrets)


def _renamed_keys(value: Any, spelling: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {spelling(k): _renamed_keys(v, spelling) for k, v in value.items()}
    if isinstance(value, list):
        return [_renamed_keys(v, spelling) for v in value]
    return value


def to_api(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with the API's keys and without nulls, which the server treats as absent."""
    return _renamed_keys(_without_nulls(dict(values)), lambda key: KEY_NAMES.get(key, key))


def parse_path(text: str) -> Path:
    """Parse a path such as `spec.ports[0]["a.b"]`."""
    parts: list[str | int] = []
    for match in _STEP.finditer(text):
        quoted, index, plain = match.groups()
        if index is not None:
            parts.append(int(index))
        else:
            parts.append(plain if plain is not None else quoted.replace('\\"', '"'))
    return tuple(parts)


def to_sdk(values: Mapping[str, Any]) -> dict[str, Any]:
    return _renamed_keys(dict(values), lambda key: _SDK_KEYS.get(key, key))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value]
    return value


def project(secrets: Iterable[Path], values: Mapping[str, Any]) -> frozenset[Path]:
    """Return the paths of the inputs' secrets in other values of the same shape.

    A list with a secret is secret as a whole: the server may reorder it.
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
