"""Tests that the hours in a class's ConfigMap agree with the jobs of its schedules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.classes.plan import ClassPlan
from agentenv.core.classes.pools.hours import format_pool_hours, parse_pool_hours
from agentenv.core.classes.pools.schedules import WEEK, size_changes
from tests.fast.config.stack_samples import sandbox
from tests.fast.core.classes.strategies import FEW, plan_of, planned

MONDAY = datetime(2026, 11, 2, tzinfo=UTC)


@FEW
@given(planned(), st.integers(0, 7 * 24 * 60 - 1))
def test_hours_have_the_size_of_the_last_change(plan: ClassPlan, minute: int) -> None:
    pool = plan.settings.pool
    hours = parse_pool_hours(format_pool_hours(pool))
    assert (hours is None) == (not pool.schedules)
    if hours is None:
        return
    now = (MONDAY + timedelta(minutes=minute)).astimezone(ZoneInfo(pool.schedules[0].timezone))
    changed = [(change, day) for change in size_changes(pool) for day in change.days]
    at = now.isoweekday() % 7 * 1440 + now.hour * 60 + now.minute

    def since(switch: tuple[object, str]) -> int:
        change, day = switch
        hour, minutes = change.time.split(":")  # pyright: ignore[reportAttributeAccessIssue]
        return (at - WEEK.index(day) * 1440 - int(hour) * 60 - int(minutes)) % (7 * 1440)

    assert hours.size_at(now) == min(changed, key=since)[0].members


def test_hours_follow_daylight_saving_time() -> None:
    office = {"start": "08:00", "end": "18:00", "size": 9, "timezone": "Europe/Berlin"}
    hours = parse_pool_hours(format_pool_hours(plan_of(sandbox(pool={"size": 2, "schedules": [office]})).settings.pool))
    assert hours is not None
    # Summer and winter.
    assert [hours.size_at(datetime(2026, 7, 6, hour, tzinfo=UTC)) for hour in (5, 6, 15, 16)] == [2, 9, 9, 2]
    assert [hours.size_at(datetime(2026, 11, 2, hour, tzinfo=UTC)) for hour in (6, 7, 16, 17)] == [2, 9, 9, 2]
    assert hours.size_at(datetime(2026, 11, 1, 12, tzinfo=UTC)) == 2


@pytest.mark.parametrize(
    "text", ["", "[]", "soon", '["Nowhere/At All",1,[]]', '["UTC",1,[[1]]]', '["../etc",1,[]]', '["Europe",1,[]]', "7"]
)
def test_invalid_hours_are_none(text: str) -> None:
    assert parse_pool_hours(text) is None
