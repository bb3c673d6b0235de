"""Tests of the division of amounts: the parts add up, each within a grain of its share."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.attribution.apportion import apportion, dollars, grains
from agentenv.core.attribution.statement import in_cents

WEIGHTS = st.dictionaries(st.text(max_size=3), st.integers(0, 10**15), min_size=1).filter(
    lambda some: any(some.values())
)


@given(st.integers(-(10**18), 10**18), WEIGHTS)
def test_parts_add_up_and_are_within_a_grain_of_their_share(amount: int, weights: dict[str, int]) -> None:
    parts = apportion(amount, weights)
    total = sum(weights.values())
    assert sum(parts.values()) == amount
    for key, part in parts.items():
        assert abs(part - Fraction(amount * weights[key], total)) < 1
        assert weights[key] or not part


@given(st.integers(0, 10**9), WEIGHTS)
def test_larger_weight_never_gets_less_in_any_order(amount: int, weights: dict[str, int]) -> None:
    parts = apportion(amount, weights)
    assert apportion(amount, dict(reversed(weights.items()))) == parts
    ordered = sorted(weights, key=lambda key: weights[key])
    assert all(parts[less] <= parts[more] + 1 for less, more in pairwise(ordered))


@pytest.mark.parametrize("weights", [{}, {"a": 0}, {"a": 2, "b": -1}])
def test_weights_without_a_sum_are_refused(weights: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must not be negative, and not all zero"):
        apportion(1, weights)


def test_money_in_grains_is_exact() -> None:
    assert dollars(grains(Decimal("12345.678901234567"))) == Decimal("12345.678901234567")
    assert grains(Decimal("0.0000000000005")) == 0  # half to even
    assert grains(Decimal("0.0000000000015")) == 2


CENTS = st.dictionaries(st.integers(), st.decimals("-1000", "1000", places=6), min_size=1)


@given(CENTS)
def test_cents_add_up_to_the_total_and_are_less_than_a_cent_off(amounts: dict[int, Decimal]) -> None:
    total = sum(amounts.values(), Decimal(0)).quantize(Decimal("0.01"))
    rounded = in_cents(amounts, total)
    assert sum(rounded.values(), Decimal(0)) == total
    assert all(abs(rounded[key] - amount) <= Decimal("0.01") for key, amount in amounts.items())
    assert all(amount == amount.quantize(Decimal("0.01")) for amount in rounded.values())


def test_a_total_that_differs_from_the_amounts_is_refused() -> None:
    with pytest.raises(ArithmeticError, match="cannot be rounded"):
        in_cents({"a": Decimal("1.00")}, Decimal("2.00"))
