"""What the environment costs a month before and after, and a user.

The figures are an estimate's, and this version has none: every one of them is None, and the report says so. Whoever
brings an estimate of settings passes it to `costs` as its `estimator`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from model.settings import Settings

NONE = "no estimate in this version"


@dataclass(frozen=True)
class Estimate:
    """What an environment costs a month, and each user of it, in dollars."""

    month: Decimal
    per_user: Decimal


Estimator = Callable[[Settings], Estimate]


@dataclass(frozen=True)
class Costs:
    """The figures of both revisions; None where there is no estimate."""

    before: Decimal | None = None
    after: Decimal | None = None
    per_user: Decimal | None = None
    note: str = NONE

    def as_json(self) -> dict[str, float | str | None]:
        """As the command's contract has it."""
        figures = {"before": self.before, "after": self.after, "per_user": self.per_user}
        return {**{name: None if one is None else float(one) for name, one in figures.items()}, "note": self.note}


def costs(before: Settings | None, after: Settings | None, estimator: Estimator | None = None) -> Costs:
    """The costs of both revisions, as an estimator reckons them."""
    if estimator is None:
        return Costs()
    then, now = estimator(before) if before else None, estimator(after) if after else None
    return Costs(then.month if then else None, now.month if now else None, now.per_user if now else None, "")
