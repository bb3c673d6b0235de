"""Text for people at a terminal: its width, counts, and characters that would control it."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_WIDTH = 160


def text_width(stream: TextIO) -> int:
    """Return the width for text. Without a terminal lines are not wrapped, so that a pipe can search them."""
    return min(shutil.get_terminal_size().columns, MAX_WIDTH) if stream.isatty() else sys.maxsize


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines with aligned columns, which are not wrapped."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def has_colour(stream: TextIO) -> bool:
    """Return whether text in a stream may have colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def plural(number: int, noun: str) -> str:
    """Return `1 resource` or `2 resources`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def escape(text: str) -> str:
    """Escape the characters that would control a terminal: a file or a name may contain any."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
