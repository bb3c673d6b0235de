"""The result of an attribution: costs by owner, day, class and part."""

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
    """A bill and its entries, which add up to it."""

    entries: Mapping[Entry, int]  # in grains
    bill: Decimal
    charges: int  # how many lines the bill has

    def __post_init__(self) -> None:
        """Raise `ArithmeticError` unless the entries add up to the bill, within the rounding of its lines."""
        if abs(sum(self.entries.values()) - grains(self.bill)) > self.charges:
            raise ArithmeticError(f"{dollars(sum(self.entries.values()))} was attributed of a bill of {self.bill}")

    def total(self, by: Callable[[Entry], Key]) -> dict[Key, Decimal]:
        """Return exact sums in dollars by a key."""
        sums: defaultdict[Key, int] = defaultdict(int)
        for entry, amount in self.entries.items():
            sums[by(entry)] += amount
        return {key: dollars(amount) for key, amount in sums.items()}

    def lines(self) -> dict[tuple[str, Part], Decimal]:
        """Return the cost of each owner and part in whole cents. They add up to the owner's sum and to the bill.

        The sums of owners are rounded first, and then their lines.
        """
        exact = self.total(lambda entry: (entry.owner, entry.part))
        of: defaultdict[str, dict[tuple[str, Part], Decimal]] = defaultdict(dict)
        for (owner, part), amount in exact.items():
            of[owner][owner, part] = amount
        sums = in_cents({owner: sum(lines.values(), Decimal(0)) for owner, lines in of.items()}, cents(self.bill))
        return {key: amount for owner, lines in of.items() for key, amount in in_cents(lines, sums[owner]).items()}

    def owners(self) -> list[str]:
        """Return the owners by descending cost, without the entry of nobody."""
        totals = self.total(lambda entry: entry.owner)
        return sorted((owner for owner in totals if owner != NOBODY), key=lambda owner: (-totals[owner], owner))

    def days(self) -> list[str]:
        """Return the days with costs."""
        return sorted({entry.day for entry in self.entries})

    def parts(self) -> dict[Part, Decimal]:
        """Return the cost of each part in whole cents, which add up to the bill.

        Parts are rounded by themselves: a sum of owners' lines would add up their rounding errors.
        """
        cents_by_part: dict[Part, Decimal] = in_cents(self.total(lambda entry: entry.part), cents(self.bill))
        return {part: cents_by_part.get(part, Decimal(0)) for part in PARTS}

    def metered_share(self) -> Decimal:
        """Return the metered share of the bill, between 0 and 1; the rest is shared by a rule."""
        parts = self.total(lambda entry: entry.part if entry.owner != NOBODY else "")
        metered = sum((parts.get(part, Decimal(0)) for part in METERED), Decimal(0))
        return metered / self.bill if self.bill else Decimal(0)


def in_cents(exact: Mapping[Key, Decimal], total: Decimal) -> dict[Key, Decimal]:
    """Return amounts in whole cents that add up to a total, each at most a cent off, by largest remainder."""
    floors = {key: int((amount / CENT).to_integral_value(ROUND_FLOOR)) for key, amount in exact.items()}
    left = int(total / CENT) - sum(floors.values())
    order = sorted(exact, key=lambda key: (floors[key] - exact[key] / CENT, repr(key)))
    if not 0 <= left <= len(order):
        raise ArithmeticError(f"{sum(exact.values())} cannot be rounded to {total}")
    up = set(order[:left])
    return {key: (floors[key] + (key in up)) * CENT for key in exact}
