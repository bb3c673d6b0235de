"""What moves an estimate: each assumption made a fifth larger, by how much a user then costs more or less."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from agentenv.core.cost.assumptions import Assumption, bounds

STEP = Decimal("1.2")


@dataclass(frozen=True)
class Move:
    """One thing that is changed, and dollars a user and month that follow from it."""

    what: str
    change: Decimal


def moves(
    now: Decimal, assumed: Sequence[Assumption], then: Callable[[Mapping[str, str]], Decimal], most: int = 8
) -> list[Move]:
    """Those that move most, the largest first; none goes beyond what may be assumed, as a share beyond the whole."""
    found: list[Move] = []
    for one in assumed:
        larger = min(one.value * STEP, bounds(one.name, one.kind)[1])
        cost = then({one.name: f"{larger:f}"})
        if cost != now:
            found.append(Move(f"{one.name} {one.value:f} -> {larger.normalize():f}", cost - now))
    return sorted(found, key=lambda move: -abs(move.change))[:most]
