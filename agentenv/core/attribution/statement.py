"""What an attribution says: what is owed, summed up as one likes, and to the cent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import TypeVar

from agentenv.core.attribution.apportion import CENT, cents, dollars, grains
from agentenv.core.attribution.types import METERED, NOBODY, PARTS, Entry, Part

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Statement:
    """A bill and its entries, which are it."""

    entries: Mapping[Entry, int]  # in grains
    bill: Decimal
    charges: int  # how many lines the bill has

    def __post_init__(self) -> None:
        """A statement that is not the bill is none; what a bill has finer than a grain is rounded, line by line."""
        if abs(sum(self.entries.values()) - grains(self.bill)) > self.charges:
            raise ArithmeticError(f"{dollars(sum(self.entries.values()))} was attributed of a bill of {self.bill}")

    def total(self, by: Callable[[Entry], Key]) -> dict[Key, Decimal]:
        """Sums in dollars, exactly, by what is asked for."""
        sums: defaultdict[Key, int] = defaultdict(int)
        for entry, amount in self.entries.items():
            sums[by(entry)] += amount
        return {key: dollars(amount) for key, amount in sums.items()}

    def lines(self) -> dict[tuple[str, Part], Decimal]:
        """What each owes for each part, in whole cents: an owner's add up to what they owe, all add up to the bill.

        First each owner's sum is put in cents, then the lines of it: so that nobody's sum is a cent or more off.
        """
        exact = self.total(lambda entry: (entry.owner, entry.part))
        of: defaultdict[str, dict[tuple[str, Part], Decimal]] = defaultdict(dict)
        for (owner, part), amount in exact.items():
            of[owner][owner, part] = amount
        sums = in_cents({owner: sum(lines.values(), Decimal(0)) for owner, lines in of.items()}, cents(self.bill))
        return {key: amount for owner, lines in of.items() for key, amount in in_cents(lines, sums[owner]).items()}

    def owners(self) -> list[str]:
        """Who owes anything, most first; nobody is nobody."""
        totals = self.total(lambda entry: entry.owner)
        return sorted((one for one in totals if one != NOBODY), key=lambda one: (-totals[one], one))

    def days(self) -> list[str]:
        """The days that anything is owed for."""
        return sorted({entry.day for entry in self.entries})

    def parts(self) -> dict[Part, Decimal]:
        """What each part comes to, in whole cents that add up to the bill's.

        Put in cents by itself: a sum of owners' lines would carry the cents that each of hundreds was rounded by.
        """
        found: dict[Part, Decimal] = in_cents(self.total(lambda entry: entry.part), cents(self.bill))
        return {part: found.get(part, Decimal(0)) for part in PARTS}

    def metered_share(self) -> Decimal:
        """How much of the bill is somebody's by a meter, between 0 and 1; the rest is shared by a rule."""
        parts = self.total(lambda entry: entry.part if entry.owner != NOBODY else "")
        metered = sum((parts.get(part, Decimal(0)) for part in METERED), Decimal(0))
        return metered / self.bill if self.bill else Decimal(0)


def in_cents(exact: Mapping[Key, Decimal], total: Decimal) -> dict[Key, Decimal]:
    """Amounts in whole cents that add up to a total, each at most a cent from what it is.

    Each is rounded down first; what is left goes, a cent each, to those who lost most by that.
    """
    floors = {key: int((amount / CENT).to_integral_value(ROUND_FLOOR)) for key, amount in exact.items()}
    left = int(total / CENT) - sum(floors.values())
    order = sorted(exact, key=lambda key: (floors[key] - exact[key] / CENT, repr(key)))
    if not 0 <= left <= len(order):
        raise ArithmeticError(f"{sum(exact.values())} cannot be rounded to {total}")
    up = set(order[:left])
    return {key: (floors[key] + (key in up)) * CENT for key in exact}
