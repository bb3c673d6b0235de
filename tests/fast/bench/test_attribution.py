"""The benchmark of attribution: a month of which all is known, divided by us and by OpenCost's rules."""

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
def happened() -> Month:
    return month(OWNERS, SEED)


@pytest.fixture(scope="module")
def known(happened: Month) -> Record:
    return record(happened, SEED)


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return compare(OWNERS, SEED)


def test_a_month_has_what_makes_attribution_hard(figures: dict[str, Any], known: Record) -> None:
    assert figures["adopted_slots"] > 500
    assert figures["nodes_lost"] > 3
    assert sum(row.task == "t-1" for row in known.rows) >= 60
    asleep = {row.owner for row in known.rows} - {row.owner for row in known.rows if row.pod != "-"}
    assert asleep, "nobody slept all month"


def test_the_truth_is_the_bill_too(happened: Month, known: Record) -> None:
    true = truth(happened)
    bill = sum((charge.amount for charge in known.charges), Decimal(0))
    assert sum(true.part(part) for part in PARTS) == pytest.approx(float(bill), abs=1e-5)


def test_everybody_is_within_a_per_cent_of_the_truth_and_the_sum_is_the_bill(figures: dict[str, Any]) -> None:
    assert figures["error_max_percent"] < 1
    assert figures["gap_dollars"] == 0
    assert figures["attributed_dollars"] == figures["bill_dollars"]


def test_the_other_way_misses_most_of_the_bill_and_charges_adopters_for_waiting(figures: dict[str, Any]) -> None:
    assert figures["opencost_attributed_percent"] < 50
    assert figures["opencost_shared_error_max_percent"] > 20
    # Also where weights are ours: what is left of the difference is the time before a slot was adopted.
    assert figures["opencost_our_weights_error_max_percent"] > 10 * figures["compute_error_max_percent"]


def test_a_month_can_be_had_again() -> None:
    first, second = (record(month(12, 3), 3) for _ in range(2))
    assert first == second
