"""Tests of the ledger's rows, and of the rows that follow from holdings."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agentenv.core.ledger.holdings import UPDATE_INTERVAL, Holding, Pod, Span, is_worth_writing, spans
from agentenv.core.ledger.rows import NO_POD, Row, month_start, round_amount, row_from_item, row_to_item, split_by_day
from agentenv.core.lifecycle.clock_skew import SKEW
from agentenv.core.values.timestamps import format_whole_seconds, parse_whole_second

DAY = datetime(2026, 11, 17, tzinfo=UTC)
NOON = DAY.replace(hour=12)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
POD = Pod(uid="p1", began=NOON, cores=Decimal("0.1"), memory_gib=Decimal("0.5"))
HELD = Holding(
    owner="u-1",
    claim="c1",
    sandbox_class="standard",
    workspace="w-1",
    since=NOON + MINUTE,
    pods=(POD,),
    storage_gib=Decimal(5),
    volume="pv-1",
)


def rows(found: list[Span]) -> list[tuple[str, datetime, datetime, bool]]:
    return [(span.row.pod, span.row.began, span.row.ended, span.row.closed) for span in found]


def row(began: datetime, ended: datetime, pod: str = "p1", *, claim: str = "c1", closed: bool = False) -> Row:
    return Row(
        owner="u-1",
        claim=claim,
        pod=pod,
        began=began,
        ended=ended,
        sandbox_class="standard",
        workspace="w-1",
        closed=closed,
    )


def test_a_row_survives_the_table() -> None:
    whole = replace(row(NOON, NOON + HOUR), task="t", cpu_seconds=Decimal("360.25"), source="prometheus/metered")
    assert row_from_item(row_to_item(whole, NOON)) == whole
    assert row_to_item(whole, NOON)["expires"] == int(NOON.timestamp())
    assert "open" in row_to_item(whole)
    assert "open" not in row_to_item(replace(whole, closed=True))


@pytest.mark.parametrize(
    "wrong",
    [
        {"began": datetime(2026, 1, 1)},  # noqa: DTZ001 - that is what is wrong
        {"ended": NOON - HOUR},
        {"owner": ""},
        {"claim": "a#b"},
    ],
)
def test_invalid_rows_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="row"):
        replace(row(NOON, NOON), **wrong)  # pyright: ignore[reportArgumentType]


@given(some.datetimes(timezones=some.just(UTC)), some.integers(0, 40 * 86_400))
def test_the_parts_of_an_interval_by_day_add_up_to_it(began: datetime, seconds: int) -> None:
    if began.year > 9000:
        return
    began = began.replace(microsecond=0)
    ended = began + timedelta(seconds=seconds)
    days = list(split_by_day(began, ended))
    assert sum((end - start for start, end in days), timedelta()) == ended - began
    assert all(start.date() == (end - timedelta(seconds=1)).date() for start, end in days)
    assert [end for _, end in days[:-1]] == [start for start, _ in days[1:]]


def test_formatted_timestamps_sort_by_time() -> None:
    assert parse_whole_second(format_whole_seconds(NOON)) == NOON
    assert parse_whole_second("2026-11-17T13:00:00.123+01:00") == NOON
    assert month_start(NOON) == NOON.replace(day=1, hour=0)
    assert round_amount(Decimal("1.00000049")) == Decimal(1)


def test_warm_time_before_the_claim_is_not_in_the_ledger() -> None:
    early = replace(HELD, pods=(replace(POD, began=DAY),))
    assert rows(spans([early], [], NOON + HOUR)) == [("p1", NOON + MINUTE, NOON + HOUR, False)]


def test_a_pass_writes_the_rows_of_missed_days() -> None:
    now = NOON + timedelta(days=2)
    found = rows(spans([HELD], [], now))
    assert [(began, closed) for _, began, _, closed in found] == [
        (NOON + MINUTE, True),
        (DAY + timedelta(days=1), True),
        (DAY + timedelta(days=2), False),
    ]
    assert found[-1][2] == now


def test_an_open_row_is_continued() -> None:
    there = row(NOON + MINUTE, NOON + HOUR)
    (span,) = spans([HELD], [there], NOON + 2 * HOUR)
    assert span.row.sort_key == there.sort_key
    assert span.row.ended == NOON + 2 * HOUR


def test_a_clock_that_is_behind_does_not_shorten_a_row() -> None:
    there = row(NOON + MINUTE, NOON + HOUR)
    (span,) = spans([HELD], [there], NOON + HOUR / 2)
    assert span.row.ended == there.ended


def test_a_suspended_workspace_has_rows_of_storage_only() -> None:
    asleep = replace(HELD, pods=(), asleep_since=NOON + HOUR)
    found = rows(spans([asleep], [row(NOON + MINUTE, NOON + HOUR / 2)], NOON + 3 * HOUR))
    assert sorted(found) == [(NO_POD, NOON + HOUR, NOON + 3 * HOUR, False), ("p1", NOON + MINUTE, NOON + HOUR, True)]


def test_a_row_beyond_the_end_of_its_pod_is_corrected() -> None:
    asleep = replace(HELD, pods=(), asleep_since=NOON + HOUR)
    found = rows(spans([asleep], [row(NOON + MINUTE, NOON + 2 * HOUR)], NOON + 3 * HOUR))
    assert ("p1", NOON + MINUTE, NOON + HOUR, True) in found


def test_a_suspended_interval_ends_with_the_next_pod() -> None:
    second = replace(POD, uid="p2", began=NOON + 5 * HOUR)
    found = rows(spans([replace(HELD, pods=(second,))], [row(NOON + HOUR, NOON + 2 * HOUR, NO_POD)], NOON + 6 * HOUR))
    assert (NO_POD, NOON + HOUR, NOON + 5 * HOUR, True) in found
    assert ("p2", NOON + 5 * HOUR, NOON + 6 * HOUR, False) in found


def test_a_pod_that_is_lost_with_its_node_ends_when_it_was_last_seen() -> None:
    second = replace(POD, uid="p2", began=NOON + 5 * HOUR)
    there, now = row(NOON + MINUTE, NOON + HOUR), NOON + 6 * HOUR
    seen = {there.sort_key: NOON + 2 * HOUR}
    found = rows(spans([replace(HELD, pods=(second,))], [there], now, seen))
    assert ("p1", NOON + MINUTE, NOON + 2 * HOUR, True) in found
    found = rows(spans([replace(HELD, pods=(second,))], [there], now))
    assert ("p1", NOON + MINUTE, NOON + HOUR, True) in found


def test_a_deleted_claim_ends_at_the_timestamp_of_its_volume() -> None:
    there = row(NOON + MINUTE, NOON + HOUR)
    retained = replace(HELD, claim="volume:v1", since=NOON + 2 * HOUR, asleep_since=NOON + 2 * HOUR, pods=())
    found = rows(spans([retained], [there], NOON + 4 * HOUR))
    assert ("p1", NOON + MINUTE, NOON + 2 * HOUR, True) in found
    assert (NO_POD, NOON + 2 * HOUR, NOON + 4 * HOUR, False) in found


def test_no_row_ends_in_the_future() -> None:
    """A closed row is never reopened: two months ahead would stay charged."""
    there, now = row(NOON + MINUTE, NOON + HOUR), NOON + 4 * HOUR
    ahead = NOON + timedelta(days=60)
    retained = replace(HELD, claim="volume:v1", since=ahead, asleep_since=ahead, pods=())
    assert rows(spans([retained], [there], now)) == [("p1", NOON + MINUTE, now, True)]
    # One that was written by a clock ahead of this one keeps what it has, and no more.
    stored = replace(there, ended=now + MINUTE)
    assert rows(spans([retained], [stored], now)) == [("p1", NOON + MINUTE, now + MINUTE, True)]
    # So it is with a claim that has an end to come.
    going = replace(HELD, pods=(), asleep_since=None, ended=ahead)
    asleep = row(NOON + MINUTE, NOON + HOUR, NO_POD)
    assert rows(spans([going], [asleep], now)) == [(NO_POD, NOON + MINUTE, now, True)]


def test_an_end_within_the_clock_skew_is_exact() -> None:
    """Cut off at this clock's time, what is left until the end would be in no row."""
    there, now = row(NOON + MINUTE, NOON + HOUR), NOON + 2 * HOUR
    deleted = now + SKEW
    retained = replace(HELD, claim="volume:v1", since=deleted, asleep_since=deleted, pods=())
    assert rows(spans([retained], [there], now)) == [("p1", NOON + MINUTE, deleted, True)]
    found = rows(spans([retained], [], deleted + HOUR))
    assert found == [(NO_POD, deleted, deleted + HOUR, False)]


@pytest.mark.parametrize("pods", [(), (POD,), (replace(POD, ended=NOON + 3 * HOUR),)], ids=["gone", "runs", "finished"])
def test_a_claim_that_is_being_deleted_ends_when_its_deletion_was_recorded(pods: tuple[Pod, ...]) -> None:
    """Whatever has become of its pod by the time anybody looks."""
    deleted = NOON + 2 * HOUR
    there = row(NOON + MINUTE, NOON + HOUR)
    found = spans([replace(HELD, pods=pods, ended=deleted)], [there], NOON + 4 * HOUR)
    assert rows(found) == [("p1", NOON + MINUTE, deleted, True)]


def test_a_new_row_is_not_abandoned() -> None:
    there = row(NOON, NOON + HOUR)
    assert spans([], [there], NOON + HOUR + MINUTE / 2) == []
    assert rows(spans([], [there], NOON + 2 * HOUR)) == [("p1", NOON, NOON + HOUR, True)]


def test_a_pod_that_ended_by_itself_ends_then() -> None:
    ended = replace(HELD, pods=(replace(POD, ended=NOON + HOUR),))
    assert rows(spans([ended], [], NOON + 3 * HOUR)) == [("p1", NOON + MINUTE, NOON + HOUR, True)]


def test_open_rows_are_updated_at_intervals_and_closed_ones_at_once() -> None:
    there = row(NOON + MINUTE, NOON + HOUR)
    (soon,) = spans([HELD], [there], there.ended + UPDATE_INTERVAL - timedelta(seconds=1))
    (later,) = spans([HELD], [there], there.ended + UPDATE_INTERVAL)
    assert not is_worth_writing(soon, soon.row.ended)
    assert is_worth_writing(later, later.row.ended)
    (new,) = spans([HELD], [], NOON + 2 * MINUTE)
    assert is_worth_writing(new, new.row.ended)


@given(
    some.lists(some.tuples(some.integers(10, 4000), some.integers(10, 4000)), min_size=1, max_size=6),
    some.lists(some.integers(1, 40_000), max_size=12),
)
def test_the_recorded_time_does_not_depend_on_the_passes(lives: list[tuple[int, int]], looks: list[int]) -> None:
    """Awake for a while, asleep for a while, and so on; passes at any times, and one after everything."""
    at, awake = NOON, timedelta()
    history: list[tuple[datetime, datetime]] = []
    for run, sleep in lives:
        history.append((at, at + timedelta(seconds=run)))
        awake += timedelta(seconds=run)
        at += timedelta(seconds=run + sleep)
    stored: dict[str, Row] = {}

    def look(now: datetime) -> None:
        begun = [(n, span) for n, span in enumerate(history) if span[0] < now]
        if not begun:
            return
        number, (began, ended) = begun[-1]
        alive = now < ended
        pods = (replace(POD, uid=f"p{number}", began=began),) if alive else ()
        held = replace(HELD, since=NOON, pods=pods, asleep_since=None if alive else ended)
        for span in spans([held], [row for row in stored.values() if not row.closed], now):
            there = stored.get(span.row.sort_key)
            if there is None or not there.closed:
                stored[span.row.sort_key] = span.row

    # Somebody looks once in each state, and whenever else. The ends of sleep are facts that nobody has to see.
    second = timedelta(seconds=1)
    ends = [when for began, ended in history for when in (began + second, ended, ended + second)]
    for when in sorted({*ends, *(NOON + timedelta(seconds=look_) for look_ in looks), at}):
        if when <= at:
            look(when)
    found = sum((row.ended - row.began for row in stored.values() if row.pod != NO_POD), timedelta())
    assert found == awake
    slept = sum((row.ended - row.began for row in stored.values() if row.pod == NO_POD), timedelta())
    assert slept == at - NOON - awake
