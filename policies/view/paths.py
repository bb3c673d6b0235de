"""Paths on a file system, compared part by part once `.`, `..` and doubled slashes are followed."""

from __future__ import annotations

Segments = tuple[str, ...]


def segments(path: str) -> Segments:
    """The parts of an absolute path; the root has none, and nothing leads above it."""
    found: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del found[-1:]
        elif part not in ("", "."):
            found.append(part)
    return tuple(found)


def holds(outer: Segments, inner: Segments) -> bool:
    """Whether the one is the other, or a folder above it."""
    return inner[: len(outer)] == outer
