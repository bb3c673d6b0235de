"""The Connect protocol in JSON, as workspaced serves it: requests, framed streams and errors. It does no I/O."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

Document = dict[str, Any]

UNARY = {"Content-Type": "application/json", "Connect-Protocol-Version": "1"}
STREAM = {"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"}
_HEADER = struct.Struct(">BI")  # flags and length
_LAST = 0b10
_COMPRESSED = 0b1
# Output comes in pieces of 64 KiB; a list of 20,000 entries has a few MiB.
_MAX_FRAME = 64 << 20


class SandboxError(Exception):
    """A sandbox refused a request, or does not answer; `code` is that of the Connect protocol."""

    def __init__(self, code: str, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


_CODES = {
    400: "invalid_argument",
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    409: "aborted",
    413: "resource_exhausted",
    429: "resource_exhausted",
    502: "unavailable",
    503: "unavailable",
    504: "deadline_exceeded",
    507: "resource_exhausted",
}


def error_of(status: int, body: bytes) -> SandboxError:
    """Return the error of a response, from workspaced or from the gateway before it."""
    document = _parsed(body)
    code = document.get("code")
    message = document.get("message") or document.get("detail")
    return SandboxError(
        code if isinstance(code, str) else _CODES.get(status, "unknown"),
        message if isinstance(message, str) else f"the sandbox responded with status {status}",
        status,
    )


def result_of(body: bytes) -> Document:
    """Return the document of a response; raise a `SandboxError` where it is no JSON object."""
    document = _parsed(body)
    if not document and body.strip() != b"{}":
        raise SandboxError("unknown", "the response is not from a sandbox")
    return document


def frame(message: Mapping[str, Any]) -> bytes:
    """Return a message as a frame of a stream."""
    body = json.dumps(message).encode()
    return _HEADER.pack(0, len(body)) + body


@dataclass
class Frames:
    """Decodes the messages of a stream, in whatever pieces its bytes come."""

    _buffer: bytes = b""
    ended: bool = False

    def feed(self, data: bytes) -> Iterator[Document]:
        """Yield the messages that are complete; raise a `SandboxError` for the error at the end of a stream."""
        self._buffer += data
        while len(self._buffer) >= _HEADER.size and not self.ended:
            flags, length = cast("tuple[int, int]", _HEADER.unpack_from(self._buffer))
            if flags & _COMPRESSED or length > _MAX_FRAME:
                raise SandboxError("unknown", "the stream is not from a sandbox")
            if len(self._buffer) < _HEADER.size + length:
                return
            body = self._buffer[_HEADER.size : _HEADER.size + length]
            self._buffer = self._buffer[_HEADER.size + length :]
            document = result_of(body)
            if flags & _LAST:
                self.ended = True
                _raise_error(document)
            else:
                yield document

    def finish(self) -> None:
        """Raise a `SandboxError` where the connection ended before the stream."""
        if not self.ended:
            raise SandboxError("unavailable", "the connection to the sandbox was lost")


def _raise_error(document: Document) -> None:
    error = document.get("error")
    if isinstance(error, dict):
        fields = cast("Document", error)
        raise SandboxError(str(fields.get("code", "unknown")), str(fields.get("message", "")))


def _parsed(body: bytes) -> Document:
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return cast("Document", document) if isinstance(document, dict) else {}
