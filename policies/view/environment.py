"""What the platform says about itself, for rules that cannot tell it from resources: the packs' configuration.

Each field but `settings` is a key of the packs' configuration, in camel case there. Every default is the careful one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentenv.config import Settings


def told(default: Any, words: str) -> Any:
    """A field with its words for the reference."""
    return field(default=default, metadata={"says": words})


@dataclass(frozen=True)
class Situation:
    """One environment as rules need it."""

    environment: str = told("prod", "The environment's name; the stack's where it is not said.")
    # The stack's own settings, where it is one of ours: its classes, who is whose parent, its ranges
    settings: Settings | None = None
    vpc_ranges: tuple[str, ...] = told((), "Ranges of the VPC and its peers, which no sandbox may reach.")
    service_ranges: tuple[str, ...] = told(
        ("172.20.0.0/16", "10.100.0.0/16"), "Ranges of the cluster's Services, which no sandbox may reach."
    )
    pod_ranges: tuple[str, ...] = told(("100.64.0.0/10",), "Ranges of pods, which no sandbox may reach.")
    resolvers: tuple[str, ...] = told((), "Who may be asked for names on port 53.")
    registries: tuple[str, ...] = told((), "Where images may come from, as prefixes of names; everywhere when empty.")
    required_tags: tuple[str, ...] = told(
        ("environment", "component", "owner", "cost-center"), "Tags that every taggable AWS resource carries."
    )
    required_labels: tuple[str, ...] = told(
        ("sandbox.users.io/class",), "Labels that a sandbox's pod template and its namespace carry."
    )
    node_programs: tuple[str, ...] = told(
        (), "Namespaces of programs that are part of their nodes: as root, with a folder of the node's."
    )
    pool_cap: int = told(50, "The most sandboxes that a warm pool may keep.")
    monthly_cap: float | None = told(None, "The most that an environment may cost a month, in dollars.")

    @property
    def short_lived(self) -> bool:
        """Whether the environment is deleted before its data is old."""
        return self.environment in {"dev", "local", "test"}
