"""Facts about the environment that rules cannot read from resources, such as address ranges and registries.

Each field but `settings` is a key of the packs' configuration, in camel case there. The defaults are strict.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentenv.config import Settings


def _documented(default: Any, description: str) -> Any:
    """Return a dataclass field with its description for the reference."""
    return field(default=default, metadata={"description": description})


@dataclass(frozen=True)
class PolicyContext:
    """The facts about one environment that rules need."""

    environment: str = _documented("prod", "The name of the environment; the stack's name by default.")
    # The stack's own settings, if it is a stack of this project: its classes, their parents, its ranges
    settings: Settings | None = None
    vpc_ranges: tuple[str, ...] = _documented((), "Ranges of the VPC and its peers, which no sandbox may reach.")
    service_ranges: tuple[str, ...] = _documented(
        ("172.20.0.0/16", "10.100.0.0/16"), "Ranges of the cluster's Services, which no sandbox may reach."
    )
    pod_ranges: tuple[str, ...] = _documented(("100.64.0.0/10",), "Ranges of pods, which no sandbox may reach.")
    resolvers: tuple[str, ...] = _documented((), "DNS resolvers that sandboxes may query on port 53.")
    registries: tuple[str, ...] = _documented(
        (), "Allowed image registries, as prefixes of image names; empty allows all."
    )
    required_tags: tuple[str, ...] = _documented(
        ("environment", "component", "owner", "cost-center"), "Tags that every taggable AWS resource must have."
    )
    required_labels: tuple[str, ...] = _documented(
        ("sandbox.users.io/class",), "Labels that a sandbox's pod template and its namespace must have."
    )
    node_programs: tuple[str, ...] = _documented(
        (), "Namespaces of node agents: DaemonSets that run as root and mount directories of the node."
    )
    pool_cap: int = _documented(50, "The maximum size of a warm pool.")
    monthly_cap: float | None = _documented(None, "The maximum monthly cost of the environment, in dollars.")

    @property
    def short_lived(self) -> bool:
        """Return whether the environment is deleted before its data gets old."""
        return self.environment in {"dev", "local", "test"}
