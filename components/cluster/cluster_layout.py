"""The layout of a cluster: its version, access, public ranges and log retention."""

from typing import NotRequired, TypedDict

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components.cluster.access import ClusterAccess

WORLD = ("0.0.0.0/0", "::/0")
PLACES = ("fargate", "system")


class ClusterLayout(TypedDict):
    """The layout of a cluster."""

    version: str
    """The Kubernetes version, such as `1.35`."""

    access: NotRequired[ClusterAccess]
    """The principals with access."""

    public_access_cidrs: NotRequired[list[str]]
    """The CIDR blocks that reach the API from outside the VPC. Default: none."""

    service_cidr: NotRequired[str]
    """The CIDR block of Kubernetes services, which cannot be changed. Default: `172.20.0.0/16`."""

    log_days: NotRequired[int]
    """The retention of its logs in days, one of the values that CloudWatch accepts. Default: 30."""

    support_policy: NotRequired[str]
    """`standard` (default; upgraded when its version leaves support) or `extended` (costs six times as much)."""

    addon_versions: NotRequired[dict[str, str]]
    """Builds by add-on name that replace the pinned ones."""

    sandbox_controller: NotRequired[str]
    """Where the agent-sandbox controller runs: on `fargate` (default) or on `system` nodes."""


def sandboxes_on_fargate(layout: ArgumentReader) -> bool:
    """Return whether the agent-sandbox controller runs on Fargate."""
    return layout.choice("sandbox_controller", PLACES, default="fargate") == "fargate"


def public_ranges(layout: ArgumentReader) -> list[str]:
    """Return the public access ranges, checked; the whole internet is refused."""
    ranges = layout.texts("public_access_cidrs")
    for cidr in ranges:
        if cidr in WORLD:
            raise ArgumentError(
                f"{layout.path}.public_access_cidrs", f"'{cidr}'", "ranges of your own, or none for a private API"
            )
    return ranges
