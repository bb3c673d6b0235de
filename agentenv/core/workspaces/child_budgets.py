"""The budgets of children, which come out of the budget of their parent. Pure.

A parent's rest, what its children hold, and what ended children have spent this month are together what it was given.
So a parent and its descendants never spend more than that in a month, whatever is created and deleted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Final

from agentenv.core.values.object_fields import parsed_object, read_amount, section, text
from agentenv.core.values.timestamps import format_timestamp, parse_timestamp

_ZERO: Final = Decimal(0)


@dataclass(frozen=True, slots=True)
class ChildBudget:
    """What one child holds of its parent's budget."""

    owner: str  # of the child
    amount: Decimal
    since: datetime  # of the last create or restore that took it; the child may not exist before that has ended
    attempt: str = ""  # names that create or restore
    passed_on: Decimal = _ZERO  # of it, to the child's own children


@dataclass(frozen=True, slots=True)
class ChildBudgets:
    """What the children of a workspace hold of its budget, and what those that ended have spent of it in a month."""

    held: Mapping[str, ChildBudget] = field(default_factory=dict[str, ChildBudget])
    spent: Decimal = _ZERO
    month: str = ""

    @property
    def total(self) -> Decimal:
        """Return what the workspace itself does not have."""
        return sum((each.amount for each in self.held.values()), self.spent)


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of a workspace: its rest, and the part of its children."""

    rest: Decimal
    children: ChildBudgets

    def of_month(self, month: str) -> Budget:
        """Return the budget in a month: what ended children spent in an earlier one is returned."""
        if self.children.month == month or not self.children.spent:
            return self
        return Budget(self.rest + self.children.spent, replace(self.children, spent=_ZERO, month=""))

    def take(
        self, child: str, taken: ChildBudget, spent: Decimal, month: str, *, restored: bool = False
    ) -> Budget | None:
        """Return the budget after a child took its part; None where less is left. `spent` is by the workspace itself.

        A child that holds a part already takes only what is missing. What an earlier child of that name passed on is
        still held by its children, unless it is restored with them.
        """
        current = self.of_month(month)
        held = current.children.held.get(child)
        needed = taken.amount + (held.passed_on if held and not restored else _ZERO)
        more = max(_ZERO, needed - (held.amount if held else _ZERO))
        if more > max(_ZERO, current.rest - spent):
            return None
        if held is not None:
            taken = replace(taken, amount=held.amount + more, passed_on=held.passed_on)
        return Budget(current.rest - more, replace(current.children, held={**current.children.held, child: taken}))

    def pass_on(self, child: str, amount: Decimal) -> Budget:
        """Return the budget after a child gave a part of what it holds to a child of its own."""
        held = self.children.held.get(child)
        if held is None:
            return self
        passed_on = replace(held, passed_on=held.passed_on + amount)
        return replace(self, children=replace(self.children, held={**self.children.held, child: passed_on}))

    def give_back(self, child: str, spent: Decimal, month: str) -> Budget:
        """Return the budget after the end of a child that has spent so much this month.

        What the child passed on counts as spent: nobody may know any more what its own children have spent.
        """
        current = self.of_month(month)
        held = dict(current.children.held)
        ended = held.pop(child, None)
        if ended is None:
            return current
        spent = min(ended.amount, spent + ended.passed_on)
        total = current.children.spent + spent
        children = ChildBudgets(held, total, month if total else "")
        return Budget(current.rest + ended.amount - spent, children)


def format_child_budgets(budgets: ChildBudgets) -> str | None:
    """Return budgets of children as the text of their annotation; None, which removes it, where there are none."""
    held = {
        child: {
            "owner": each.owner,
            "amount": str(each.amount),
            "since": format_timestamp(each.since),
            "attempt": each.attempt,
            **({"passedOn": str(each.passed_on)} if each.passed_on else {}),
        }
        for child, each in sorted(budgets.held.items())
    }
    spent = {"spent": str(budgets.spent), "month": budgets.month} if budgets.spent else {}
    return json.dumps({"held": held, **spent}, separators=(",", ":")) if held or spent else None


def read_child_budgets(annotation: object) -> ChildBudgets:
    """Return the budgets of children that an annotation has; a part that cannot be read is never given back."""
    document = parsed_object(annotation) or {}
    held: dict[str, ChildBudget] = {}
    for child in section(document, "held"):
        row = section(section(document, "held"), child)
        amount, since = read_amount(row.get("amount")), parse_timestamp(row.get("since"))
        if amount is not None and since is not None:
            passed_on = read_amount(row.get("passedOn")) or _ZERO
            held[child] = ChildBudget(text(row, "owner"), amount, since, text(row, "attempt"), passed_on)
    return ChildBudgets(held, read_amount(document.get("spent")) or _ZERO, text(document, "month"))
