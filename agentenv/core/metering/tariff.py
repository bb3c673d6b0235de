"""What the rules are told of money: prices that nothing in the cluster exports, and what is fixed by the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

# A month as AWS prices count it.
HOURS_A_MONTH = 730


@dataclass(frozen=True)
class Tariff:
    """Dollars. Of nodes nothing stands here: what they cost is known where they run."""

    # A GiB and month of files, over the storage classes that they lie in.
    storage: Decimal = Decimal("0.30")
    # What is paid whether anybody is there or not, dollars a month by what it is for; nodes are not among it.
    fixed: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    monthly_budget: Decimal | None = None
    per_user_cap: Decimal | None = None


def number(amount: Decimal) -> str:
    """An amount as an expression has it: in full, never as 1E-7."""
    return f"{amount:f}"
