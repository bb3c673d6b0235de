"""Tests of the record of a deletion on a volume: it is made once, and includes requested destruction."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agentenv.core.lifecycle.restore import MOVING_TO, RETURNING_SINCE, Plain, deletion_patch, shorten_retention_patch
from agentenv.core.lifecycle.retention import UNFINISHED
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import DELETED_AT, DESTROY_AFTER, DESTROY_REQUESTED

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
DAY, MINUTE, NOTHING = timedelta(days=1), timedelta(minutes=1), timedelta(0)


def volume(recorded: datetime, notes: dict[str, str] | None = None, *, requested: bool = False) -> Plain:
    dates = {DELETED_AT: format_timestamp(recorded), DESTROY_AFTER: format_timestamp(recorded + DAY)}
    labels = {DESTROY_REQUESTED: "true"} if requested else {}
    return {"metadata": {"labels": labels, "annotations": {**dates, **(notes or {})}}}


@pytest.mark.parametrize("requested", [False, True])
@pytest.mark.parametrize("going", [False, True])
def test_a_repeated_deletion_keeps_its_timestamp(*, requested: bool, going: bool) -> None:
    recorded = NOW - MINUTE
    keep_for = NOTHING if requested else DAY
    notes, labels = deletion_patch(volume(recorded), NOW - DAY, NOW, keep_for, going=going)
    assert (notes[DELETED_AT], notes[DESTROY_AFTER]) == (
        format_timestamp(recorded),
        format_timestamp(recorded + keep_for),
    )
    assert labels == {DESTROY_REQUESTED: "true" if requested else None}


def test_a_destroy_request_is_final_once_the_claim_is_deleted() -> None:
    """However long it takes to go, its timestamp stays as well."""
    recorded = NOW - UNFINISHED - MINUTE
    notes, labels = deletion_patch(volume(recorded, requested=True), NOW - DAY, NOW, DAY, going=True, moving_to="other")
    assert (notes[DELETED_AT], notes[DESTROY_AFTER], notes[MOVING_TO]) == (
        format_timestamp(recorded),
        format_timestamp(recorded),
        None,
    )
    assert labels == {DESTROY_REQUESTED: "true"}
    # One that stands still was not deleted: it may be kept after all, or go to another class.
    notes, labels = deletion_patch(volume(recorded, requested=True), NOW - DAY, NOW, DAY, moving_to="other")
    assert (notes[DELETED_AT], notes[DESTROY_AFTER], notes[MOVING_TO]) == (
        format_timestamp(NOW),
        format_timestamp(NOW + DAY),
        "other",
    )
    assert labels == {DESTROY_REQUESTED: None}


def test_a_deletion_ends_a_restore() -> None:
    back = volume(NOW - DAY, {RETURNING_SINCE: format_timestamp(NOW - MINUTE)})
    notes, _ = deletion_patch(back, NOW - MINUTE, NOW, DAY)
    # The earlier deletion was of an earlier claim.
    assert (notes[DELETED_AT], notes[RETURNING_SINCE]) == (format_timestamp(NOW), None)


def test_a_shorter_retention_keeps_the_timestamp() -> None:
    deleted = volume(NOW - DAY / 2, {MOVING_TO: "other", RETURNING_SINCE: format_timestamp(NOW)})
    notes, labels = shorten_retention_patch(deleted, NOW, MINUTE)
    assert (notes, labels) == ({MOVING_TO: None, DESTROY_AFTER: format_timestamp(NOW + MINUTE)}, {})
    notes, labels = shorten_retention_patch(deleted, NOW, NOTHING)
    assert labels == {DESTROY_REQUESTED: "true"}
    assert notes == {MOVING_TO: None, RETURNING_SINCE: None, DESTROY_AFTER: format_timestamp(NOW)}


@pytest.mark.parametrize("keep_for", [DAY, 30 * DAY])
def test_a_repeated_request_never_lengthens_the_retention(keep_for: timedelta) -> None:
    assert shorten_retention_patch(volume(NOW - DAY / 2), NOW, keep_for) == ({}, {})
    # Nor is a request to destroy taken back, or written twice.
    assert shorten_retention_patch(volume(NOW - DAY, requested=True), NOW, keep_for) == ({}, {})
    assert shorten_retention_patch(volume(NOW - DAY, requested=True), NOW, NOTHING) == ({}, {})
