"""The facts that every part of an environment's plan has: its name, its cluster's name, and its tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentenv.config.settings import Settings


@dataclass(frozen=True)
class EnvironmentFacts:
    """The name of an environment and of its cluster, the tags of its resources, and how they are protected."""

    name: str
    cluster_name: str
    tags: Mapping[str, str]  # of every AWS resource; each component adds `component`
    keep_data: bool = False  # whether resources with data are protected, and retained when the stack is destroyed
    permissions_boundary: str | None = None  # of every IAM role


def environment_facts(settings: Settings) -> EnvironmentFacts:
    """Return the facts of the environment that the settings describe."""
    return EnvironmentFacts(
        settings.environment,
        settings.cluster_name,
        settings.tags,
        settings.protect,
        settings.cluster.permissions_boundary,
    )
