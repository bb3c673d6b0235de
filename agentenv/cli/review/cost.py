"""Estimate the monthly cost before and after a change, from the settings of both revisions, without an account.

Both estimates have the number of users of the new revision, so that a difference comes from the design alone. They
include nodes, which are not in the graph, because an estimate uses settings and not resources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

from agentenv.config import Settings
from agentenv.core.cost.estimate import Estimate, estimate
from agentenv.core.prices.book import MissingPricesError
from agentenv.core.prices.units import cents

UNREADABLE = "this version cannot read the settings of the stack file"


class Estimator(Protocol):
    """A function that estimates costs."""

    def __call__(self, settings: Settings, users: int, active_hours: Decimal, /) -> Estimate:
        """Estimate the cost of an environment. `MissingPricesError` if its region has no prices."""
        ...


@dataclass(frozen=True)
class Costs:
    """The costs of both revisions, in dollars a month; None without an estimate."""

    before: Decimal | None = None
    after: Decimal | None = None
    per_user: Decimal | None = None
    note: str = UNREADABLE  # why there is no figure; otherwise empty
    users: int = 0
    active_hours: Decimal = Decimal(0)
    break_even_users: int | None = None
    target: Decimal | None = None
    parts: tuple[tuple[str, Decimal, Decimal], ...] = ()  # part, before, after; the largest change first
    prices_of: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the costs as the command's JSON has them."""
        figures = {"before": self.before, "after": self.after, "per_user": self.per_user}
        return {
            **{name: None if amount is None else float(cents(amount)) for name, amount in figures.items()},
            "note": self.note,
            "users": self.users,
            "active_hours": float(self.active_hours),
            "break_even_users": self.break_even_users,
            "prices_of": self.prices_of,
            "parts": [
                {"part": part, "before": float(cents(then)), "after": float(cents(now))}
                for part, then, now in self.parts
            ],
        }


def costs(before: Settings | None, after: Settings | None, estimator: Estimator | None = None) -> Costs:
    """Estimate the costs of both revisions, for the users and hours of the later one."""
    settings = after or before
    if settings is None:
        return Costs()
    estimate_cost = estimator or estimate
    users, hours = settings.cost.expected_users, Decimal(settings.cost.active_hours)
    try:
        then = estimate_cost(before, users, hours) if before else None
        now = estimate_cost(after, users, hours) if after else None
    except MissingPricesError as missing:
        return Costs(note=str(missing))
    last = now or then
    return Costs(
        then.total_month if then else None,
        now.total_month if now else None,
        now.per_user_month if now else None,
        "" if now else UNREADABLE,
        users,
        hours,
        last.break_even_users if last else None,
        last.target if last else None,
        changed_parts(then, now),
        last.prices_of.isoformat() if last else "",
    )


def changed_parts(before: Estimate | None, after: Estimate | None) -> tuple[tuple[str, Decimal, Decimal], ...]:
    """Return the parts whose cost changes, the largest change first."""
    then, now = _by_part(before), _by_part(after)
    rows = [(part, then.get(part, Decimal(0)), now.get(part, Decimal(0))) for part in {**then, **now}]
    differing = [row for row in rows if cents(row[1]) != cents(row[2])]
    return tuple(sorted(differing, key=lambda row: (-abs(row[2] - row[1]), row[0])))


def _by_part(estimate: Estimate | None) -> Mapping[str, Decimal]:
    parts: dict[str, Decimal] = {}
    for line in estimate.lines if estimate else ():
        parts[line.part] = parts.get(line.part, Decimal(0)) + line.monthly
    return parts
