"""Money and units: exact decimals, and units that cannot be mixed by mistake.

A price is a `Rate` in dollars per unit. It is multiplied only by an `Amount` of the same unit; an hourly price times
months is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal, get_args

Unit = Literal[
    "h",  # an hour of something that is there or not
    "month",
    "GB",  # a gigabyte that is moved or taken in
    "GB-month",  # a gigabyte that lies there for a month
    "vCPU-h",
    "GB-h",
    "LCU-h",  # an hour of a load balancer's unit of work
    "million",  # a million requests
    "TB",
]
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
# What AWS reckons a month with: 365 days of 24 hours, in twelve parts.
HOURS_A_MONTH: Final = Decimal(730)
CENT: Final = Decimal("0.01")


class UnitError(TypeError):
    """Values with different units were combined."""


def exact(number: Decimal | int | str) -> Decimal:
    """Return a number as a Decimal; floats are rejected, because they are inexact."""
    if isinstance(number, bool) or not isinstance(number, Decimal | int | str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be wrong
        raise UnitError(f"{number!r} is a {type(number).__name__}; money is counted in Decimal, int or text")
    return Decimal(number)


@dataclass(frozen=True)
class Amount:
    """A number with its unit."""

    number: Decimal
    unit: Unit

    def __post_init__(self) -> None:
        _known(self.unit)
        object.__setattr__(self, "number", exact(self.number))

    def __add__(self, other: Amount) -> Amount:
        if not isinstance(other, Amount) or other.unit != self.unit:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UnitError(f"{self} and {other} are not of one kind")
        return Amount(self.number + other.number, self.unit)

    def __str__(self) -> str:
        return f"{self.number.normalize():f} {self.unit}"


@dataclass(frozen=True, order=True)
class Dollars:
    """An amount of money, in dollars: for a month, as everything is that is not a rate."""

    value: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", exact(self.value))

    def __add__(self, other: Dollars) -> Dollars:
        return Dollars(self.value + _dollars(other).value)

    def __sub__(self, other: Dollars) -> Dollars:
        return Dollars(self.value - _dollars(other).value)

    def __mul__(self, times: Decimal | int) -> Dollars:
        return Dollars(self.value * exact(times))

    __rmul__ = __mul__

    def __truediv__(self, by: Decimal | int) -> Dollars:
        return Dollars(self.value / exact(by))

    def __str__(self) -> str:
        return f"${self.value:f}"


@dataclass(frozen=True)
class Rate:
    """A price: dollars for one of something."""

    dollars: Decimal
    per: Unit

    def __post_init__(self) -> None:
        _known(self.per)
        object.__setattr__(self, "dollars", exact(self.dollars))

    def __add__(self, other: Rate) -> Rate:
        if not isinstance(other, Rate) or other.per != self.per:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UnitError(f"{self} and {other} are prices of different things")
        return Rate(self.dollars + other.dollars, self.per)

    def __mul__(self, amount: Amount | Decimal | int) -> Dollars | Rate:
        raise UnitError("say `rate.of(amount)` for what an amount costs, `rate.times(number)` for another price")

    def of(self, amount: Amount) -> Dollars:
        """Return the cost of an amount."""
        if not isinstance(amount, Amount) or amount.unit != self.per:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UnitError(f"{self} is no price of {amount}")
        return Dollars(self.dollars * amount.number)

    def times(self, number: Decimal | int) -> Rate:
        """Return the price multiplied by a number."""
        return Rate(self.dollars * exact(number), self.per)

    def all_month(self) -> Dollars:
        """Return the cost of a whole month, for hourly and monthly prices."""
        if self.per == "month":
            return Dollars(self.dollars)
        return self.of(Amount(HOURS_A_MONTH, "h"))

    def __str__(self) -> str:
        return f"${self.dollars.normalize():f}/{self.per}"


def total(parts: Iterable[Dollars]) -> Dollars:
    """Return the sum of amounts of money."""
    return sum(parts, start=Dollars())


def cents(value: Decimal) -> Decimal:
    """Return an amount rounded to the cent, half to even."""
    return value.quantize(CENT)


def apportioned(parts: Iterable[Decimal]) -> list[Decimal]:
    """Return each part in whole cents such that they add up to their rounded sum: largest remainders are rounded up."""
    exactly = list(parts)
    floors = [part.quantize(CENT, rounding="ROUND_FLOOR") for part in exactly]
    missing = int((cents(sum(exactly, start=Decimal(0))) - sum(floors, start=Decimal(0))) / CENT)
    by_rest = sorted(range(len(exactly)), key=lambda at: (floors[at] - exactly[at], at))
    raised = set(by_rest[:missing])
    return [floor + CENT if at in raised else floor for at, floor in enumerate(floors)]


def _known(unit: str) -> None:
    if unit not in UNITS:
        raise UnitError(f"{unit!r} is no unit; there are {', '.join(UNITS)}")


def _dollars(other: Dollars) -> Dollars:
    if not isinstance(other, Dollars):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be wrong
        raise UnitError(f"{other!r} is no amount of money")
    return other
