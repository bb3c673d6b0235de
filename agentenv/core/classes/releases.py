"""The releases of a class: their names and templates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import (
    CHANNEL_LABEL,
    RELEASE_LABEL,
    SHARD_LABEL,
    owner_labels,
    release_name,
)
from agentenv.core.classes.template import release_hash, template

if TYPE_CHECKING:
    from agentenv.core.classes.plan import ClassPlan

Plain = dict[str, Any]


@dataclass(frozen=True)
class Release:
    """A version of a class, with a template and a pool per shard."""

    class_name: str
    channel: str
    image: str
    hash: str
    shards: tuple[int, ...]

    def name(self, shard: int = 0) -> str:
        """Return the name of its template and its pool."""
        return release_name(self.class_name, self.hash, shard)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its templates and pools, in the order of shards."""
        return tuple(self.name(shard) for shard in self.shards)


def releases_of(plan: ClassPlan) -> tuple[Release, ...]:
    """Return the releases of a class, the stable one first.

    The channel is not part of the hash, so a release that becomes stable after `next` keeps its full pool.
    """
    # Shards only have homes; without homes one pool is enough.
    shards = tuple(range(plan.shards)) if plan.slots else (0,)
    return tuple(
        Release(plan.name, channel, image, release_hash(plan, image), shards) for channel, image in plan.images
    )


def templates(plan: ClassPlan) -> tuple[Plain, ...]:
    """Return the templates of all releases."""
    return tuple(
        template(plan, release, shard, labels(plan, release, shard))
        for release in releases_of(plan)
        for shard in release.shards
    )


def labels(plan: ClassPlan, release: Release, shard: int) -> dict[str, str]:
    """Return the labels of a release's template and pool."""
    return {
        CLASS_LABEL: plan.name,
        RELEASE_LABEL: release.hash,
        CHANNEL_LABEL: release.channel,
        SHARD_LABEL: str(shard),
        **owner_labels(plan),
    }
