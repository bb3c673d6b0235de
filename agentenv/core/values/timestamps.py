"""Moments as they stand on objects and in tables: read, and written so that others read them alike."""

from __future__ import annotations

from datetime import UTC, datetime

# Timestamps beyond these read as these: whatever is added to one in a decision still is a timestamp.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def moment(text: object) -> datetime | None:
    """A moment that somebody wrote; None for what is none, or could be any of two dozen."""
    if not isinstance(text, str) or not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return min(max(found, EARLIEST), LATEST) if found.tzinfo else None


def whole_second(text: object) -> datetime:
    """The second of a moment that has to be one; ValueError if it is none."""
    found = moment(text)
    if found is None:
        raise ValueError("it is no timestamp, or in no time zone")
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
