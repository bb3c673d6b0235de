"""How many sandboxes have to be warm.

A claim that misses starts cold on its own, and each hit starts one replacement, so a pool is a loss system: the share
of misses is Erlang's B of its size and of the replacements under way, whatever the shape of the time they take.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentenv.config.sections.classes import Pool, SandboxClass

FEWEST_CLAIMED = 10


def miss_rate(size: int, claims_per_hour: int, replenish_seconds: int) -> Decimal:
    """The share of claims that find a pool of this size empty."""
    load = _load(claims_per_hour, replenish_seconds)
    blocked = Decimal(1)
    for members in range(1, size + 1):
        blocked = load * blocked / (members + load * blocked)
    return blocked


@lru_cache(maxsize=1024)
def size_for(claims_per_hour: int, replenish_seconds: int, misses: Decimal) -> int:
    """The smallest pool whose share of misses is at most `misses`."""
    load = _load(claims_per_hour, replenish_seconds)
    blocked, members = Decimal(1), 0
    while blocked > misses:
        members += 1
        blocked = load * blocked / (members + load * blocked)
    return members


def base_size(pool: Pool) -> int:
    """How many sandboxes of a pool are warm outside its schedules: what it says, what its claims ask, or one."""
    if pool.peak_claims_per_hour is not None:
        return size_for(pool.peak_claims_per_hour, pool.replenish_seconds, pool.miss_rate)
    return 1 if pool.size is None else pool.size


def warm_members(pool: Pool) -> int:
    """How many sandboxes of a pool are warm at its largest."""
    return max([base_size(pool), *(schedule.size for schedule in pool.schedules)])


def max_sandboxes(sandbox_class: SandboxClass) -> int:
    """How many sandboxes a class may have at once: what it says, or what all its releases keep warm and as many
    claimed, ten at least. With no room beyond the pool, the first claim would leave it one short for good."""
    warm = warm_members(sandbox_class.pool) * (1 + len(sandbox_class.releases))
    return sandbox_class.max_sandboxes or warm + max(warm, FEWEST_CLAIMED)


def max_sandboxes_with_rollover(sandbox_class: SandboxClass) -> int:
    """The same, with the pools that are replaced: a new release fills its own before the old one's goes."""
    return max_sandboxes(sandbox_class) + warm_members(sandbox_class.pool) * (1 + len(sandbox_class.releases))


def max_volumes(sandbox_class: SandboxClass) -> int:
    """How many volumes of its own a class may have at once; each is an access point."""
    each = {"slot": 1, "shared": 2}  # a task has one more, and there is no task without a sandbox
    return max_sandboxes_with_rollover(sandbox_class) * each.get(sandbox_class.storage.kind, 0)


def _load(claims_per_hour: int, replenish_seconds: int) -> Decimal:
    return Decimal(claims_per_hour) * replenish_seconds / 3600
