"""Days of usage that are asked for: whatever they are, it is said what is wrong with them."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any, cast

import pytest
from pydantic import ValidationError

from agentenv.service.http.auth.callers import Caller, with_implied_roles
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.problems import Problem
from agentenv.service.ledger.routes import UsageQuery, days, usage


@pytest.mark.parametrize("said", ["0", "1e9", "20261118", "2026-W01-1", "tomorrow", "2026-11-31", "2026-11-18T00:00"])
def test_what_is_not_written_as_a_day_is_none(said: str) -> None:
    assert UsageQuery.model_validate({"until": "2026-11-18"}).until == date(2026, 11, 18)
    with pytest.raises(ValidationError):
        UsageQuery.model_validate({"until": said})


TODAY = date(2026, 11, 18)


@pytest.mark.parametrize(
    ("since", "until", "told"),
    [
        (None, None, (date(2026, 11, 1), TODAY)),
        (None, date(2000, 1, 9), (date(2000, 1, 1), date(2000, 1, 9))),
        (date(2026, 11, 9), None, (date(2026, 11, 9), TODAY)),
        (date(2000, 1, 1), None, (date(2000, 1, 1), date(2000, 4, 2))),
        (date(2027, 1, 1), None, (date(2027, 1, 1), date(2027, 1, 1))),
        (date.max, None, (date.max, date.max)),
        (date(2026, 11, 2), date(2026, 11, 1), (date(2026, 11, 2), date(2026, 11, 1))),
    ],
)
def test_one_day_alone_is_never_wrong_for_the_one_that_was_left_out(
    since: date | None, until: date | None, told: tuple[date, date]
) -> None:
    assert days(since, until, TODAY) == told


@pytest.mark.parametrize(
    ("since", "until"),
    [
        (date(2026, 11, 2), date(2026, 11, 1)),
        (date(2026, 1, 1), date(2026, 11, 1)),
        (date.max, date.max),
        (date.min, date.max),
    ],
)
def test_days_out_of_order_too_many_or_beyond_all_are_refused(since: date, until: date) -> None:
    made: Any = Dependencies
    parts = cast("Dependencies", made(None, None, None, None, None, ledger=object()))
    with pytest.raises(Problem, match="choose at most"):
        asyncio.run(
            usage(UsageQuery(since=since, until=until), Caller("u-1", with_implied_roles("user"), "token"), parts)
        )
