"""Read and write Smithy RPC v2 CBOR with botocore's own codec.

botocore writes requests and reads responses; an endpoint reads requests and writes responses. The shapes are the
same.
"""

from __future__ import annotations

from typing import Any

from botocore.parsers import RpcV2CBORParser
from botocore.serialize import RpcV2CBORSerializer

CONTENT_TYPE = "application/cbor"


def read(body: bytes, shape: Any) -> dict[str, Any]:
    """Return the parameters of a request's body."""
    parsed: dict[str, Any] = {}
    RpcV2CBORParser()._parse_payload({"body": body}, shape, parsed)
    return parsed


def write(value: dict[str, Any], shape: Any) -> bytes:
    """Return a response's body."""
    if shape is None:
        return b"\xa0"
    encoded = bytearray()
    RpcV2CBORSerializer()._serialize_data_item(encoded, value, shape)  # type: ignore[attr-defined]
    return bytes(encoded)


def write_plain(value: dict[str, str]) -> bytes:
    """Encode an object of strings, as errors are; it needs no shape."""
    codec = RpcV2CBORSerializer()
    encoded = bytearray(codec._get_initial_byte(codec.MAP_MAJOR_TYPE, len(value)))  # type: ignore[attr-defined]
    for text in (part for pair in value.items() for part in pair):
        codec._serialize_type_string(encoded, text, None, None)  # type: ignore[attr-defined]
    return bytes(encoded)
