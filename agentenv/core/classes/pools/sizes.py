"""The sizes of warm pools.

A claim that misses starts cold, and each hit starts one replacement, so a pool is a loss system: the miss rate is the
Erlang B formula of its size and of the load of replacements, whatever the distribution of their durations.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentenv.config.sections.classes import Pool, SandboxClass

FEWEST_CLAIMED = 10


def miss_rate(size: int, claims_per_hour: int, replenish_seconds: int) -> Decimal:
    """Return the expected share of claims that find a pool of this size empty."""
    load = _load(claims_per_hour, replenish_seconds)
    blocked = Decimal(1)
    for members in range(1, size + 1):
        blocked = load * blocked / (members + load * blocked)
    return blocked


@lru_cache(maxsize=1024)
def size_for(claims_per_hour: int, replenish_seconds: int, misses: Decimal) -> int:
    """Return the smallest pool size whose miss rate is at most `misses`."""
    load = _load(claims_per_hour, replenish_seconds)
    blocked, members = Decimal(1), 0
    while blocked > misses:
        members += 1
        blocked = load * blocked / (members + load * blocked)
    return members


def base_size(pool: Pool) -> int:
    """Return the size of a pool outside its schedules: its `size`, the size for its peak of claims, or one."""
    if pool.peak_claims_per_hour is not None:
        return size_for(pool.peak_claims_per_hour, pool.replenish_seconds, pool.miss_rate)
    return 1 if pool.size is None else pool.size


def warm_members(pool: Pool) -> int:
    """Return the largest size of a pool, schedules included."""
    return max([base_size(pool), *(schedule.size for schedule in pool.schedules)])


@dataclass(frozen=True)
class PoolChoice:
    """The chosen size of a class's pool, over all its shards.

    The miss rate is None if the settings do not say how claims arrive. It assumes that a claim may use any shard that
    has a member; claims that are bound to one shard miss more often.
    """

    size: int
    expected_miss_rate: Decimal | None


def pool_choice(pool: Pool) -> PoolChoice:
    """Return the chosen size of a pool and its expected miss rate."""
    size = base_size(pool)
    if pool.peak_claims_per_hour is None:
        return PoolChoice(size, None)
    return PoolChoice(size, miss_rate(size, pool.peak_claims_per_hour, pool.replenish_seconds))


def shard_sizes(pool: Pool, shards: int) -> tuple[int, ...]:
    """Return the size of each shard's pool outside its schedules."""
    return divide_members(base_size(pool), shards)


def divide_members(members: int, shards: int) -> tuple[int, ...]:
    """Return the members of each shard; the first ones have one more if the number does not divide evenly."""
    each, remainder = divmod(members, shards)
    return tuple(each + (shard < remainder) for shard in range(shards))


def max_sandboxes(sandbox_class: SandboxClass) -> int:
    """Return the maximum number of sandboxes of a class, without pools that are being replaced.

    The default is the warm sandboxes of all releases and as many claimed ones, at least ten. Without capacity beyond
    the pool, the first claim would leave it one short permanently.
    """
    warm = warm_members(sandbox_class.pool) * (1 + len(sandbox_class.releases))
    return sandbox_class.max_sandboxes or warm + max(warm, FEWEST_CLAIMED)


def max_sandboxes_with_rollover(sandbox_class: SandboxClass) -> int:
    """Return the maximum with the pools that are being replaced: a new pool fills before the old one is emptied."""
    return max_sandboxes(sandbox_class) + warm_members(sandbox_class.pool) * (1 + len(sandbox_class.releases))


def max_volumes(sandbox_class: SandboxClass) -> int:
    """Return the maximum number of volumes of a class; each is an access point."""
    each = {"slot": 1, "shared": 2}  # a task has a shared one, and at least one sandbox
    return max_sandboxes_with_rollover(sandbox_class) * each.get(sandbox_class.storage.kind, 0)


def _load(claims_per_hour: int, replenish_seconds: int) -> Decimal:
    return Decimal(claims_per_hour) * replenish_seconds / 3600
