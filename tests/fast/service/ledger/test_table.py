"""The table: what is put twice is there once, what is closed stays, and nobody's clock decides alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from agentenv.core.ledger.rows import Row
from agentenv.core.values.timestamps import format_whole_seconds
from agentenv.service.aws import clients as aws
from agentenv.service.ledger.table import Ledger
from tests.fast.service.ledger.conftest import TABLE

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ROW = Row(
    owner="u-1",
    claim="c1",
    pod="p1",
    began=NOON,
    ended=NOON + HOUR,
    sandbox_class="standard",
    workspace="w-1",
    cpu_seconds=Decimal(360),
    source="requests/requested",
)


def all_rows(ledger: Ledger) -> list[Row]:
    return sorted(ledger.all_rows(NOON - 400 * HOUR, NOON + 400 * HOUR), key=lambda row: row.sort_key)


def test_a_row_put_twice_is_there_once(ledger: Ledger) -> None:
    assert ledger.put(ROW).written == 1
    assert ledger.put(ROW).written == 1
    assert all_rows(ledger) == [ROW]


def test_an_open_row_grows_and_never_shrinks(ledger: Ledger) -> None:
    later = replace(ROW, ended=NOON + 2 * HOUR, cpu_seconds=Decimal(720))
    ledger.put(later)
    kept = ledger.put(ROW)
    assert (kept.row, kept.written) == (later, 0)
    assert all_rows(ledger) == [later]


def test_an_end_that_is_known_is_put_even_if_it_is_earlier(ledger: Ledger) -> None:
    ledger.put(replace(ROW, ended=NOON + 2 * HOUR))
    ledger.put(replace(ROW, closed=True))
    assert all_rows(ledger) == [replace(ROW, closed=True)]


def test_behind_a_row_that_was_closed_too_soon_there_is_another_and_no_time_twice(ledger: Ledger) -> None:
    ledger.put(replace(ROW, closed=True))
    asked: list[tuple[datetime, datetime]] = []

    def amounted(row: Row) -> Row:
        asked.append((row.began, row.ended))
        return replace(row, cpu_seconds=Decimal(1))

    whole = replace(ROW, ended=NOON + 3 * HOUR, cpu_seconds=Decimal(1080))
    ledger.put(whole, amounted)
    ledger.put(whole, amounted)
    first, rest = all_rows(ledger)
    assert (first.ended, rest.began, rest.ended) == (NOON + HOUR, NOON + HOUR, NOON + 3 * HOUR)
    assert (first.cpu_seconds, rest.cpu_seconds) == (Decimal(360), Decimal(1))
    assert asked == [(NOON + HOUR, NOON + 3 * HOUR)] * 2


def test_only_rows_that_grow_are_listed_as_open(ledger: Ledger) -> None:
    for number in range(250):
        ledger.put(replace(ROW, owner=f"u-{number}", closed=number % 2 == 0))
    found = ledger.open_rows()
    assert len(found) == 125
    assert not any(row.closed for row in found)
    ledger.put(replace(ROW, owner="u-1", closed=True))
    assert len(ledger.open_rows()) == 124


def test_an_owner_has_their_rows_of_a_time_and_nobody_elses(ledger: Ledger) -> None:
    for hours in (0, 1, 24, 48):
        ledger.put(replace(ROW, began=NOON + hours * HOUR, ended=NOON + (hours + 1) * HOUR))
    ledger.put(replace(ROW, owner="u-2"))
    found = ledger.of_owner("u-1", NOON + HOUR, NOON + 48 * HOUR)
    assert [row.began for row in found] == [NOON + HOUR, NOON + 24 * HOUR]
    assert [row.claim for row in ledger.of_claim("u-1", "c1")] == ["c1"] * 4
    assert ledger.of_claim("u-1", "c") == []


def test_a_row_is_forgotten_after_its_day_and_the_time_that_is_kept(table: Any) -> None:
    Ledger(table, TABLE, timedelta(days=30)).put(ROW)
    (item,) = table.scan(TableName=TABLE)["Items"]
    assert int(item["expires"]["N"]) == int((NOON.replace(hour=0) + timedelta(days=31)).timestamp())
    assert item["row"]["S"] == f"c1#p1#{format_whole_seconds(NOON)}"


class Between:
    """A client that lets something happen before, or instead of, each call."""

    def __init__(self, inner: Any, before: Callable[[str, int], None]) -> None:
        self._inner, self._before, self._calls = inner, before, 0

    def __getattr__(self, name: str) -> Any:
        def call(**asked: Any) -> Any:
            self._calls += 1
            self._before(name, self._calls)
            return getattr(self._inner, name)(**asked)

        return call


def test_two_who_write_at_once_write_the_same(table: Any, ledger: Ledger) -> None:
    """Whoever comes between another's calls: the rows are those of one."""
    other = Ledger(table, TABLE)
    ledger.put(replace(ROW, closed=True))
    whole = replace(ROW, ended=NOON + 5 * HOUR)
    racing = Ledger(Between(table, lambda *_: other.put(replace(whole, ended=NOON + 4 * HOUR)) and None), TABLE)
    racing.put(whole)
    other.put(whole)
    first, rest = all_rows(ledger)
    assert (first.ended, rest.began, rest.ended) == (NOON + HOUR, NOON + HOUR, NOON + 5 * HOUR)


def throttled(table: Any, operation: str, times: int) -> Ledger:
    from botocore.exceptions import ClientError

    def before(name: str, call: int) -> None:
        if name == operation and call <= times:
            said: Any = {"Error": {"Code": "ThrottlingException", "Message": "slow"}}
            raise ClientError({**said, "ResponseMetadata": {"HTTPStatusCode": 400}}, name)

    return Ledger(Between(table, before), TABLE)


def test_a_table_that_is_busy_is_told_from_one_that_refuses(table: Any) -> None:
    busy = throttled(table, "put_item", 1)
    with pytest.raises(aws.AwsUnavailableError, match="ThrottlingException"):
        busy.put(ROW)
    assert busy.put(ROW).written == 1
    with pytest.raises(aws.AwsRefusedError, match="ResourceNotFound"):
        Ledger(table, "another").put(ROW)


def test_keys_that_a_busy_table_leaves_out_are_asked_for_again(table: Any, ledger: Ledger) -> None:
    for number in range(30):
        ledger.put(replace(ROW, owner=f"u-{number}"))

    class Halves:
        def __getattr__(self, name: str) -> Any:
            if name != "batch_get_item":
                return getattr(table, name)

            def half(RequestItems: Any) -> Any:  # noqa: N803 - AWS's name
                keys = RequestItems[TABLE]["Keys"]
                some = keys[: max(1, len(keys) // 2)]
                answer = table.batch_get_item(RequestItems={TABLE: {"Keys": some}})
                return {**answer, "UnprocessedKeys": {TABLE: {"Keys": keys[len(some) :]}} if keys[len(some) :] else {}}

            return half

    assert len(Ledger(Halves(), TABLE).open_rows()) == 30


def test_the_time_is_the_tables(table: Any) -> None:
    """A replica whose clock is an hour ahead writes what the others write."""

    class Dated:
        def __getattr__(self, name: str) -> Any:
            def call(**asked: Any) -> Any:
                answer = getattr(table, name)(**asked)
                behind = (datetime.now(UTC) - HOUR).strftime("%a, %d %b %Y %H:%M:%S GMT")
                return {**answer, "ResponseMetadata": {"HTTPHeaders": {"date": behind}}}

            return call

    skewed = Ledger(Dated(), TABLE)
    skewed.open_rows()
    assert abs(datetime.now(UTC) - HOUR - skewed.now()) < timedelta(seconds=3)
    # Also before anything else was asked: the first month that a replica looks at is the table's.
    fresh = Ledger(Dated(), TABLE)
    assert abs(datetime.now(UTC) - HOUR - fresh.now()) < timedelta(seconds=3)
