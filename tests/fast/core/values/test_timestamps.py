"""Tests of timestamps: they round-trip, sort by time, and need a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agentenv.core.values.timestamps import format_timestamp, format_whole_seconds, parse_timestamp, parse_whole_second

ZONES = some.integers(-12, 14).map(lambda hours: timezone(timedelta(hours=hours)))
MOMENTS = some.datetimes(datetime(2001, 1, 2), datetime(2199, 1, 1), timezones=ZONES)  # noqa: DTZ001 - given zones
MILLISECOND = timedelta(milliseconds=1)


@given(MOMENTS)
def test_timestamps_round_trip(when: datetime) -> None:
    read = parse_timestamp(format_timestamp(when))
    assert read is not None
    assert timedelta(0) <= when - read < MILLISECOND
    assert parse_whole_second(format_whole_seconds(when)) == when.astimezone(UTC).replace(microsecond=0)


@given(MOMENTS, MOMENTS)
def test_formatted_timestamps_sort_by_time(some_time: datetime, other_time: datetime) -> None:
    first, second = (when.replace(microsecond=0) for when in (some_time, other_time))
    assert (format_whole_seconds(first) < format_whole_seconds(second)) == (first < second)
    assert (format_timestamp(first) < format_timestamp(second)) == (first < second)


@pytest.mark.parametrize("text", [None, "", "soon", "2026-11-18T20:00:00", "2026-13-01T00:00:00Z"])
def test_invalid_timestamps_are_none(text: str | None) -> None:
    assert parse_timestamp(text) is None


def test_timestamps_without_a_time_zone_are_refused() -> None:
    nowhere = datetime(2026, 11, 18)  # noqa: DTZ001 - on purpose
    for write in (format_timestamp, format_whole_seconds):
        with pytest.raises(ValueError, match="no time zone"):
            write(nowhere)
    with pytest.raises(ValueError, match="no time zone"):
        parse_whole_second("2026-11-18T20:00:00")
