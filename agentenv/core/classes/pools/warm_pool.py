"""The pools of warm sandboxes: how large each is, and what may be expected of it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from agentenv.core.classes.names import EXTENSIONS, namespace
from agentenv.core.classes.pools.sizes import base_size, miss_rate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentenv.config.sections.classes import Pool
    from agentenv.core.classes.plan import ClassPlan

Plain = dict[str, Any]


@dataclass(frozen=True)
class PoolChoice:
    """The size that was chosen for a class's pool, over all its shards.

    The share of misses is None where nobody said how claims arrive. It holds for whoever claims from a shard that has
    a member; tied to one shard, a claim would miss more often.
    """

    size: int
    expected_miss_rate: Decimal | None


def pool_choice(pool: Pool) -> PoolChoice:
    """What was chosen for a pool, and why it may be trusted."""
    size = base_size(pool)
    if pool.peak_claims_per_hour is None:
        return PoolChoice(size, None)
    return PoolChoice(size, miss_rate(size, pool.peak_claims_per_hour, pool.replenish_seconds))


def shard_sizes(pool: Pool, shards: int) -> tuple[int, ...]:
    """The size of each shard's pool outside its schedules."""
    return divide_members(base_size(pool), shards)


def divide_members(members: int, shards: int) -> tuple[int, ...]:
    """So many members over so many shards, the first ones with one more where they do not come out even."""
    each, more = divmod(members, shards)
    return tuple(each + (shard < more) for shard in range(shards))


def warm_pool(
    plan: ClassPlan, name: str, members: int, labels: Mapping[str, str], template: str | None = None
) -> Plain:
    """The document of one pool, of the template that is named like it unless another is said."""
    return {
        "apiVersion": EXTENSIONS,
        "kind": "SandboxWarmPool",
        "metadata": {"name": name, "namespace": namespace(plan.name), "labels": dict(labels)},
        "spec": {
            "replicas": members,
            "sandboxTemplateRef": {"name": template or name},
            # A template of ours never changes; of one that was changed by hand no member is handed out.
            "updateStrategy": {"type": "Recreate"},
        },
    }
