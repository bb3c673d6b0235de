"""Moments as they stand on objects and in tables: read, and written so that others read them alike."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(text: str | None) -> datetime | None:
    """A moment that somebody wrote; None for what is none, or could be any of two dozen."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None


def whole_second(text: str) -> datetime:
    """The second of a moment that has to be one; ValueError if it is none."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} is in no time zone")
    return found.astimezone(UTC).replace(microsecond=0)


def written(when: datetime) -> str:
    """A moment as our own notes have it."""
    return _zoned(when).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def in_seconds(when: datetime) -> str:
    """A moment as Kubernetes and AWS have it: whole seconds, so that texts sort as moments do."""
    return _zoned(when).strftime("%Y-%m-%dT%H:%M:%SZ")


def _zoned(when: datetime) -> datetime:
    if when.tzinfo is None:
        raise ValueError(f"{when} is in no time zone, and could be any of two dozen moments")
    return when.astimezone(UTC)
