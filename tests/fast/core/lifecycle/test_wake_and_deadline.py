"""Tests of wake times and interrupted resumes, of deadlines, maximum lifetimes and archived chats."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from agentenv.core.lifecycle.clock_skew import SKEW
from agentenv.core.lifecycle.deadline import end_decision
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.lifecycle.wake import TOO_LATE, UNFINISHED, WakeDecision, wake_decision
from agentenv.core.workspaces.workspace import Timeout
from tests.fast.core.lifecycle.samples import DAY, HOUR, LIMITS, MINUTE, NOW, lease, workspace


def decided(**fields: Any) -> WakeDecision:
    usual = {"state": "suspended", "suspended_because": "idle"}
    return wake_decision(workspace(**{**usual, **fields}), NOW)


def test_a_workspace_resumes_at_its_wake_time() -> None:
    assert decided(wake_at=NOW).wake
    assert not decided(wake_at=NOW + MINUTE).wake
    assert not decided().wake


def test_a_missed_wake_time_is_valid_for_a_day() -> None:
    assert decided(wake_at=NOW - HOUR).wake
    late = decided(wake_at=NOW - TOO_LATE - MINUTE)
    assert (late.wake, late.forget) == (False, True)


@pytest.mark.parametrize("because", ["budget", "deadline"])
def test_a_stopped_workspace_is_not_resumed(because: str) -> None:
    assert not decided(wake_at=NOW, suspended_because=because).wake
    assert not decided(suspended_because=because, leases=(lease(HOUR),)).wake


def test_a_running_workspace_loses_its_wake_time() -> None:
    assert decided(state="running", suspended_because=None, wake_at=NOW) == WakeDecision(
        False, "it is running", forget=True
    )


@pytest.mark.parametrize(
    "sign", [{"leases": (lease(HOUR),)}, {"busy_until": NOW + HOUR}, {"last_active": NOW - MINUTE}], ids=str
)
def test_a_workspace_without_a_reason_resumes_for_its_owner(sign: dict[str, Any]) -> None:
    assert decided(suspended_because=None, **sign).wake
    assert not decided(suspended_because="idle", **sign).wake


def test_a_workspace_suspended_by_hand_stays_suspended() -> None:
    assert not decided(suspended_because=None, last_active=NOW - UNFINISHED - MINUTE).wake
    asleep = workspace(state="suspended", last_active=NOW - 5 * MINUTE)
    assert not wake_decision(replace(asleep, turned=NOW - MINUTE), NOW).wake
    assert wake_decision(replace(asleep, turned=NOW - HOUR), NOW).wake


def test_a_workspace_is_suspended_at_its_deadline() -> None:
    assert end_decision(workspace(deadline=NOW - MINUTE), LIMITS, NOW).do == "suspend"
    assert end_decision(workspace(deadline=NOW - SKEW / 2), LIMITS, NOW).do == "nothing"
    stopped = workspace(deadline=NOW - DAY, state="suspended", suspended_because="deadline")
    assert end_decision(stopped, LIMITS, NOW).do == "nothing"
    # Asleep for another reason it could be woken: so it is told.
    assert end_decision(replace(stopped, suspended_because="idle"), LIMITS, NOW).do == "suspend"


def test_a_workspace_is_deleted_after_its_maximum_lifetime() -> None:
    old = workspace(created=NOW - 91 * DAY)
    assert (end_decision(old, LIMITS, NOW).do, end_decision(old, LIMITS, NOW).keep_for) == ("delete", 30 * DAY)
    assert end_decision(workspace(created=NOW - 89 * DAY), LIMITS, NOW).do == "nothing"
    # Of a class that does not say how long data is kept, nothing is taken away.
    assert end_decision(old, Limits(max_lifetime=DAY), NOW).do == "nothing"
    assert end_decision(replace(old, state="deleting"), LIMITS, NOW).do == "nothing"


def test_a_session_is_deleted_with_its_chat() -> None:
    session = workspace(mode="session", archive="chat-1")
    gone = end_decision(replace(session, archive_ended=NOW - HOUR), LIMITS, NOW)
    assert (gone.do, gone.keep_for) == ("delete", 7 * DAY)
    assert end_decision(session, LIMITS, NOW).do == "nothing"
    assert end_decision(workspace(archive="chat-1", archive_ended=NOW - HOUR), LIMITS, NOW).do == "nothing"


@pytest.mark.parametrize(("then", "do"), [("delete", "delete"), ("suspend", "suspend")])
def test_a_timeout_ends_to_the_second_and_destroys_or_suspends(then: Any, do: str) -> None:
    limited = workspace(mode="session", deadline=NOW, timeout=Timeout(60, then))
    ended = end_decision(limited, LIMITS, NOW)
    assert (ended.do, ended.keep_for) == (do, timedelta(0) if do == "delete" else None)
    assert end_decision(replace(limited, deadline=NOW + timedelta(seconds=1)), LIMITS, NOW).do == "nothing"
    # A suspended sandbox waits for its client, however long.
    for state, because in (("suspended", "asked"), ("suspended", "deadline"), ("running", "asked"), ("deleting", None)):
        paused = replace(limited, state=state, suspended_because=because, deadline=NOW - DAY)
        assert end_decision(paused, LIMITS, NOW).do == "nothing"
