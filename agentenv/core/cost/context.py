"""The inputs of an estimate: settings, prices and assumptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentenv.core.prices.units import Amount, Dollars

if TYPE_CHECKING:
    from decimal import Decimal

    from agentenv.config.settings import Settings
    from agentenv.core.cost.assumptions import Assumptions
    from agentenv.core.prices.book import PriceBook
    from agentenv.core.prices.units import Rate, Unit


@dataclass(frozen=True)
class EstimateContext:
    """The inputs of an estimate."""

    settings: Settings
    book: PriceBook
    taken: Assumptions

    def rate(self, name: str) -> Rate:
        """Return a price by its name."""
        return self.book.rate(name)

    def cost(self, name: str, number: Decimal, unit: Unit) -> Dollars:
        """Return the cost of an amount."""
        return self.book.rate(name).of(Amount(number, unit))
