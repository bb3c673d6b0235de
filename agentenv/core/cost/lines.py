"""The lines of an estimate: a part, its monthly cost, and the basis of the calculation."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from agentenv.core.prices.units import Dollars

# The precision of lines, so that sums are exact.
GRAIN = Decimal("1e-10")
Scale = Literal["fixed", "user"]


@dataclass(frozen=True)
class Part:
    """A part of the cost: of the environment, or of each user."""

    name: str
    cost: Dollars  # a month; of scale `user`, for one user
    basis: str
    scale: Scale = "fixed"
    sandbox_class: str | None = None  # the class that causes it, where one does

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost", Dollars(self.cost.value.quantize(GRAIN)))


@dataclass(frozen=True)
class Line:
    """A line of an estimate, for all users."""

    part: str
    monthly: Decimal
    basis: str
    fixed: bool
    sandbox_class: str | None = None


def line(part: Part, users: int) -> Line:
    """Return a part as a line for a number of users."""
    fixed = part.scale == "fixed"
    cost = part.cost if fixed else part.cost * users
    basis = part.basis if fixed else f"{users} x ${part.cost.value.quantize(Decimal('0.0001'))}: {part.basis}"
    return Line(part.name, cost.value, basis, fixed, part.sandbox_class)


def plain(number: Decimal) -> str:
    """Return a number as text: no trailing zeros, no exponent, at most four decimals."""
    short = number.quantize(Decimal("0.0001")) if number == number.to_integral_value() or abs(number) < 1000 else number
    return f"{short.normalize():f}" if short else "0"
