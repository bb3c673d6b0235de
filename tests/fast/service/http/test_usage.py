"""The days of a usage report: defaults, and refusals of invalid ones."""

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


@pytest.mark.parametrize("text", ["0", "1e9", "20261118", "2026-W01-1", "tomorrow", "2026-11-31", "2026-11-18T00:00"])
def test_a_text_that_is_not_a_day_is_refused(text: str) -> None:
    assert UsageQuery.model_validate({"until": "2026-11-18"}).until == date(2026, 11, 18)
    with pytest.raises(ValidationError):
        UsageQuery.model_validate({"until": text})


TODAY = date(2026, 11, 18)


@pytest.mark.parametrize(
    ("since", "until", "expected"),
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
def test_a_day_that_is_left_out_has_a_valid_default(
    since: date | None, until: date | None, expected: tuple[date, date]
) -> None:
    assert days(since, until, TODAY) == expected


@pytest.mark.parametrize(
    ("since", "until"),
    [
        (date(2026, 11, 2), date(2026, 11, 1)),
        (date(2026, 1, 1), date(2026, 11, 1)),
        (date.max, date.max),
        (date.min, date.max),
    ],
)
def test_days_out_of_order_or_too_many_are_refused(since: date, until: date) -> None:
    unchecked: Any = Dependencies
    dependencies = cast("Dependencies", unchecked(None, None, None, None, None, None, ledger=object()))
    with pytest.raises(Problem, match="choose at most"):
        asyncio.run(
            usage(
                UsageQuery(since=since, until=until), Caller("u-1", with_implied_roles("user"), "token"), dependencies
            )
        )
