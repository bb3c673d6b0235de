"""Select the warm pool for a claim: one of its channel with free sandboxes, or the reason for a cold start.

The count of ready sandboxes is as old as the last watch event. So claims of this replica that are not ready yet are
subtracted. Otherwise most claims of a burst would select the same pool.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agentenv.service.kube.view import ClusterView, PoolRow

if TYPE_CHECKING:
    from collections.abc import Generator

Why = Literal["none-kept", "empty", "raced", "returned", "moved", "task"]
COLD_REASONS: dict[str, str] = {
    "none-kept": "its class has no warm sandboxes",
    "empty": "all warm sandboxes of its class are in use",
    "raced": "another claim got the last warm sandbox",
    "returned": "it was created again on its retained data",
    "moved": "it was created again in another class",
    "task": "sandboxes of a task are created for it",
}


@dataclass(frozen=True)
class Choice:
    """A pool, and the reason if the claim will start cold."""

    pool: str
    cold: Why | None = None


class Pools:
    """Selects pools, and counts the pending claims of this replica."""

    def __init__(self, view: ClusterView, chance: Callable[[], float] = random.random) -> None:
        self._view, self._chance = view, chance
        self._under_way: Counter[tuple[str, str]] = Counter()

    def choose(self, namespace: str, channel: str, named: Sequence[str]) -> Choice:
        """Return a pool of a class and channel; `named` are those in the service's own settings."""
        current = self._view.current(namespace, channel) or tuple(named)
        rows = [row for row in self._view.pools(namespace) if not row.task]
        current_rows = {row.name: row for row in rows if row.name in current}
        # Pools of an older release are used until the current one is full, unless they are annotated as retiring.
        older = [
            row
            for row in rows
            if row.channel == channel and row.name not in current_rows and row.replicas and not row.retiring
        ]
        for candidates in ([*current_rows.values()], older):
            spare = [(row, self._spare(namespace, row)) for row in candidates]
            spare = [(row, count) for row, count in spare if count > 0]
            if spare:
                return Choice(self._weighted_choice(spare).name)
        has_warm_pool = any(row.replicas for row in current_rows.values())
        # A cold sandbox is created by the pool that its claim names: spread these claims over the pools.
        names = [name for name in current if name in current_rows] or list(current)
        return Choice(names[int(self._chance() * len(names))], "empty" if has_warm_pool else "none-kept")

    @contextmanager
    def reserving(self, namespace: str, pool: str) -> Generator[None]:
        """Count a pending claim of a pool within a context."""
        self._under_way[namespace, pool] += 1
        try:
            yield
        finally:
            self._under_way[namespace, pool] -= 1

    def _spare(self, namespace: str, row: PoolRow) -> int:
        return row.ready - self._under_way[namespace, row.name]

    def _weighted_choice(self, spare: Sequence[tuple[PoolRow, int]]) -> PoolRow:
        """Return a random pool, weighted by free sandboxes, so that replicas with the same view choose differently."""
        left = self._chance() * sum(count for _, count in spare)
        for row, count in spare:
            left -= count
            if left < 0:
                return row
        return spare[-1][0]
