"""The budgets of children: what a parent has, what its children hold and what ended ones spent stay one sum."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.workspaces.child_budgets import (
    Budget,
    ChildBudget,
    ChildBudgets,
    format_child_budgets,
    read_child_budgets,
)

AT = datetime(2026, 11, 20, 4, 0, tzinfo=UTC)
TOTAL = Decimal(10)
CENTS = st.integers(0, 1200).map(lambda cents: Decimal(cents) / 100)
STEPS = st.tuples(st.sampled_from(["take", "take again", "give back", "pass on"]), st.sampled_from("abc"), CENTS)


def child(amount: Decimal) -> ChildBudget:
    return ChildBudget("u-1", amount, AT, "attempt")


@given(st.lists(st.tuples(STEPS, st.sampled_from(["2026-11", "2026-12", "2027-01"])), max_size=30))
def test_no_sequence_of_steps_changes_the_sum(steps: list[tuple[tuple[str, str, Decimal], str]]) -> None:
    budget = Budget(TOTAL, ChildBudgets())
    for (step, name, amount), month in sorted(steps, key=lambda each: each[1]):
        if step == "give back":
            budget = budget.give_back(name, amount, month)
        elif step == "pass on":
            budget = budget.pass_on(name, amount)
        else:
            budget = budget.take(name, child(amount), Decimal(0), month, restored=step == "take again") or budget
        assert budget.rest + budget.children.total == TOTAL
        assert budget.rest >= 0
        assert read_child_budgets(format_child_budgets(budget.children)) == budget.children


def test_child_gives_back_what_neither_it_nor_its_own_children_took() -> None:
    budget = Budget(TOTAL, ChildBudgets()).take("a", child(Decimal(6)), Decimal(1), "2026-11")
    assert budget is not None
    assert budget.rest == 4
    # Six of nine are held, and one is spent.
    assert budget.take("b", child(Decimal("3.01")), Decimal(1), "2026-11") is None
    ended = budget.pass_on("a", Decimal(2)).give_back("a", Decimal("0.5"), "2026-11")
    assert (ended.rest, ended.children.spent) == (Decimal("7.5"), Decimal("2.5"))
    assert ended.of_month("2026-12") == Budget(TOTAL, ChildBudgets())


def test_repeated_attempt_takes_once_and_a_larger_one_the_rest() -> None:
    first = Budget(TOTAL, ChildBudgets()).take("a", child(Decimal(4)), Decimal(0), "2026-11")
    assert first is not None
    assert first.take("a", child(Decimal(4)), Decimal(0), "2026-11") == first
    larger = first.take("a", child(Decimal(5)), Decimal(0), "2026-11")
    assert larger is not None
    assert larger.rest == 5


def test_new_child_of_a_name_does_not_get_what_its_predecessor_passed_on() -> None:
    first = Budget(TOTAL, ChildBudgets()).take("a", child(Decimal(4)), Decimal(0), "2026-11")
    assert first is not None
    passed_on = first.pass_on("a", Decimal(3))
    again = passed_on.take("a", child(Decimal(4)), Decimal(0), "2026-11")
    assert again is not None
    assert again.rest == 3
    assert passed_on.take("a", child(Decimal(4)), Decimal(0), "2026-11", restored=True) == passed_on


def test_unreadable_parts_are_never_given_back() -> None:
    for text in (None, "", "[]", '{"held": 3}', '{"held": {"a": 3, "b": {"amount": "-1", "since": "now"}}}'):
        assert read_child_budgets(text) == ChildBudgets()
