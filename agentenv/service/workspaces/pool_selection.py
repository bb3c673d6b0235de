"""Which pool a claim names: one of its channel with members to spare, and why there is none where there is none.

What a pool has is as old as the last watch event, so claims that are under way here are counted against it: of fifty at
once no two dozen go to the pool that was fullest when the first of them looked.
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
    "none-kept": "its class keeps no sandbox warm",
    "empty": "all warm sandboxes of its class were taken",
    "raced": "somebody else was quicker with the last warm sandbox",
    "returned": "it was made anew on the data that was kept",
    "moved": "it was made anew in another class",
    "task": "sandboxes of a task are made for it",
}


@dataclass(frozen=True)
class Choice:
    """A pool, and why its claim will start cold, if it will."""

    pool: str
    cold: Why | None = None


class Pools:
    """The choice of pools, with what is under way here."""

    def __init__(self, view: ClusterView, chance: Callable[[], float] = random.random) -> None:
        self._view, self._chance = view, chance
        self._under_way: Counter[tuple[str, str]] = Counter()

    def choose(self, namespace: str, channel: str, named: Sequence[str]) -> Choice:
        """A pool of a class and channel; `named` are those that the service's own settings name."""
        current = self._view.current(namespace, channel) or tuple(named)
        rows = [row for row in self._view.pools(namespace) if not row.task]
        current_rows = {row.name: row for row in rows if row.name in current}
        # A release that is going out is good until the one in its place is full; from its mark on it is nobody's.
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
        # A cold one is made by the pool it names, wherever its members are: spread them.
        names = [name for name in current if name in current_rows] or list(current)
        return Choice(names[int(self._chance() * len(names))], "empty" if has_warm_pool else "none-kept")

    @contextmanager
    def reserving(self, namespace: str, pool: str) -> Generator[None]:
        """While this goes on, a claim of that pool is under way."""
        self._under_way[namespace, pool] += 1
        try:
            yield
        finally:
            self._under_way[namespace, pool] -= 1

    def _spare(self, namespace: str, row: PoolRow) -> int:
        return row.ready - self._under_way[namespace, row.name]

    def _weighted_choice(self, spare: Sequence[tuple[PoolRow, int]]) -> PoolRow:
        """One at random by what each can spare: replicas that see the same do not choose the same."""
        left = self._chance() * sum(count for _, count in spare)
        for row, count in spare:
            left -= count
            if left < 0:
                return row
        return spare[-1][0]
