"""Tests of units: money is exact, and different units do not mix."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agentenv.core.prices.units import Amount, Dollars, Rate, UnitError, apportioned, cents, exact, total

MONEY = some.decimals(min_value=0, max_value=1_000_000, places=8)
HOURLY, MONTHLY = Rate(Decimal("0.10"), "h"), Rate(Decimal(3), "month")
ANY: Any = 1.5


@pytest.mark.parametrize(
    "mix",
    [
        lambda: HOURLY + MONTHLY,
        lambda: HOURLY.of(Amount(Decimal(1), "month")),
        lambda: MONTHLY.of(Amount(Decimal(1), "h")),
        lambda: HOURLY * Amount(Decimal(1), "h"),
        lambda: Rate(Decimal(1), "GB").all_month(),
        lambda: Amount(Decimal(1), "GB") + Amount(Decimal(1), "GB-month"),
        lambda: Dollars(Decimal(1)) + ANY,
        lambda: Dollars(Decimal(1)) * ANY,
        lambda: Dollars(ANY),
        lambda: Rate(ANY, "h"),
        lambda: Amount(ANY, "h"),
        lambda: Dollars(Decimal(1)) + Decimal(1),  # pyright: ignore[reportOperatorIssue] - what is refused
        lambda: HOURLY.times(ANY),
        lambda: Rate(Decimal(1), "hour"),  # pyright: ignore[reportArgumentType] - what is refused
        lambda: exact(True),
    ],
)
def test_different_units_are_refused(mix: Callable[[], object]) -> None:
    with pytest.raises(UnitError):
        mix()


def test_a_month_has_seven_hundred_and_thirty_hours() -> None:
    assert HOURLY.all_month() == Dollars(Decimal("73.00"))
    assert MONTHLY.all_month() == Dollars(Decimal(3))
    assert HOURLY.times(3).of(Amount(Decimal(10), "h")) == Dollars(Decimal(3))
    assert str(Rate(Decimal("0.0450"), "GB")) == "$0.045/GB"


@given(some.lists(MONEY, max_size=30))
def test_parts_in_cents_sum_to_their_sum_in_cents(parts: list[Decimal]) -> None:
    shown = apportioned(parts)
    assert sum(shown, start=Decimal(0)) == cents(sum(parts, start=Decimal(0)))
    assert all(abs(amount - part) < Decimal("0.01") for amount, part in zip(shown, parts, strict=True))
    assert all(amount == amount.quantize(Decimal("0.01")) for amount in shown)


@given(some.lists(MONEY, max_size=20), some.randoms(use_true_random=False))
def test_a_sum_does_not_depend_on_its_order(parts: list[Decimal], chance: Any) -> None:
    dollars = [Dollars(part) for part in parts]
    before = total(dollars)
    chance.shuffle(dollars)
    assert total(dollars) == before
