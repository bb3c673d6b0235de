"""The attribution benchmark: a simulated month, attributed by the project and by OpenCost's rules."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from agentenv.core.attribution.types import PARTS
from bench.attribution import compare
from bench.month.record import Record, record
from bench.month.truth import truth
from bench.month.whole import Month, month

OWNERS, SEED = 150, 7


@pytest.fixture(scope="module")
def simulated() -> Month:
    return month(OWNERS, SEED)


@pytest.fixture(scope="module")
def observed(simulated: Month) -> Record:
    return record(simulated, SEED)


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return compare(OWNERS, SEED)


def test_a_month_has_the_difficult_cases(figures: dict[str, Any], observed: Record) -> None:
    assert figures["adopted_slots"] > 500
    assert figures["nodes_lost"] > 3
    assert sum(row.task == "t-1" for row in observed.rows) >= 60
    asleep = {row.owner for row in observed.rows} - {row.owner for row in observed.rows if row.pod != "-"}
    assert asleep, "no owner was suspended all month"


def test_the_exact_costs_sum_to_the_bill(simulated: Month, observed: Record) -> None:
    exact = truth(simulated)
    bill = sum((charge.amount for charge in observed.charges), Decimal(0))
    assert sum(exact.part(part) for part in PARTS) == pytest.approx(float(bill), abs=1e-5)


def test_each_owner_is_within_one_percent_and_the_sum_is_the_bill(figures: dict[str, Any]) -> None:
    assert figures["error_max_percent"] < 1
    assert figures["gap_dollars"] == 0
    assert figures["attributed_dollars"] == figures["bill_dollars"]


def test_opencost_misses_most_of_the_bill_and_charges_adopters_for_warm_time(figures: dict[str, Any]) -> None:
    assert figures["opencost_attributed_percent"] < 50
    assert figures["opencost_shared_error_max_percent"] > 20
    # With the same weights too: the remaining difference is the time before a slot was adopted.
    assert figures["opencost_our_weights_error_max_percent"] > 10 * figures["compute_error_max_percent"]


def test_a_month_is_reproducible() -> None:
    first, second = (record(month(12, 3), 3) for _ in range(2))
    assert first == second
