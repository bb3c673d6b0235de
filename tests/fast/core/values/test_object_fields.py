"""Tests of reading fields of objects: any document gives the expected type or an empty value."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agentenv.core.values import object_fields as documents
from agentenv.core.values.object_fields import UnreadableError, counted, owner_uids, parsed, read_amount, required
from agentenv.core.values.timestamps import EARLIEST, LATEST, format_timestamp, parse_timestamp, parse_whole_second
from tests.fast.odd_objects import ANY, TEXTS


@given(ANY, some.sampled_from(["metadata", "name", "a", ""]))
def test_every_field_reads_as_its_type_for_any_document(document: Any, key: str) -> None:
    for held in (document, {key: document}, {key: {key: document}}, {key: [document]}):
        for read, kind in (
            (documents.section, dict),
            (documents.rows, list),
            (documents.text, str),
            (documents.number, int),
            (documents.strings, dict),
        ):
            assert type(read(held, key)) is kind
        assert all(type(uid) is str for uid in owner_uids(held))
        try:
            assert required(held, key, key).encode()
        except UnreadableError as failure:
            assert str(failure) == f"{key}.{key} is missing or no text"  # noqa: PT017 - there may be none


@given(TEXTS | ANY)
def test_texts_are_parsed_or_none(text: Any) -> None:
    parsed(text)
    size, amount, at = counted(text), read_amount(text), parse_timestamp(text)
    assert size is None or 0 <= size < 10**18
    # As budgets and the ledger reckon with it.
    assert amount is None or (amount * 1024**3 + 1).quantize(Decimal("0.01")) >= 0
    if at is not None:
        assert at.astimezone(UTC) + timedelta(seconds=10**10) > at - timedelta(days=1)
        assert parse_timestamp(format_timestamp(at)) == at.replace(microsecond=at.microsecond // 1000 * 1000)
    try:
        assert parse_whole_second(text).microsecond == 0
    except ValueError:
        assert at is None


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("9999-12-31T23:59:59-14:00", LATEST),
        ("9999-12-31T23:59:59Z", LATEST),
        ("0001-01-01T00:00:00+14:00", EARLIEST),
        ("2026-11-19T12:00:00Z", datetime(2026, 11, 19, 12, tzinfo=UTC)),
        ("2026-11-19T12:00:00", None),
    ],
)
def test_extreme_timestamps_are_clamped(text: str, read: datetime | None) -> None:
    assert parse_timestamp(text) == read
