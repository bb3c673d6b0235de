"""Which slots make way for sandboxes that somebody waits for, and that no node has room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolSize:
    """The size of a warm pool: what it should have, and what is ready."""

    name: str
    replicas: int
    ready: int


def slots_to_yield(overdue: int, pools: Sequence[PoolSize]) -> dict[str, int]:
    """Return how many slots each pool gives up while somebody waits for a node.

    No slot that is not ready stays: it competes for the same room, and its pool's controller deletes it first. For each
    sandbox that waits although these are gone, a ready slot makes way, of the pool that has most.
    """
    counts = {pool.name: max(pool.replicas - pool.ready, 0) for pool in pools}
    for _ in range(overdue):
        fullest = max(pools, key=lambda pool: (pool.replicas - counts[pool.name], pool.name), default=None)
        if fullest is None or fullest.replicas == counts[fullest.name]:
            break
        counts[fullest.name] += 1
    return {name: count for name, count in counts.items() if count}
