"""What a cluster is to be: its version, who uses it and from where, and how long its logs are kept."""

from typing import NotRequired, TypedDict

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components.cluster.access import ClusterAccess

WORLD = ("0.0.0.0/0", "::/0")
PLACES = ("fargate", "system")


class ClusterLayout(TypedDict):
    """What the cluster is to be."""

    version: str
    """The Kubernetes version, such as `1.35`."""

    access: NotRequired[ClusterAccess]
    """Who may use it."""

    public_access_cidrs: NotRequired[list[str]]
    """Who may reach the API from outside the VPC; nobody unless told."""

    service_cidr: NotRequired[str]
    """The range of Kubernetes services: `172.20.0.0/16` unless told. It cannot be changed."""

    log_days: NotRequired[int]
    """How many days its logs are kept: 30 unless told, one of the numbers CloudWatch offers."""

    support_policy: NotRequired[str]
    """`standard` (upgraded when its version leaves support; unless told) or `extended` (costs six times as much)."""

    addon_versions: NotRequired[dict[str, str]]
    """Builds of add-ons by their names, where they are to differ from those that are pinned."""

    sandbox_controller: NotRequired[str]
    """Where the agent-sandbox controller runs: on `fargate` unless told, or on the `system`'s nodes."""


def sandboxes_on_fargate(layout: ArgumentReader) -> bool:
    """Whether the agent-sandbox controller has a profile on Fargate."""
    return layout.choice("sandbox_controller", PLACES, default="fargate") == "fargate"


def public_ranges(layout: ArgumentReader) -> list[str]:
    """Who may reach the API from outside the VPC; the whole internet is nobody in particular."""
    ranges = layout.texts("public_access_cidrs")
    for found in ranges:
        if found in WORLD:
            raise ArgumentError(
                f"{layout.path}.public_access_cidrs", f"'{found}'", "ranges of your own, or none for a private API"
            )
    return ranges
