"""Answers of a resolver, as DNS has them on the wire: IPv4 addresses of the names that it knows, and nothing else."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

_HEADER = struct.Struct("!6H")
_RESPONSE, _RECURSION_DESIRED, _RECURSION_AVAILABLE = 0x8000, 0x0100, 0x0080
_FORMAT_ERROR, _NO_SUCH_NAME, _NOT_IMPLEMENTED = 1, 3, 4
_A, _ANY, _INTERNET = 1, 255, 1
_SECONDS = 5
_TO_QUESTION = 0xC000 | _HEADER.size


def answer(query: bytes, addresses: Callable[[str], list[str] | None]) -> bytes:
    """Return the response to a query; `addresses` returns None for a name that does not exist."""
    if len(query) < _HEADER.size:
        return b""
    number, flags, questions, *_ = _HEADER.unpack_from(query)
    flags = _RESPONSE | _RECURSION_AVAILABLE | (flags & (_RECURSION_DESIRED | 0x7800))
    if flags & 0x7800:
        return _HEADER.pack(number, flags | _NOT_IMPLEMENTED, 0, 0, 0, 0)
    if questions != 1:
        return _HEADER.pack(number, flags | _FORMAT_ERROR, 0, 0, 0, 0)
    try:
        name, end = _name(query, _HEADER.size)
        kind, of_class = struct.unpack_from("!2H", query, end)
    except (ValueError, IndexError, struct.error):
        return _HEADER.pack(number, flags | _FORMAT_ERROR, 0, 0, 0, 0)
    question = query[_HEADER.size : end + 4]
    found = addresses(name) if of_class == _INTERNET else None
    if found is None:
        return _HEADER.pack(number, flags | _NO_SUCH_NAME, 1, 0, 0, 0) + question
    rows = [socket.inet_aton(ip) for ip in found] if kind in {_A, _ANY} else []
    records = b"".join(struct.pack("!3HIH", _TO_QUESTION, _A, _INTERNET, _SECONDS, 4) + row for row in rows)
    return _HEADER.pack(number, flags, 1, len(rows), 0, 0) + question + records


def _name(query: bytes, at: int) -> tuple[str, int]:
    """Return the name at a place of a query, in lower case, and the place after it."""
    labels: list[str] = []
    while (length := query[at]) != 0:
        if length > 63:  # a pointer has nothing to point to in a question
            raise ValueError("a label is too long")
        labels.append(query[at + 1 : at + 1 + length].decode("ascii").lower())
        at += 1 + length
    return ".".join(labels), at + 1
