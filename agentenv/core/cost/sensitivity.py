"""The sensitivity of an estimate: the change in cost per user when an assumption is a fifth larger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from agentenv.core.cost.assumptions import Assumption, bounds

STEP = Decimal("1.2")


@dataclass(frozen=True)
class Move:
    """A changed assumption, and the change of the monthly cost per user in dollars."""

    what: str
    change: Decimal


def moves(
    now: Decimal, assumed: Sequence[Assumption], then: Callable[[Mapping[str, str]], Decimal], most: int = 8
) -> list[Move]:
    """Return the largest changes first. No assumption is increased beyond its maximum."""
    changes: list[Move] = []
    for assumption in assumed:
        larger = min(assumption.value * STEP, bounds(assumption.name, assumption.kind)[1])
        cost = then({assumption.name: f"{larger:f}"})
        if cost != now:
            changes.append(Move(f"{assumption.name} {assumption.value:f} -> {larger.normalize():f}", cost - now))
    return sorted(changes, key=lambda move: -abs(move.change))[:most]
