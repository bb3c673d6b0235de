"""The POSIX user and group ids of sandboxes.

An id derives from a name, so it does not change when other classes or seats are added or removed: with another id an
owner could not read existing files. Classes and seats have separate ranges, far above the ids that images use.
"""

from __future__ import annotations

import hashlib

CLASS_IDS = range(100_000_000, 1_000_000_000)
SEAT_IDS = range(1_000_000_000, 2_000_000_000)


def class_id(name: str) -> int:
    """Return the uid and gid of the sandboxes of a class."""
    return _within(CLASS_IDS, f"class/{name}")


def seat_id(name: str) -> int:
    """Return the uid and gid of a seat."""
    return _within(SEAT_IDS, f"seat/{name}")


def _within(ids: range, text: str) -> int:
    return ids[int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % len(ids)]
