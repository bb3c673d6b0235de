"""What the environment costs a month before and after, and a user: from both revisions' settings, without an account.

Both are reckoned for the users that the change expects, so that a difference is the design's and not theirs. Nodes that
no plan shows are in it, because the estimate is made from settings and not from resources.
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

NONE = "the stack file is not understood here"


class Estimator(Protocol):
    """Who reckons."""

    def __call__(self, settings: Settings, users: int, active_hours: Decimal, /) -> Estimate:
        """What the environment of these settings costs; `MissingPricesError` where nobody knows."""
        ...


@dataclass(frozen=True)
class Costs:
    """The figures of both revisions, in dollars a month; None where there is no estimate."""

    before: Decimal | None = None
    after: Decimal | None = None
    per_user: Decimal | None = None
    note: str = NONE  # why there is no figure; empty where there is
    users: int = 0
    active_hours: Decimal = Decimal(0)
    break_even_users: int | None = None
    target: Decimal | None = None
    parts: tuple[tuple[str, Decimal, Decimal], ...] = ()  # those that change: part, before, after; largest first
    prices_of: str = ""

    def as_json(self) -> dict[str, Any]:
        """As the command's contract has it, and more."""
        figures = {"before": self.before, "after": self.after, "per_user": self.per_user}
        return {
            **{name: None if one is None else float(cents(one)) for name, one in figures.items()},
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
    """The costs of both revisions, for the users and hours of the later one."""
    told = after or before
    if told is None:
        return Costs()
    reckon = estimator or estimate
    users, hours = told.cost.expected_users, Decimal(told.cost.active_hours)
    try:
        then = reckon(before, users, hours) if before else None
        now = reckon(after, users, hours) if after else None
    except MissingPricesError as missing:
        return Costs(note=str(missing))
    last = now or then
    return Costs(
        then.total_month if then else None,
        now.total_month if now else None,
        now.per_user_month if now else None,
        "" if now else NONE,
        users,
        hours,
        last.break_even_users if last else None,
        last.target if last else None,
        changed(then, now),
        last.prices_of.isoformat() if last else "",
    )


def changed(before: Estimate | None, after: Estimate | None) -> tuple[tuple[str, Decimal, Decimal], ...]:
    """The parts that cost something else than before, the largest change first."""
    then, now = _by_part(before), _by_part(after)
    rows = [(part, then.get(part, Decimal(0)), now.get(part, Decimal(0))) for part in {**then, **now}]
    differing = [row for row in rows if cents(row[1]) != cents(row[2])]
    return tuple(sorted(differing, key=lambda row: (-abs(row[2] - row[1]), row[0])))


def _by_part(found: Estimate | None) -> Mapping[str, Decimal]:
    parts: dict[str, Decimal] = {}
    for line in found.lines if found else ():
        parts[line.part] = parts.get(line.part, Decimal(0)) + line.monthly
    return parts
