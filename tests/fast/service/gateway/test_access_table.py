"""The table of access returns what was stored, and accepts a code once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from agentenv.core.gateway.access_records import (
    RESTS_FOR,
    Alias,
    ApiKey,
    BreakGlass,
    EndedSession,
    Link,
    Record,
    row_of,
)
from agentenv.service.gateway.access_table import AccessTable
from tests.fast.service.gateway.conftest import TABLE

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
LATER = NOW + timedelta(days=1)
KEY = ApiKey("0123456789ab", "d" * 64, "u-1", "laptop", frozenset({"read", "use"}), NOW, LATER, frozenset({"standard"}))
LINK = Link("abc", "e" * 64, "w-1", 3000, True, "u-1", NOW, LATER)
ENDED = EndedSession("s-1", "u-1", LATER)
ALIAS = Alias("shop", "u-1", "w-1", 8000, NOW, freed=NOW)
GLASS = BreakGlass("w-1", "u-9", "incident 7", NOW, LATER)


def test_records_are_read_as_they_were_stored(table: AccessTable) -> None:
    records: list[Record] = [ALIAS, GLASS, KEY, LINK, ENDED]
    for record in records:
        table.put(record, NOW)
    assert sorted(table.changed_since(None), key=row_of) == records


def test_only_records_that_changed_are_read_again(table: AccessTable) -> None:
    table.put(KEY, NOW)
    table.put(LINK, NOW + timedelta(seconds=5))
    assert table.changed_since(NOW + timedelta(seconds=1)) == [LINK]
    assert table.changed_since(NOW + timedelta(seconds=6)) == []


def test_the_last_use_is_recorded_on_a_key_that_exists_and_is_no_change(table: AccessTable) -> None:
    table.put(KEY, NOW)
    table.touch({row_of(KEY): LATER, "key#gone": LATER})
    (record,) = table.changed_since(None)
    assert isinstance(record, ApiKey)
    assert record.last_used == LATER
    assert table.changed_since(NOW + timedelta(seconds=1)) == []


def test_a_code_is_accepted_once(table: AccessTable) -> None:
    assert [table.use_once("code", LATER) for _ in range(3)] == [True, False, False]
    assert table.use_once("another", LATER)


def test_an_alias_stays_its_owners_until_it_is_freed(table: AccessTable) -> None:
    alias = Alias("shop", "u-1", "w-1", 8000, NOW)
    assert table.take_alias(alias, NOW)
    assert not table.take_alias(replace(alias, owner="u-2"), NOW)
    assert table.take_alias(replace(alias, workspace="w-2"), NOW)
    assert table.take_alias(replace(alias, owner="", freed=LATER), NOW) is False
    table.put(replace(alias, owner="", freed=LATER), NOW)
    for owner in ("u-1", "u-2"):
        assert not table.take_alias(replace(alias, owner=owner), LATER + RESTS_FOR - timedelta(seconds=1))
    assert table.take_alias(replace(alias, owner="u-2"), LATER + RESTS_FOR)
    assert table.changed_since(None) == [replace(alias, owner="u-2")]


def test_rows_that_cannot_be_read_are_omitted(table: AccessTable, client: Any) -> None:
    table.put(KEY, NOW)
    item = {"part": {"S": "live"}, "row": {"S": "tunnel#1"}, "changed": {"S": "2026-11-19T12:00:00.000Z"}}
    client.put_item(TableName=TABLE, Item={**item, "record": {"M": {"expires": {"S": "2027-01-01T00:00:00Z"}}}})
    client.put_item(TableName=TABLE, Item={**item, "row": {"S": "key#1"}})
    assert table.changed_since(None) == [KEY]


def test_a_record_without_its_revocation_counts_as_revoked(table: AccessTable, client: Any) -> None:
    table.put(KEY, NOW)
    key = {"part": {"S": "live"}, "row": {"S": row_of(KEY)}}
    client.update_item(
        TableName=TABLE,
        Key=key,
        UpdateExpression="REMOVE #record.revoked",
        ExpressionAttributeNames={"#record": "record"},
    )
    (record,) = table.changed_since(None)
    assert record.revoked


def test_the_audit_trail_of_a_workspace_and_a_day_is_in_order(table: AccessTable) -> None:
    entries = [
        {"workspace": workspace, "at": f"2026-11-{day}T12:00:{second:02}.000Z", "id": f"{second}", "expires": 1}
        for workspace in ("w-1", "w-10")
        for day in (18, 19)
        for second in range(30, 0, -1)
    ]
    table.add_entries(entries)
    table.add_entries(entries[:3])
    assert [entry["id"] for entry in table.entries("w-1", "2026-11-19")] == [str(number) for number in range(1, 31)]
    assert table.entries("w-2", "2026-11-19") == []
    later = table.entries("w-1", "2026-11-19", "2026-11-19T12:00:20.000Z")
    assert [entry["id"] for entry in later] == [str(number) for number in range(20, 31)]


def test_an_open_session_is_read_as_it_was_stored(table: AccessTable) -> None:
    visitor = {"identity": "owner:u-1", "caller": {"owner": "u-1", "teams": ["a"], "scopes": None}, "until": None}
    entry = {"workspace": "open sessions", "at": "2026-11-19T12:00:00.000Z", "id": "s", "expires": 1, "port": 3000}
    table.add_entries([{**entry, "visitor": visitor, "pod": {"port": 49983}}])
    (row,) = table.entries("open sessions", "2026-11-19")
    assert row["visitor"] == visitor
    assert (int(row["port"]), int(row["pod"]["port"])) == (3000, 49983)
