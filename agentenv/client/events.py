"""Server-sent events, as the service streams them: their messages, in whatever pieces their bytes come."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# The longest message has a workspace, which has some KiB.
_MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class Message:
    """A message of the stream: `event`, `workspace`, `removed`, `gap` or `ready`, with its document."""

    kind: str
    data: dict[str, Any]


@dataclass
class EventDecoder:
    """Decodes a stream; `cursor` is the id of the last message, from which another stream continues."""

    cursor: str | None = None
    _buffer: bytes = b""
    _fields: dict[str, str] = field(default_factory=dict[str, str])

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that are complete; raise `ValueError` for bytes that are none of a stream."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if len(self._buffer) > _MOST_BYTES:
            raise ValueError("the stream has a line without an end")
        for line in lines:
            if line:
                name, _, value = line.decode().removesuffix("\r").partition(":")
                self._fields[name] = value.removeprefix(" ")
                continue
            fields, self._fields = self._fields, {}
            if "id" in fields:
                self.cursor = fields["id"]
            if "data" in fields:
                yield Message(fields.get("event", "message"), json.loads(fields["data"]))
