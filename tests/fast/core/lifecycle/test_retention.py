"""Tests of retention: data is destroyed after its period by every clock, and not while it may be needed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.lifecycle.clock_skew import SKEW
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.lifecycle.retention import UNFINISHED, Home, deletion_time, retention_decision
from tests.fast.core.lifecycle.samples import DAY, HOUR, LIMITS, MINUTE, NOW

DELETED = NOW - 31 * DAY
DUE = Home("pv", "Released", "Retain", "u-1", "w-1", "user", DELETED, NOW - DAY, released_since=DELETED)


def of(home: Home, now: datetime = NOW) -> str:
    return retention_decision(home, LIMITS, now).do


def test_data_is_destroyed_after_its_retention() -> None:
    assert of(DUE) == "destroy"
    assert of(replace(DUE, destroy_after=NOW + MINUTE)) == "leave"
    assert of(replace(DUE, destroy_after=NOW - SKEW / 2)) == "leave"
    # Asked for at once: as soon as it was let go of by every clock.
    at_once = replace(DUE, deleted_at=NOW - MINUTE, destroy_after=NOW - MINUTE, released_since=NOW - MINUTE)
    assert of(at_once) == "destroy"


REQUESTED = replace(DUE, destroy_requested=True, deleted_at=NOW, destroy_after=NOW, released_since=NOW, returning=NOW)


def test_requested_destruction_happens_once_the_volume_is_released() -> None:
    """Whoever is returning to it came too late; a clock has no part in it."""
    assert of(REQUESTED) == "destroy"
    assert of(REQUESTED, NOW - HOUR) == "destroy"
    assert of(replace(REQUESTED, released_since=None)) == "destroy"
    assert of(replace(REQUESTED, phase="Available")) == "release"
    assert of(replace(REQUESTED, policy="Delete")) == "leave"


@pytest.mark.parametrize(
    "fields",
    [{"owner": ""}, {"workspace": ""}, {"held": True}, {"workspace_exists": True}, {"phase": "Bound", "claimed": True}],
    ids=str,
)
def test_a_request_does_not_destroy_a_volume_in_use_or_on_hold(fields: dict[str, Any]) -> None:
    assert of(replace(REQUESTED, **fields)) == "leave"


@pytest.mark.parametrize(
    "fields",
    [
        {"owner": ""},
        {"workspace": ""},
        {"held": True},
        {"workspace_exists": True},
        {"claimed": True},
        {"phase": "Bound"},
        {"phase": "Pending"},
        {"phase": "Failed"},
        {"phase": "going"},
        {"phase": ""},
        {"policy": "Delete"},
        {"deleted_at": None},
        {"destroy_after": None},
        {"destroy_after": DELETED - MINUTE},
        {"deleted_at": NOW + 2 * DAY, "destroy_after": NOW + 3 * DAY},
        # Deleted by a clock that was behind: Kubernetes saw it let go of a minute ago.
        {"released_since": NOW - MINUTE},
        {"released_since": None},
    ],
    ids=str,
)
def test_inconsistent_volumes_are_not_destroyed(fields: dict[str, Any]) -> None:
    assert of(replace(DUE, **fields)) != "destroy"


def test_a_released_volume_without_dates_gets_the_full_retention() -> None:
    fresh = replace(DUE, deleted_at=None, destroy_after=None)
    dated = retention_decision(fresh, LIMITS, NOW)
    assert (dated.do, dated.deleted_at, dated.destroy_after) == ("date", NOW, NOW + 30 * DAY)
    session = retention_decision(replace(fresh, mode="session"), LIMITS, NOW)
    assert session.destroy_after == NOW + 7 * DAY
    assert retention_decision(fresh, Limits(), NOW).do == "report"
    # Of one of which only the end is missing, it is reckoned from when it was deleted.
    assert retention_decision(replace(DUE, destroy_after=None), LIMITS, NOW).destroy_after == DELETED + 30 * DAY


def test_a_deletion_is_recorded_once() -> None:
    """Whoever finishes it, or repeats it at the same time, comes to the same timestamp."""
    created = NOW - DAY
    assert deletion_time(None, created, NOW) == NOW
    for recorded in (NOW - MINUTE, NOW - UNFINISHED, NOW + timedelta(seconds=1)):
        assert deletion_time(recorded, created, NOW) == recorded


def test_the_record_of_a_slow_deletion_stays() -> None:
    recorded = NOW - UNFINISHED - HOUR
    assert deletion_time(recorded, NOW - DAY, NOW, going=True) == recorded
    # But not that of an earlier claim.
    assert deletion_time(recorded, NOW - MINUTE, NOW, going=True) == NOW


def test_the_record_of_an_earlier_deletion_is_replaced() -> None:
    created = NOW - MINUTE
    # It was taken back by then, or is about to be.
    assert deletion_time(NOW - UNFINISHED - MINUTE, NOW - DAY, NOW) == NOW
    # Its data was deleted before, and it was restored since.
    assert deletion_time(NOW - 2 * MINUTE, created, NOW) == NOW
    # Kubernetes writes the second of a creation, and not when in it.
    assert deletion_time(created + timedelta(milliseconds=999), created, NOW) == NOW
    # Nobody knows by which clock.
    assert deletion_time(NOW + DAY, created, NOW) == NOW
    assert deletion_time(NOW - MINUTE, None, NOW) == NOW


def test_an_interrupted_deletion_is_undone_after_a_while() -> None:
    in_use = replace(DUE, phase="Bound", claimed=True, workspace_exists=True)
    assert of(in_use) == "undate"
    assert of(replace(in_use, deleted_at=NOW - UNFINISHED + MINUTE)) == "leave"
    assert of(replace(in_use, deleted_at=None, destroy_after=None)) == "leave"
    # One that goes is not cut short, however long it takes.
    assert of(replace(in_use, going=True)) == "leave"
    # Nor is one that is returning: its dates are true until it is handed over.
    assert of(replace(in_use, returning=NOW - UNFINISHED + MINUTE)) == "leave"
    assert of(replace(in_use, returning=NOW - UNFINISHED)) == "undate"
    # Off its home, its files are nobody's to date.
    assert of(replace(in_use, phase="Released", claimed=False)) == "leave"


def test_a_volume_of_an_unfinished_restore_is_released_when_due() -> None:
    assert of(replace(DUE, phase="Available")) == "release"
    assert of(replace(DUE, phase="Available", destroy_after=NOW + DAY)) == "leave"


def test_the_end_of_a_chat_shortens_the_retention() -> None:
    # It was let go of when its class kept them for longer.
    home = replace(DUE, mode="session", deleted_at=NOW - DAY, destroy_after=NOW + 29 * DAY)
    assert of(home) == "leave"
    sooner = retention_decision(replace(home, archive_ended=NOW - 3 * DAY), LIMITS, NOW)
    assert (sooner.do, sooner.destroy_after) == ("date", NOW + 7 * DAY)
    # And no sooner than it was deleted, by whatever clock.
    ahead = replace(home, archive_ended=NOW - 3 * DAY, deleted_at=NOW + 12 * HOUR)
    assert retention_decision(ahead, replace(LIMITS, session_retention=HOUR), NOW).destroy_after == NOW + 13 * HOUR
    assert (
        retention_decision(replace(home, archive_ended=NOW + HOUR), LIMITS, NOW).destroy_after == NOW + 7 * DAY + HOUR
    )
    # A clock that nobody can go by.
    assert of(replace(home, archive_ended=NOW + 2 * DAY)) == "leave"


@given(st.timedeltas(-60 * DAY, 60 * DAY), st.timedeltas(timedelta(0), 40 * DAY), st.timedeltas(-DAY, 40 * DAY))
def test_the_retention_after_a_chat_starts_when_it_is_seen(
    ended: timedelta, retention: timedelta, until: timedelta
) -> None:
    """The end of a chat is reported by another process: its time may be wrong, the report itself is not."""
    limits = replace(LIMITS, session_retention=retention)
    session = replace(
        DUE,
        mode="session",
        deleted_at=NOW - 2 * DAY,
        destroy_after=NOW + until,
        archive_ended=NOW + ended,
        released_since=NOW - 2 * DAY,
    )
    dated = retention_decision(session, limits, NOW)
    if dated.do == "date":
        assert dated.destroy_after is not None
        assert NOW + retention <= dated.destroy_after < NOW + until


def test_a_session_without_retention_ends_with_its_chat() -> None:
    at = NOW - MINUTE
    session = replace(
        DUE, mode="session", deleted_at=at, destroy_after=at, archive_ended=at - MINUTE, released_since=at
    )
    assert retention_decision(session, replace(LIMITS, session_retention=timedelta(0)), NOW).do == "destroy"


@given(
    st.sampled_from(["Released", "Available"]),
    st.none() | st.timedeltas(-60 * DAY, 60 * DAY),
    st.none() | st.timedeltas(-60 * DAY, 60 * DAY),
    st.none() | st.timedeltas(-60 * DAY, 60 * DAY),
    st.timedeltas(timedelta(0), 40 * DAY),
)
def test_dates_are_set_once(
    phase: str, deleted: timedelta | None, due: timedelta | None, ended: timedelta | None, retention: timedelta
) -> None:
    """A pass that writes the same dates again and again would never come to the others."""
    session = replace(
        DUE,
        phase=phase,
        mode="session",
        deleted_at=None if deleted is None else NOW + deleted,
        destroy_after=None if due is None else NOW + due,
        archive_ended=None if ended is None else NOW + ended,
    )
    limits = replace(LIMITS, session_retention=retention)
    for _ in range(2):
        decided = retention_decision(session, limits, NOW)
        if decided.do != "date":
            return
        session = replace(session, deleted_at=decided.deleted_at, destroy_after=decided.destroy_after)
    assert retention_decision(session, limits, NOW).do != "date"


@given(
    st.sampled_from(["Released", "Available", "Bound", "Failed", ""]),
    st.sampled_from([(False, False), (True, False), (False, True)]),
    st.timedeltas(-60 * DAY, 60 * DAY),
    st.timedeltas(timedelta(0), 40 * DAY),
    st.timedeltas(-SKEW + timedelta(seconds=1), SKEW - timedelta(seconds=1)),
)
def test_clock_skew_never_destroys_early(
    phase: str, wants: tuple[bool, bool], ago: timedelta, retention: timedelta, skew: timedelta
) -> None:
    exists, held = wants
    home = replace(
        DUE, phase=phase, workspace_exists=exists, held=held, deleted_at=NOW - ago, destroy_after=NOW - ago + retention
    )
    if retention_decision(home, LIMITS, NOW + skew).do == "destroy":
        assert (phase, exists, held) == ("Released", False, False)
        assert home.destroy_after is not None
        assert home.destroy_after <= NOW


@given(
    st.timedeltas(-60 * DAY, 60 * DAY),
    st.timedeltas(timedelta(0), 40 * DAY),
    st.timedeltas(timedelta(0), 60 * DAY),
)
def test_the_retention_counts_from_the_release_in_kubernetes(
    off: timedelta, retention: timedelta, ago: timedelta
) -> None:
    """However far off the clock was by which it was deleted."""
    deleted, released = NOW - ago + off, NOW - ago
    home = replace(DUE, deleted_at=deleted, destroy_after=deleted + retention, released_since=released)
    if retention_decision(home, LIMITS, NOW).do == "destroy":
        assert released + retention <= NOW


def test_repeated_decisions_end_in_destruction() -> None:
    """From being let go of to being destroyed, whoever looks and however often."""
    home, now = replace(DUE, deleted_at=None, destroy_after=None, released_since=NOW), NOW
    done: list[str] = []
    for _ in range(40):
        decided = retention_decision(home, LIMITS, now)
        if decided.do == "date":
            home = replace(home, deleted_at=decided.deleted_at, destroy_after=decided.destroy_after)
        done.append(decided.do)
        now += DAY + HOUR
    assert done[0] == "date"
    assert done.index("destroy") == 29
    assert set(done[1:29]) == {"leave"}
