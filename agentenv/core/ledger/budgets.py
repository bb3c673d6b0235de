"""Budgets: the month-to-date cost of an owner from the ledger, the limits that apply, and the resulting action.

A workspace has its own budget, else that of its class. The cap per user applies to the sum of an owner's workspaces,
except those of classes with a budget. Budgets never delete anything: a workspace over its limit is suspended, and does
not resume until the limit is raised or the month is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from agentenv.core.ledger.rows import BYTES_A_GIB, NOTHING, SECONDS_AN_HOUR, Row

Action = Literal["notice", "suspend"]
_CENT = Decimal("0.01")


@dataclass(frozen=True)
class Rates:
    """The prices of a class in dollars: per hour of each resource, and per GiB of network traffic."""

    core_hour: Decimal
    memory_gib_hour: Decimal
    storage_gib_hour: Decimal
    network_gib: Decimal = NOTHING

    def dollars(self, row: Row) -> Decimal:
        """Return the cost of a row."""
        return (
            row.cpu_seconds / SECONDS_AN_HOUR * self.core_hour
            + row.memory_gib_hours * self.memory_gib_hour
            + row.storage_gib_hours * self.storage_gib_hour
            + row.network_bytes / BYTES_A_GIB * self.network_gib
        )


@dataclass(frozen=True)
class Policy:
    """The budgets of an environment."""

    rates: Mapping[str, Rates]  # by class
    class_budgets: Mapping[str, Decimal]  # by class: the budget of each workspace, for classes that have one
    user_cap: Decimal | None
    notice_at: int  # percent


@dataclass(frozen=True)
class LimitUsage:
    """The cost against one limit this month: the budget of a workspace, or the owner's cap."""

    spent: Decimal
    limit: Decimal
    of: Literal["workspace", "class", "user"]

    @property
    def percent(self) -> int:
        """Return the share of the limit that is spent, in percent, rounded down."""
        return int(self.spent * 100 / self.limit) if self.limit else 100

    @property
    def over(self) -> bool:
        """Return whether the limit is reached."""
        return self.spent >= self.limit

    def __str__(self) -> str:
        limit = {"workspace": "its budget", "class": "its class's budget", "user": "its owner's cap"}[self.of]
        return f"{format_dollars(self.spent)} of {format_dollars(self.limit)} dollars of {limit} per month"


class MonthlySpend:
    """The month-to-date cost of one owner, from the rows of the month."""

    def __init__(self, policy: Policy, rows: Iterable[Row]) -> None:
        self._policy = policy
        self._workspaces: dict[str, Decimal] = {}
        self._classes: dict[str, str] = {}
        self._capped = self.total = NOTHING
        for row in rows:
            dollars = row_cost(policy.rates, row)
            self.total += dollars
            self._classes[row.workspace] = row.sandbox_class
            self._workspaces[row.workspace] = self._workspaces.get(row.workspace, NOTHING) + dollars
            if row.sandbox_class not in policy.class_budgets:
                self._capped += dollars

    @property
    def capped(self) -> Decimal:
        """Return the cost that counts against the owner's cap."""
        return self._capped

    def of(self, workspace: str) -> Decimal:
        """Return the cost of one workspace."""
        return self._workspaces.get(workspace, NOTHING)

    def nearest(self, workspace: str, sandbox_class: str, budget: Decimal | None) -> LimitUsage | None:
        """Return the limit of a workspace with the largest share spent; `budget` is its own, if it has one."""
        return nearest_limit(self._policy, self.of(workspace), self._capped, sandbox_class, budget)

    def near(self, workspaces: Mapping[str, tuple[str, Decimal | None]]) -> tuple[Decimal | None, dict[str, Decimal]]:
        """Return the capped cost if it is near the cap, and the cost of each workspace near its budget.

        `workspaces` are the class and the own budget of each known workspace. Others, whose records are gone, have the
        budget of the class of their last row.
        """
        cap = LimitUsage(self._capped, self._policy.user_cap, "user") if self._policy.user_cap is not None else None
        near: dict[str, Decimal] = {}
        for name, spent in self._workspaces.items():
            sandbox_class, budget = workspaces.get(name, (self._classes[name], None))
            limited = _workspace_limit(self._policy, spent, sandbox_class, budget)
            if limited is not None and limited.percent >= self._policy.notice_at:
                near[name] = spent
        return (self._capped if cap is not None and cap.percent >= self._policy.notice_at else None), near


def nearest_limit(
    policy: Policy, spent: Decimal, capped: Decimal, sandbox_class: str, budget: Decimal | None
) -> LimitUsage | None:
    """Return the limit with the largest share spent, or None if no limit applies.

    `spent` is the cost of a workspace, `capped` the cost of its owner that counts towards the cap.
    """
    limits = [_workspace_limit(policy, spent, sandbox_class, budget)]
    if sandbox_class not in policy.class_budgets and policy.user_cap is not None:
        limits.append(LimitUsage(capped, policy.user_cap, "user"))
    return max((each for each in limits if each is not None), key=lambda usage: usage.percent, default=None)


def _workspace_limit(policy: Policy, spent: Decimal, sandbox_class: str, budget: Decimal | None) -> LimitUsage | None:
    if budget is not None:
        return LimitUsage(spent, budget, "workspace")
    class_budget = policy.class_budgets.get(sandbox_class)
    return None if class_budget is None else LimitUsage(spent, class_budget, "class")


def budget_action(limited: LimitUsage | None, notice_at: int) -> Action | None:
    """Return the action for the nearest limit of a workspace, or None."""
    if limited is None:
        return None
    if limited.over:
        return "suspend"
    return "notice" if limited.percent >= notice_at else None


def row_cost(rates: Mapping[str, Rates], row: Row) -> Decimal:
    """Return the cost of a row. A class that no longer exists has the rates of the most expensive one."""
    class_rates = rates.get(row.sandbox_class)
    if class_rates is not None:
        return class_rates.dollars(row)
    return max((each.dollars(row) for each in rates.values()), default=NOTHING)


def format_dollars(amount: Decimal) -> Decimal:
    """Return an amount rounded to cents, for messages."""
    return amount.quantize(_CENT)
