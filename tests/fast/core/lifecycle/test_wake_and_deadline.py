"""Waking at the hour and where a step is missing; ending at a deadline, at a class's life, and with an archive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentenv.core.lifecycle.clock_skew import SKEW
from agentenv.core.lifecycle.deadline import end_decision
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.lifecycle.wake import TOO_LATE, UNFINISHED, WakeDecision, wake_decision
from tests.fast.core.lifecycle.samples import DAY, HOUR, LIMITS, MINUTE, NOW, lease, workspace


def rung(**said: Any) -> WakeDecision:
    usual = {"state": "suspended", "suspended_because": "idle"}
    return wake_decision(workspace(**{**usual, **said}), NOW)


def test_it_wakes_at_its_hour_and_not_before() -> None:
    assert rung(wake_at=NOW).wake
    assert not rung(wake_at=NOW + MINUTE).wake
    assert not rung().wake


def test_an_hour_that_was_missed_is_kept_for_a_day_and_then_forgotten() -> None:
    assert rung(wake_at=NOW - HOUR).wake
    late = rung(wake_at=NOW - TOO_LATE - MINUTE)
    assert (late.wake, late.forget) == (False, True)


@pytest.mark.parametrize("because", ["budget", "deadline"])
def test_what_was_stopped_is_not_woken_by_an_hour_or_by_a_sign(because: str) -> None:
    assert not rung(wake_at=NOW, suspended_because=because).wake
    assert not rung(suspended_because=because, leases=(lease(HOUR),)).wake


def test_one_that_is_awake_forgets_its_hour() -> None:
    assert rung(state="running", suspended_because=None, wake_at=NOW) == WakeDecision(
        False, "it is running", forget=True
    )


@pytest.mark.parametrize(
    "sign", [{"leases": (lease(HOUR),)}, {"busy_until": NOW + HOUR}, {"last_active": NOW - MINUTE}], ids=str
)
def test_one_that_sleeps_without_a_reason_is_woken_for_whoever_wants_it(sign: dict[str, Any]) -> None:
    assert rung(suspended_because=None, **sign).wake
    assert not rung(suspended_because="idle", **sign).wake


def test_one_that_was_put_to_sleep_by_hand_sleeps_on() -> None:
    assert not rung(suspended_because=None, last_active=NOW - UNFINISHED - MINUTE).wake
    asleep = workspace(state="suspended", last_active=NOW - 5 * MINUTE)
    assert not wake_decision(replace(asleep, turned=NOW - MINUTE), NOW).wake
    assert wake_decision(replace(asleep, turned=NOW - HOUR), NOW).wake


def test_at_its_deadline_it_sleeps_and_stays_asleep() -> None:
    assert end_decision(workspace(deadline=NOW - MINUTE), LIMITS, NOW).do == "suspend"
    assert end_decision(workspace(deadline=NOW - SKEW / 2), LIMITS, NOW).do == "nothing"
    stopped = workspace(deadline=NOW - DAY, state="suspended", suspended_because="deadline")
    assert end_decision(stopped, LIMITS, NOW).do == "nothing"
    # Asleep for another reason it could be woken: so it is told.
    assert end_decision(replace(stopped, suspended_because="idle"), LIMITS, NOW).do == "suspend"


def test_at_the_end_of_its_classs_life_it_goes_and_its_data_stays() -> None:
    old = workspace(created=NOW - 91 * DAY)
    assert (end_decision(old, LIMITS, NOW).do, end_decision(old, LIMITS, NOW).keep_for) == ("delete", 30 * DAY)
    assert end_decision(workspace(created=NOW - 89 * DAY), LIMITS, NOW).do == "nothing"
    # Of a class that does not say how long data is kept, nothing is taken away.
    assert end_decision(old, Limits(max_lifetime=DAY), NOW).do == "nothing"
    assert end_decision(replace(old, state="deleting"), LIMITS, NOW).do == "nothing"


def test_a_session_goes_with_its_chats_archive() -> None:
    session = workspace(mode="session", archive="chat-1")
    gone = end_decision(replace(session, archive_ended=NOW - HOUR), LIMITS, NOW)
    assert (gone.do, gone.keep_for) == ("delete", 7 * DAY)
    assert end_decision(session, LIMITS, NOW).do == "nothing"
    assert end_decision(workspace(archive="chat-1", archive_ended=NOW - HOUR), LIMITS, NOW).do == "nothing"
