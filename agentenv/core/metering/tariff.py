"""Prices for the recording rules that no exporter has: storage, fixed costs, budgets and caps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

# A month as AWS prices count it.
HOURS_A_MONTH = 730


@dataclass(frozen=True)
class Tariff:
    """Prices in dollars. Node prices are not included, because exporters have them."""

    # A GiB and month of files, over the storage classes that they lie in.
    storage: Decimal = Decimal("0.30")
    # What is paid whether anybody is there or not, dollars a month by what it is for; nodes are not among it.
    fixed: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    monthly_budget: Decimal | None = None
    per_user_cap: Decimal | None = None


def number(amount: Decimal) -> str:
    """Return an amount as text without an exponent."""
    return f"{amount:f}"
