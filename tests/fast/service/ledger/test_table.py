"""The table: writes are idempotent, closed rows stay, and the time is the table's."""

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


def test_a_row_written_twice_exists_once(ledger: Ledger) -> None:
    assert ledger.put(ROW).rows_written == 1
    assert ledger.put(ROW).rows_written == 1
    assert all_rows(ledger) == [ROW]


def test_an_open_row_grows_and_never_shrinks(ledger: Ledger) -> None:
    later = replace(ROW, ended=NOON + 2 * HOUR, cpu_seconds=Decimal(720))
    ledger.put(later)
    result = ledger.put(ROW)
    assert (result.row, result.rows_written) == (later, 0)
    assert all_rows(ledger) == [later]


def test_a_known_end_may_be_earlier(ledger: Ledger) -> None:
    ledger.put(replace(ROW, ended=NOON + 2 * HOUR))
    ledger.put(replace(ROW, closed=True))
    assert all_rows(ledger) == [replace(ROW, closed=True)]


def test_the_rest_of_a_row_that_was_closed_too_early_is_another_row(ledger: Ledger) -> None:
    ledger.put(replace(ROW, closed=True))
    intervals: list[tuple[datetime, datetime]] = []

    def amounted(row: Row) -> Row:
        intervals.append((row.began, row.ended))
        return replace(row, cpu_seconds=Decimal(1))

    whole = replace(ROW, ended=NOON + 3 * HOUR, cpu_seconds=Decimal(1080))
    ledger.put(whole, amounted)
    ledger.put(whole, amounted)
    first, rest = all_rows(ledger)
    assert (first.ended, rest.began, rest.ended) == (NOON + HOUR, NOON + HOUR, NOON + 3 * HOUR)
    assert (first.cpu_seconds, rest.cpu_seconds) == (Decimal(360), Decimal(1))
    assert intervals == [(NOON + HOUR, NOON + 3 * HOUR)] * 2


def test_only_open_rows_are_in_the_index(ledger: Ledger) -> None:
    for number in range(250):
        ledger.put(replace(ROW, owner=f"u-{number}", closed=number % 2 == 0))
    found = ledger.open_rows()
    assert len(found) == 125
    assert not any(row.closed for row in found)
    ledger.put(replace(ROW, owner="u-1", closed=True))
    assert len(ledger.open_rows()) == 124


def test_rows_are_listed_by_owner_and_time(ledger: Ledger) -> None:
    for hours in (0, 1, 24, 48):
        ledger.put(replace(ROW, began=NOON + hours * HOUR, ended=NOON + (hours + 1) * HOUR))
    ledger.put(replace(ROW, owner="u-2"))
    found = ledger.of_owner("u-1", NOON + HOUR, NOON + 48 * HOUR)
    assert [row.began for row in found] == [NOON + HOUR, NOON + 24 * HOUR]
    assert [row.claim for row in ledger.of_claim("u-1", "c1")] == ["c1"] * 4
    assert ledger.of_claim("u-1", "c") == []


def test_a_row_expires_after_its_day_and_the_retention(table: Any) -> None:
    Ledger(table, TABLE, timedelta(days=30)).put(ROW)
    (item,) = table.scan(TableName=TABLE)["Items"]
    assert int(item["expires"]["N"]) == int((NOON.replace(hour=0) + timedelta(days=31)).timestamp())
    assert item["row"]["S"] == f"c1#p1#{format_whole_seconds(NOON)}"


class Between:
    """A client that calls a function before, or instead of, each call."""

    def __init__(self, inner: Any, before: Callable[[str, int], None]) -> None:
        self._inner, self._before, self._calls = inner, before, 0

    def __getattr__(self, name: str) -> Any:
        def call(**parameters: Any) -> Any:
            self._calls += 1
            self._before(name, self._calls)
            return getattr(self._inner, name)(**parameters)

        return call


def test_concurrent_writers_write_the_same_rows(table: Any, ledger: Ledger) -> None:
    """Whichever calls interleave, the rows are those of one writer."""
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
            error: Any = {"Error": {"Code": "ThrottlingException", "Message": "slow"}}
            raise ClientError({**error, "ResponseMetadata": {"HTTPStatusCode": 400}}, name)

    return Ledger(Between(table, before), TABLE)


def test_a_busy_table_differs_from_one_that_refuses(table: Any) -> None:
    busy = throttled(table, "put_item", 1)
    with pytest.raises(aws.AwsUnavailableError, match="ThrottlingException"):
        busy.put(ROW)
    assert busy.put(ROW).rows_written == 1
    with pytest.raises(aws.AwsRefusedError, match="ResourceNotFound"):
        Ledger(table, "another").put(ROW)


def test_unprocessed_keys_are_requested_again(table: Any, ledger: Ledger) -> None:
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


def test_the_time_is_that_of_the_table(table: Any) -> None:
    """A replica whose clock is an hour ahead writes the same rows."""

    class Dated:
        def __getattr__(self, name: str) -> Any:
            def call(**parameters: Any) -> Any:
                answer = getattr(table, name)(**parameters)
                behind = (datetime.now(UTC) - HOUR).strftime("%a, %d %b %Y %H:%M:%S GMT")
                return {**answer, "ResponseMetadata": {"HTTPHeaders": {"date": behind}}}

            return call

    skewed = Ledger(Dated(), TABLE)
    skewed.open_rows()
    assert abs(datetime.now(UTC) - HOUR - skewed.now()) < timedelta(seconds=3)
    # Also before the first other call: the first month of a replica is by the table's clock.
    fresh = Ledger(Dated(), TABLE)
    assert abs(datetime.now(UTC) - HOUR - fresh.now()) < timedelta(seconds=3)
