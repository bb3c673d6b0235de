"""Division of an amount into parts that add up to it exactly, by largest remainder, in whole numbers.

Money is counted in grains while it is divided. Rounding each part by itself would change the sum; here the remainder
after rounding down is distributed, a grain each, to the parts with the largest remainders.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TypeVar

# Finer than any line of a bill.
GRAINS_A_DOLLAR = 10**12
CENT = Decimal("0.01")

Key = TypeVar("Key", bound=Hashable)


def grains(dollars: Decimal) -> int:
    """Return an amount in grains, rounded half to even."""
    return int((dollars * GRAINS_A_DOLLAR).to_integral_value(ROUND_HALF_EVEN))


def dollars(amount: int) -> Decimal:
    """Return grains in dollars, exactly."""
    return Decimal(amount).scaleb(-12)


def cents(amount: Decimal) -> Decimal:
    """Return dollars rounded to the cent, half to even."""
    return amount.quantize(CENT, ROUND_HALF_EVEN)


def apportion(amount: int, weights: Mapping[Key, int]) -> dict[Key, int]:
    """Return an amount divided by weights, which are integers, not negative and not all zero.

    The parts add up to the amount exactly. Equal remainders are ordered by the text of their keys, so the order of keys
    does not matter. A negative amount (a credit) is divided like a positive one.
    """
    total = sum(weights.values())
    if total <= 0 or min(weights.values()) < 0:
        raise ValueError("weights must not be negative, and not all zero")
    sign, size = (-1, -amount) if amount < 0 else (1, amount)
    parts: dict[Key, int] = {}
    remainders: list[tuple[int, str, Key]] = []
    left = size
    for key, weight in weights.items():
        whole, remainder = divmod(size * weight, total)
        parts[key] = whole
        left -= whole
        if remainder:
            remainders.append((-remainder, repr(key), key))
    if left:
        for _, _, key in sorted(remainders, key=lambda remainder_: remainder_[:2])[:left]:
            parts[key] += 1
    return parts if sign > 0 else {key: -part for key, part in parts.items()}
