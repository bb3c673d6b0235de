"""Parse and format timestamps of Kubernetes objects, annotations and tables."""

from __future__ import annotations

from datetime import UTC, datetime

# Parsed timestamps are clamped to this range, so that adding a duration to one cannot overflow.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def parse_timestamp(text: object) -> datetime | None:
    """Return the timestamp of a text; None if it is not a timestamp or has no time zone."""
    if not isinstance(text, str) or not text:
        return None
    try:
        timestamp = datetime.fromisoformat(text)
    except ValueError:
        return None
    return min(max(timestamp, EARLIEST), LATEST) if timestamp.tzinfo else None


def parse_whole_second(text: object) -> datetime:
    """Return the timestamp of a text without fractions of a second; raise `ValueError` if it is not a timestamp."""
    timestamp = parse_timestamp(text)
    if timestamp is None:
        raise ValueError("it is not a timestamp, or has no time zone")
    return timestamp.astimezone(UTC).replace(microsecond=0)


def format_timestamp(timestamp: datetime) -> str:
    """Return a timestamp with milliseconds, as our annotations have it."""
    return _in_utc(timestamp).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_whole_seconds(timestamp: datetime) -> str:
    """Return a timestamp in whole seconds, as Kubernetes and AWS have it; the texts sort by time."""
    return _in_utc(timestamp).strftime("%Y-%m-%dT%H:%M:%SZ")


def _in_utc(timestamp: datetime) -> datetime:
    if timestamp.tzinfo is None:
        raise ValueError(f"{timestamp} has no time zone")
    return timestamp.astimezone(UTC)
