"""Convert property values between protobuf structures and plain Python values.

Values are dict, list, str, int, float, bool or None. An unknown value is `UNKNOWN`. The paths of secrets are kept apart
from the values, and applied again when these are encoded.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any, Final

from google.protobuf import struct_pb2

from agentenv.core.capabilities.unknown_values import PLACEHOLDERS, UNKNOWN_STRING

Path = tuple[str | int, ...]

SIGNATURE_KEY: Final = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a marker of the protocol, not a password
OUTPUT_SIGNATURE: Final = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
RESOURCE_SIGNATURE: Final = "5cf8f73096256a8f31e491e813e4eb8e"


class Unknown:
    """A value that is known only after another resource is created."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __deepcopy__(self, memo: object) -> Unknown:
        return self


UNKNOWN: Final = Unknown()


def has_unknown(value: object) -> bool:
    """Return whether a value contains an unknown one."""
    if isinstance(value, dict):
        return any(has_unknown(v) for v in value.values())
    if isinstance(value, list):
        return any(has_unknown(v) for v in value)
    return value is UNKNOWN


def without_none(value: Any) -> Any:
    """Return a value without its None parts, at every level."""
    if isinstance(value, dict):
        return {key: without_none(item) for key, item in value.items() if item is not None}
    return [without_none(item) for item in value] if isinstance(value, list) else value


def decode(struct: struct_pb2.Struct) -> tuple[dict[str, Any], frozenset[Path]]:
    """Return the plain values of a structure, and the paths of its secrets."""
    secrets: set[Path] = set()
    return {key: _decode(value, (key,), secrets) for key, value in struct.fields.items()}, frozenset(secrets)


def _decode(value: struct_pb2.Value, path: Path, secrets: set[Path]) -> Any:  # noqa: PLR0911 - a case a kind of value
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return UNKNOWN if value.string_value in PLACEHOLDERS else value.string_value
    if kind == "number_value":
        return int(value.number_value) if value.number_value.is_integer() else value.number_value
    if kind == "bool_value":
        return value.bool_value
    if kind == "list_value":
        return [_decode(item, (*path, i), secrets) for i, item in enumerate(value.list_value.values)]
    if kind == "struct_value":
        fields = value.struct_value.fields
        signature = fields[SIGNATURE_KEY].string_value if SIGNATURE_KEY in fields else None
        if signature == SECRET_SIGNATURE:
            secrets.add(path)
            return _decode(fields["value"], path, secrets)
        if signature == OUTPUT_SIGNATURE:
            if "secret" in fields and fields["secret"].bool_value:
                secrets.add(path)
            return _decode(fields["value"], path, secrets) if "value" in fields else UNKNOWN
        if signature == RESOURCE_SIGNATURE:
            return _decode(fields["id"], path, secrets) if "id" in fields else UNKNOWN
        return {key: _decode(item, (*path, key), secrets) for key, item in fields.items()}
    return None


def encode(values: Mapping[str, Any], secrets: Iterable[Path] = ()) -> struct_pb2.Struct:
    """Return a structure of plain values, with the values at the secret paths wrapped."""
    struct = struct_pb2.Struct()
    hidden = frozenset(secrets)
    for key, value in values.items():
        struct.fields[key].CopyFrom(_encode(value, (key,), hidden))
    return struct


def _encode(value: Any, path: Path, secrets: frozenset[Path]) -> struct_pb2.Value:
    if path in secrets:
        inner = _encode(value, path, secrets - {path})
        wrapped = struct_pb2.Value()
        wrapped.struct_value.fields[SIGNATURE_KEY].string_value = SECRET_SIGNATURE
        wrapped.struct_value.fields["value"].CopyFrom(inner)
        return wrapped
    out = struct_pb2.Value()
    if value is None:
        out.null_value = struct_pb2.NULL_VALUE
    elif value is UNKNOWN:
        out.string_value = UNKNOWN_STRING
    elif isinstance(value, bool):
        out.bool_value = value
    elif isinstance(value, int | float):
        out.number_value = value
    elif isinstance(value, str):
        out.string_value = value
    elif isinstance(value, datetime.datetime):
        out.string_value = timestamp(value)
    elif isinstance(value, Mapping):
        out.struct_value.SetInParent()
        for key, item in value.items():
            out.struct_value.fields[str(key)].CopyFrom(_encode(item, (*path, key), secrets))
    elif isinstance(value, list | tuple | set | frozenset):
        out.list_value.SetInParent()
        for index, item in enumerate(value):
            out.list_value.values.append(_encode(item, (*path, index), secrets))
    else:
        raise TypeError(f"{format_path(path)}: a value of type {type(value).__name__} cannot be encoded")
    return out


def timestamp(time: datetime.datetime) -> str:
    """Return a time in ISO 8601, in UTC."""
    return time.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_path(path: Path) -> str:
    """Return a path as text, such as `ingress[0].cidrBlocks`, with quotes where a key needs them."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("_", "").isalnum():
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text
