"""Bounded output for models: the beginning and the end, and between them how much was cut. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

HEAD, TAIL = 8 << 10, 24 << 10
MAX_LINE = 2000


@dataclass
class Bounded:
    """Collects output of any length, and keeps its beginning and its end."""

    head_bytes: int = HEAD
    tail_bytes: int = TAIL
    length: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def add(self, data: bytes) -> None:
        """Add output."""
        self.length += len(data)
        room = self.head_bytes - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > 2 * self.tail_bytes:
            del self._tail[: -self.tail_bytes]

    def text(self) -> str:
        """Return what is kept, and say what was cut."""
        tail = self._tail[-self.tail_bytes :]
        cut = self.length - len(self._head) - len(tail)
        between = f"\n[... {cut} bytes of {self.length} were cut here ...]\n".encode() if cut else b""
        return (bytes(self._head) + between + bytes(tail)).decode(errors="replace")


def lines_of(text: str, first: int, most: int) -> tuple[str, int, int]:
    """Return lines from the first one on, with the number of lines that are shown and that there are."""
    rows = text.splitlines()
    chosen = [row if len(row) <= MAX_LINE else f"{row[:MAX_LINE]} [... line cut]" for row in rows[first - 1 :][:most]]
    return "\n".join(chosen), len(chosen), len(rows)
