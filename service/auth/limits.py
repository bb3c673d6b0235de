"""How often somebody may ask: so many requests a minute, and as many at once after a rest.

Counted on each replica by itself: that asks nobody, and lets a caller have at most as many times more as there are
replicas. What is kept is bounded; who was longest silent is forgotten first, and starts anew with a full measure.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from service.problems import Problem

MOST_KEPT = 20_000


class Limits:
    """A measure for each caller, that fills up again as time passes."""

    def __init__(
        self, per_minute: int, *, most_kept: int = MOST_KEPT, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_minute, self._most_kept, self._clock = per_minute, most_kept, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str, count: float = 1.0) -> None:
        """Count a request; a `Problem` that says when the next may come, where this is one too many."""
        now = self._clock()
        left, then = self._left.get(who, (float(self._per_minute), now))
        left = min(float(self._per_minute), left + (now - then) * self._per_minute / 60)
        enough = left >= count
        self._left[who] = (left - count if enough else left, now)
        self._left.move_to_end(who)
        while len(self._left) > self._most_kept:
            self._left.popitem(last=False)
        if not enough:
            seconds = max(1, math.ceil((count - left) * 60 / self._per_minute))
            raise Problem(
                "too-many-requests",
                f"more than {self._per_minute} requests in a minute",
                f"wait {seconds} s; watch by `wait` instead of asking again and again",
                retry_after=seconds,
            )
