"""Tests of FOCUS rows: those of a statement satisfy its rules, and each rule reports its violations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from agentenv.core.attribution.attribute import attribute
from agentenv.core.attribution.statement import Statement
from agentenv.core.attribution.types import PARTS
from agentenv.core.focus.columns import COLUMNS
from agentenv.core.focus.rows import FocusContext, FocusRow, focus_rows, metered_quantities
from agentenv.core.focus.validation import MOST, breaches
from bench.month.record import record
from bench.month.whole import month


@pytest.fixture(scope="module")
def divided() -> tuple[Statement, list[FocusRow]]:
    known = record(month(8, 1), 1)
    statement = attribute(known.charges, known.rows, known.warm, known.places)
    about = FocusContext("prod", "111122223333", "us-east-1")
    return statement, list(focus_rows(statement, metered_quantities(known.rows), about))


@pytest.fixture
def row(divided: tuple[Statement, list[FocusRow]]) -> FocusRow:
    return dict(next(row for row in divided[1] if row["x_CostPart"] == "storage"))


def test_rows_are_valid_and_add_up_to_the_bill(divided: tuple[Statement, list[FocusRow]]) -> None:
    statement, rows = divided
    assert breaches(rows, statement.bill) == []
    assert {row["x_CostPart"] for row in rows} == set(PARTS)
    for part in PARTS:
        of_part = sum(Decimal(str(row["BilledCost"])) for row in rows if row["x_CostPart"] == part)
        assert of_part == statement.total(lambda entry: entry.part)[part]


def test_quantities_are_from_the_ledger(divided: tuple[Statement, list[FocusRow]]) -> None:
    known = record(month(8, 1), 1)
    recorded = sum(row.storage_gib_hours for row in known.rows)
    reported = sum(Decimal(str(row["ConsumedQuantity"])) for row in divided[1] if row["x_CostPart"] == "storage")
    assert reported == pytest.approx(recorded, abs=Decimal("0.001"))


def test_a_difference_to_the_bill_is_reported(divided: tuple[Statement, list[FocusRow]]) -> None:
    statement, rows = divided
    (reported,) = breaches(rows[1:], statement.bill)
    assert "and the bill" in reported


MANDATORY = [column.name for column in COLUMNS if column.level == "mandatory"]


@pytest.mark.parametrize("name", MANDATORY)
def test_a_missing_mandatory_column_is_reported(name: str, row: FocusRow) -> None:
    del row[name]
    assert f"columns: {name} is missing" in breaches([row])


@pytest.mark.parametrize("name", [column.name for column in COLUMNS if not column.nullable])
def test_an_empty_required_value_is_reported(name: str, row: FocusRow) -> None:
    row[name] = None
    assert any(f"{name} is empty" in reported for reported in breaches([row]))


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"ChargeCategory": "Idle"}, "ChargeCategory is 'Idle', which is none of Usage"),
        ({"BilledCost": Decimal("NaN")}, "and no number"),
        ({"BilledCost": 0.1}, "and no number"),
        ({"ListCost": Decimal(5)}, "ListCost differs from BilledCost"),
        ({"ChargePeriodStart": datetime(2026, 10, 1)}, "and no moment in UTC"),  # noqa: DTZ001 - without a zone
        ({"ChargePeriodEnd": datetime(2020, 1, 1, tzinfo=UTC)}, "ChargePeriodEnd is not after"),
        ({"ProviderName": "  "}, "and no text"),
        ({"Tags": "{"}, "Tags is no JSON"),
        ({"Tags": "[]"}, "Tags is no JSON object"),
        ({"Tags": '{"a": []}'}, "has lists or objects"),
        ({"BillingCurrency": "dollar"}, "no code of a currency"),
        ({"SubAccountId": None}, "SubAccountId and SubAccountName"),
        ({"ConsumedUnit": "gibibyte hours"}, "no unit as FOCUS writes them"),
        ({"ServiceSubcategory": "Containers"}, "which is not of 'Storage'"),
        ({"PricingCategory": None}, "PricingCategory is empty in a row of usage"),
        ({"ChargeCategory": "Purchase"}, "Usage-Based in a row of a purchase"),
        ({"ListUnitPrice": Decimal(9)}, "ListCost is not ListUnitPrice times"),
        ({"cost_part": "x"}, "not named x_Something"),
    ],
)
def test_each_rule_reports_its_violations(changes: dict[str, Any], reported: str, row: FocusRow) -> None:
    assert any(reported in breach for breach in breaches([row | changes]))


def test_custom_columns_come_last_and_all_rows_have_the_same(row: FocusRow) -> None:
    assert "columns: custom columns come after those of FOCUS" in breaches([{"x_First": "a", **row}])
    assert "row 2: it has other columns than the first" in breaches([row, row | {"x_More": "a"}])


def test_the_number_of_reports_is_limited(row: FocusRow) -> None:
    wrong = dict.fromkeys(row)
    assert len(breaches([wrong] * 100)) == MOST


def test_a_billing_period_is_a_month_of_any_length(divided: tuple[Statement, list[FocusRow]]) -> None:
    (row, *_) = divided[1]
    assert (row["BillingPeriodStart"], row["BillingPeriodEnd"]) == (
        datetime(2026, 10, 1, tzinfo=UTC),
        datetime(2026, 10, 1, tzinfo=UTC) + timedelta(days=31),
    )
