"""The user and group ids under which sandboxes write to a file system.

They follow from a name, so that adding, removing and reordering others changes nothing: an id that moved would lock its
owner out of what was written under the old one. Classes and seats have ranges apart from each other and far above those
that images use for their own accounts.
"""

from __future__ import annotations

import hashlib

CLASS_IDS = range(100_000_000, 1_000_000_000)
SEAT_IDS = range(1_000_000_000, 2_000_000_000)


def class_id(name: str) -> int:
    """The uid and gid of a class's sandboxes."""
    return _within(CLASS_IDS, f"class/{name}")


def seat_id(name: str) -> int:
    """The uid and gid of a declared workspace."""
    return _within(SEAT_IDS, f"seat/{name}")


def _within(ids: range, text: str) -> int:
    return ids[int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % len(ids)]
