"""Rate limits: a number of requests a minute per caller, with a burst of the same size.

Each replica counts by itself, so a caller has at most that many times the number of replicas. Memory is bounded: the
caller who was idle longest is dropped first, and starts with a full bucket.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from agentenv.service.http.problems import Problem

MAX_CALLERS = 20_000


class RateLimiter:
    """A token bucket for each caller."""

    def __init__(
        self, per_minute: int, *, max_callers: int = MAX_CALLERS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_minute, self._max_callers, self._clock = per_minute, max_callers, clock
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> None:
        """Count a request; raise a `Problem` with the time to retry where it exceeds the limit."""
        tokens = self._available(caller)
        self._store(caller, tokens - 1 if tokens >= 1 else tokens)
        self._refuse_if_empty(tokens)

    def check(self, caller: str) -> None:
        """Check the limit without counting."""
        self._refuse_if_empty(self._available(caller))

    def _available(self, caller: str) -> float:
        tokens, updated = self._tokens.get(caller, (float(self._per_minute), self._clock()))
        return min(float(self._per_minute), tokens + (self._clock() - updated) * self._per_minute / 60)

    def _store(self, caller: str, tokens: float) -> None:
        self._tokens[caller] = (tokens, self._clock())
        self._tokens.move_to_end(caller)
        while len(self._tokens) > self._max_callers:
            self._tokens.popitem(last=False)

    def _refuse_if_empty(self, tokens: float) -> None:
        if tokens < 1:
            seconds = max(1, math.ceil((1 - tokens) * 60 / self._per_minute))
            raise Problem(
                "too-many-requests",
                f"more than {self._per_minute} requests in a minute",
                f"retry in {seconds} s; use `wait` instead of polling",
                retry_after=seconds,
            )
