"""Smithy RPC v2 CBOR, both ways round, by botocore's own codec.

botocore writes requests and reads answers; an endpoint reads requests and writes answers. The shapes are the same.
"""

from __future__ import annotations

from typing import Any

from botocore.parsers import RpcV2CBORParser
from botocore.serialize import RpcV2CBORSerializer

CONTENT_TYPE = "application/cbor"


def read(body: bytes, shape: Any) -> dict[str, Any]:
    """Parameters from a request's body."""
    parsed: dict[str, Any] = {}
    RpcV2CBORParser()._parse_payload({"body": body}, shape, parsed)
    return parsed


def write(value: dict[str, Any], shape: Any) -> bytes:
    """An answer's body."""
    if shape is None:
        return b"\xa0"
    encoded = bytearray()
    RpcV2CBORSerializer()._serialize_data_item(encoded, value, shape)  # type: ignore[attr-defined]
    return bytes(encoded)


def write_plain(value: dict[str, str]) -> bytes:
    """An object of strings, which needs no shape: how errors are told."""
    codec = RpcV2CBORSerializer()
    encoded = bytearray(codec._get_initial_byte(codec.MAP_MAJOR_TYPE, len(value)))  # type: ignore[attr-defined]
    for text in (part for pair in value.items() for part in pair):
        codec._serialize_type_string(encoded, text, None, None)  # type: ignore[attr-defined]
    return bytes(encoded)
