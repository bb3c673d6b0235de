"""How the benchmarks take time: the best of several runs, the two sides by turns so that noise meets both alike."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def best(repeat: int, *sides: Callable[[], object]) -> list[float]:
    """The shortest time of each side."""
    taken = [[seconds(side) for side in sides] for _ in range(repeat)]
    return [min(column) for column in zip(*taken, strict=True)]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least that share, in per cent, of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * share / 100), 1) - 1]
