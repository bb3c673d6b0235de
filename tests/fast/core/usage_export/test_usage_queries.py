"""Tests of the saved queries: costs of users, shared costs and the gap add up to the bill."""

from __future__ import annotations

from collections import defaultdict

import pytest
import sqlglot
from sqlglot import exp

from agentenv.core.usage_export.columns import COLUMNS, PARTITION
from agentenv.core.usage_export.queries import Source, queries
from tests.fast.core.usage_export.bill import CLUSTER, ENVIRONMENT, Bill, sample
from tests.fast.core.usage_export.usages import USAGES

FIRST, SECOND = "2026-11-03", "2026-11-04"


def test_usage_is_divided_into_users_warm_slots_and_platform() -> None:
    rows = {(str(row["day"]), row["owner"], row["class"]): row for row in sample().query_results()["per-user-and-day"]}
    assert set(rows) == {
        (FIRST, "u-1", "standard"),
        (FIRST, "u-1", "batch"),
        (FIRST, "u-2", "standard"),
        (FIRST, "(warm pool)", "standard"),
        (FIRST, "(platform)", None),
        (SECOND, "u-1", "standard"),
    }
    row = rows[FIRST, "u-1", "standard"]
    assert (row["direct"], row["idle_beside"]) == (pytest.approx(0.04), pytest.approx(0.02))
    on_fargate = rows[FIRST, "u-1", "batch"]
    assert (on_fargate["direct"], on_fargate["idle_beside"]) == (pytest.approx(0.03), 0)


def test_shared_costs_are_divided_by_part() -> None:
    rows = {row["part"]: row["cost"] for row in sample().query_results()["shared-costs"] if str(row["day"]) == FIRST}
    assert rows == {
        "NAT": pytest.approx(0.045),
        "control plane": pytest.approx(0.10),
        "instances without pods": pytest.approx(0.09),
        "other": pytest.approx(0.02),
    }


def test_usage_types_decide_the_part() -> None:
    bill = Bill()
    for number, usage in enumerate(USAGES, 1):
        bill.line("2026-11-03 10:00:00", number, line_item_product_code=usage.product, line_item_usage_type=usage.name)
    expected: defaultdict[str, float] = defaultdict(float)
    for number, usage in enumerate(USAGES, 1):
        expected[usage.part] += number
    found: defaultdict[str, float] = defaultdict(float)
    for row in bill.query_results()["shared-costs"]:
        found[row["part"]] += row["cost"]
    assert dict(found) == pytest.approx(dict(expected))


def test_users_shared_costs_and_the_gap_are_the_bill() -> None:
    answers = sample().query_results()
    days = {str(row["day"]): row for row in answers["reconciliation-gap"]}
    assert set(days) == {FIRST, SECOND}
    assert days[FIRST]["bill"] == pytest.approx(0.10 + 0.08 + 0.09 + 0.03 + 0.045 + 0.10 + 0.02)
    # Of the instance that AWS has not told all of.
    assert days[FIRST]["gap"] == pytest.approx(0.02)
    # What a savings plan covers counts at what it cost, once.
    assert days[SECOND]["bill"] == pytest.approx(0.06)
    assert days[SECOND]["gap"] == pytest.approx(0)
    for day, row in days.items():
        used = sum(row["direct"] + row["idle_beside"] for row in answers["per-user-and-day"] if str(row["day"]) == day)
        shared = sum(row["cost"] for row in answers["shared-costs"] if str(row["day"]) == day)
        assert shared == pytest.approx(row["shared"])
        assert used + shared + row["gap"] == pytest.approx(row["bill"])


def test_without_cost_tags_the_whole_account_is_read() -> None:
    answers = sample().query_results(tagged=False)
    days = {str(row["day"]): row for row in answers["reconciliation-gap"]}
    assert days[FIRST]["bill"] == pytest.approx(0.465 + 9.0)
    assert "u-3" not in {row["owner"] for row in answers["per-user-and-day"]}


@pytest.mark.parametrize("tagged", [True, False])
def test_queries_read_exported_columns_of_the_requested_months(tagged: bool) -> None:
    source = Source("usage", "hours", ENVIRONMENT, CLUSTER, tagged)
    exported = {column.name for column in COLUMNS} | {PARTITION}
    for query in queries(source):
        (tree,) = sqlglot.parse(query.text, read="athena")
        assert tree is not None
        (lines,) = [row for row in tree.find_all(exp.CTE) if row.alias == "lines"]
        assert {column.name for column in lines.find_all(exp.Column)} <= exported
        # Without this a query would read, and pay for, all months there are.
        (months,) = [row for row in lines.find_all(exp.GTE) if row.this.name == PARTITION]
        assert "interval" in months.expression.sql("athena").lower()
        assert len(query.text.encode()) < 262_144


def test_names_are_quoted() -> None:
    for query in queries(Source("usage", "hours", "it's", CLUSTER, tagged=True)):
        (tree,) = sqlglot.parse(query.text, read="athena")
        assert tree is not None
        assert "it's" in {literal.this for literal in tree.find_all(exp.Literal)}
