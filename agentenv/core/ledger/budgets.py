"""Budgets that act: what an owner's month costs so far by the ledger, whose limit that is, and what follows.

A workspace is held by its own budget, else by its class's. The cap a user holds all of an owner's workspaces together
but those of classes that have a budget of their own. Nothing is ever deleted for money: a workspace sleeps, and is not
woken until its limit is raised or the month is over.
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
    """What an hour of each costs in a class, in dollars; of the network, what a GiB does."""

    core_hour: Decimal
    memory_gib_hour: Decimal
    storage_gib_hour: Decimal
    network_gib: Decimal = NOTHING

    def dollars(self, row: Row) -> Decimal:
        """What a row costs."""
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
    class_budgets: Mapping[str, Decimal]  # a workspace, of classes that have one
    user_cap: Decimal | None
    notice_at: int  # percent


@dataclass(frozen=True)
class LimitUsage:
    """What is spent of one limit this month, of one workspace or of all that an owner's cap holds."""

    spent: Decimal
    limit: Decimal
    of: Literal["workspace", "class", "user"]

    @property
    def percent(self) -> int:
        """How much of it is spent, in whole percents that were reached."""
        return int(self.spent * 100 / self.limit) if self.limit else 100

    @property
    def over(self) -> bool:
        """Whether all of it is spent."""
        return self.spent >= self.limit

    def __str__(self) -> str:
        whose = {"workspace": "its budget", "class": "its class's budget", "user": "its owner's cap"}[self.of]
        return f"{format_dollars(self.spent)} of {format_dollars(self.limit)} dollars of {whose} a month"


class MonthlySpend:
    """What one owner's month costs so far, by its rows."""

    def __init__(self, policy: Policy, rows: Iterable[Row]) -> None:
        self._policy = policy
        self._workspaces: dict[str, Decimal] = {}
        self._capped = self.total = NOTHING
        for row in rows:
            dollars = row_cost(policy.rates, row)
            self.total += dollars
            self._workspaces[row.workspace] = self._workspaces.get(row.workspace, NOTHING) + dollars
            if row.sandbox_class not in policy.class_budgets:
                self._capped += dollars

    def of(self, workspace: str) -> Decimal:
        """What one workspace costs."""
        return self._workspaces.get(workspace, NOTHING)

    def limits(self, workspace: str, sandbox_class: str, budget: Decimal | None) -> list[LimitUsage]:
        """The limits that hold a workspace; `budget` is its own, where it has one."""
        policy, found = self._policy, list[LimitUsage]()
        of_class = policy.class_budgets.get(sandbox_class)
        if budget is not None:
            found.append(LimitUsage(self.of(workspace), budget, "workspace"))
        elif of_class is not None:
            found.append(LimitUsage(self.of(workspace), of_class, "class"))
        if of_class is None and policy.user_cap is not None:
            found.append(LimitUsage(self._capped, policy.user_cap, "user"))
        return found

    def nearest(self, workspace: str, sandbox_class: str, budget: Decimal | None) -> LimitUsage | None:
        """The limit that it is nearest to, or furthest beyond; None where nothing holds it."""
        return max(self.limits(workspace, sandbox_class, budget), key=lambda one: one.percent, default=None)


def budget_action(limited: LimitUsage | None, notice_at: int) -> Action | None:
    """What is to be done about it."""
    if limited is None:
        return None
    if limited.over:
        return "suspend"
    return "notice" if limited.percent >= notice_at else None


def row_cost(rates: Mapping[str, Rates], row: Row) -> Decimal:
    """What a row costs. A class that is no more is priced like the dearest there is: nothing is free by being old."""
    known = rates.get(row.sandbox_class)
    if known is not None:
        return known.dollars(row)
    return max((one.dollars(row) for one in rates.values()), default=NOTHING)


def format_dollars(amount: Decimal) -> Decimal:
    """An amount as people are told it."""
    return amount.quantize(_CENT)
