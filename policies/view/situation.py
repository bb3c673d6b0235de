"""What the platform says about itself, for rules that cannot tell it from resources: the packs' configuration.

Each field but `settings` is a key of the packs' configuration, in camel case there. Every default is the careful one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model.settings import Settings


@dataclass(frozen=True)
class Situation:
    """One environment as rules need it."""

    environment: str = "prod"
    # The stack's own settings, where it is one of ours: its classes, who is whose parent, its ranges
    settings: Settings | None = None
    # Address ranges that no sandbox may reach
    vpc_ranges: tuple[str, ...] = ()
    service_ranges: tuple[str, ...] = ("172.20.0.0/16", "10.100.0.0/16")
    pod_ranges: tuple[str, ...] = ("100.64.0.0/10",)
    # Who may be asked for names on port 53
    resolvers: tuple[str, ...] = ()
    # Where images may come from, as prefixes of their names; none given: everywhere
    registries: tuple[str, ...] = ()
    # What every taggable resource, and every pod template and namespace, has to carry
    required_tags: tuple[str, ...] = ("environment", "component", "owner", "cost-center")
    required_labels: tuple[str, ...] = ("sandbox.users.io/class",)
    # Figures beyond which a plan is refused
    pool_cap: int = 50
    monthly_cap: float | None = None
