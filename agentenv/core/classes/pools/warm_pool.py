"""The SandboxWarmPool objects of a class, and the expected miss rate of its pool."""

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


def warm_pool(
    plan: ClassPlan, name: str, members: int, labels: Mapping[str, str], template: str | None = None
) -> Plain:
    """Return one pool; its template has the same name by default."""
    return {
        "apiVersion": EXTENSIONS,
        "kind": "SandboxWarmPool",
        "metadata": {"name": name, "namespace": namespace(plan.name), "labels": dict(labels)},
        "spec": {
            "replicas": members,
            "sandboxTemplateRef": {"name": template or name},
            # Templates never change; if one is changed by hand, its members are recreated before they are claimed.
            "updateStrategy": {"type": "Recreate"},
        },
    }
