"""How often somebody may ask: so many requests a minute, and as many at once after a rest.

Counted on each replica by itself: that asks nobody, and lets a caller have at most as many times more as there are
replicas. What is kept is bounded; who was longest silent is forgotten first, and starts anew with a full measure.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from agentenv.service.http.problems import Problem

MAX_CALLERS = 20_000


class RateLimiter:
    """A measure for each caller, that fills up again as time passes."""

    def __init__(
        self, per_minute: int, *, most_kept: int = MAX_CALLERS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_minute, self._most_kept, self._clock = per_minute, most_kept, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> None:
        """Count a request; a `Problem` that says when the next may come, where this is one too many."""
        left = self._now(who)
        self._keep(who, left - 1 if left >= 1 else left)
        self._refuse_without(left)

    def demand(self, who: str) -> None:
        """The same without counting."""
        self._refuse_without(self._now(who))

    def _now(self, who: str) -> float:
        left, then = self._left.get(who, (float(self._per_minute), self._clock()))
        return min(float(self._per_minute), left + (self._clock() - then) * self._per_minute / 60)

    def _keep(self, who: str, left: float) -> None:
        self._left[who] = (left, self._clock())
        self._left.move_to_end(who)
        while len(self._left) > self._most_kept:
            self._left.popitem(last=False)

    def _refuse_without(self, left: float) -> None:
        if left < 1:
            seconds = max(1, math.ceil((1 - left) * 60 / self._per_minute))
            raise Problem(
                "too-many-requests",
                f"more than {self._per_minute} requests in a minute",
                f"wait {seconds} s; watch by `wait` instead of asking again and again",
                retry_after=seconds,
            )
