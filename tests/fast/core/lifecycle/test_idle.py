"""Tests of idle suspension: after the class's timeout, not while a workspace is used, and with clock skew."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.lifecycle.clock_skew import FURTHEST, SKEW
from agentenv.core.lifecycle.idle import Activity, idle_decision
from agentenv.core.lifecycle.limits import Limits, limits
from tests.fast.core.lifecycle.samples import DAY, HOUR, LIMITS, MINUTE, NOW, lease, workspace


def sleeps(*seen: Activity, **fields: Any) -> bool:
    return idle_decision(workspace(**fields), LIMITS, seen, NOW).sleep


def test_a_workspace_is_suspended_after_its_idle_timeout() -> None:
    assert sleeps()
    assert not sleeps(last_active=NOW - 19 * MINUTE)
    assert not sleeps(idle_after=2 * HOUR)
    assert sleeps(idle_after=MINUTE, last_active=NOW - 2 * MINUTE)
    assert not idle_decision(workspace(), Limits(), (), NOW).sleep


@pytest.mark.parametrize(
    "fields",
    [
        {"leases": (lease(MINUTE),)},
        {"leases": (lease(-SKEW / 2),)},  # run out by our clock, and perhaps not by its holder's
        {"busy_until": NOW + HOUR},
        {"busy_until": NOW - SKEW / 2},
        {"state": "creating"},
        {"state": "suspended"},
        {"state": "deleting"},
        {"mode": "agent", "task": "t-1"},
        {"created": NOW - MINUTE, "last_active": None},
        {"created": None, "last_active": None},
    ],
    ids=str,
)
def test_a_used_workspace_keeps_running(fields: dict[str, Any]) -> None:
    assert not sleeps(**fields)


def test_an_expired_lease_counts_as_use_until_its_end() -> None:
    assert not sleeps(leases=(lease(-MINUTE),))
    assert sleeps(leases=(lease(-HOUR),))
    assert not sleeps(busy_until=NOW - 2 * MINUTE)


def test_a_busy_until_or_lease_of_years_does_not_keep_it_running() -> None:
    assert sleeps(busy_until=NOW + 1000 * DAY)
    assert sleeps(leases=(lease(1000 * DAY),))
    assert not sleeps(busy_until=NOW + FURTHEST)


def test_unknown_activity_keeps_a_workspace_running() -> None:
    assert not sleeps(Activity("traffic", NOW - MINUTE))
    assert sleeps(Activity("traffic", NOW - HOUR), Activity("work"))
    assert not sleeps(Activity("traffic", NOW - HOUR), Activity("work", known=False))


def test_a_source_that_sees_the_sandbox_from_inside_does_not_need_the_others() -> None:
    unknown = Activity("traffic", known=False)
    assert sleeps(Activity("workspaced", NOW - HOUR, decisive=True), unknown)
    assert not sleeps(Activity("workspaced", NOW - MINUTE, decisive=True), unknown)
    assert not sleeps(Activity("workspaced", known=False), Activity("traffic", NOW - HOUR))
    # One that has nothing to say of this sandbox leaves it to the others.
    assert not sleeps(Activity("workspaced"), unknown)


def test_a_start_counts_as_use() -> None:
    assert not idle_decision(workspace(turned=NOW - MINUTE), LIMITS, (), NOW).sleep


def test_a_clock_that_is_ahead_delays_the_suspension() -> None:
    assert not sleeps(last_active=NOW + 5 * MINUTE)
    assert sleeps(last_active=NOW + FURTHEST + MINUTE)
    # Behind by as much as clocks are: nobody loses a second of their time.
    assert not sleeps(last_active=NOW - LIMITS.suspend_after - SKEW / 2 if LIMITS.suspend_after else NOW)


@given(st.timedeltas(timedelta(0), 40 * MINUTE), st.timedeltas(-SKEW, SKEW))
def test_clock_skew_never_suspends_early(used: timedelta, skew: timedelta) -> None:
    """`used` ago by one clock; another, which decides, is off by `skew`."""
    decided = idle_decision(workspace(last_active=NOW - used), LIMITS, (), NOW + skew)
    if decided.sleep:
        assert used >= 20 * MINUTE


def test_the_next_check_is_when_the_workspace_becomes_idle() -> None:
    read = workspace(last_active=NOW - MINUTE)
    again = idle_decision(read, LIMITS, (), NOW).again
    assert again is not None
    assert idle_decision(read, LIMITS, (), again).sleep
    assert not idle_decision(read, LIMITS, (), again - MINUTE).sleep


def test_invalid_limits_are_no_limits() -> None:
    assert limits({"suspendAfter": "60", "maxLifetime": "", "retainDeletedFor": "86400", "sessionRetention": "x"}) == (
        Limits(MINUTE, None, DAY, None)
    )
    assert limits({}) == Limits()
