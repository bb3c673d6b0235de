"""From settings to the arguments of the cluster and of what runs on it."""

from dataclasses import asdict
from typing import Any, cast

from components.access import ClusterAccess
from components.capacity import CapacityDemand, CapacityHeadroom, CapacityLayout
from components.cluster import ClusterLayout
from model.builds import chosen_builds
from model.node_settings import demands, node_layout
from model.settings import Settings
from model.settings.cluster import Cluster


def cluster_layout(cluster: Cluster) -> ClusterLayout:
    """What the cluster is to be."""
    access: ClusterAccess = {
        "admins": list(cluster.admins),
        "operators": list(cluster.operators),
        "readers": list(cluster.readers),
        "deployers": list(cluster.deployers),
    }
    return {
        "version": cluster.version,
        "access": access,
        "public_access_cidrs": [str(cidr) for cidr in cluster.public_access_cidrs],
        "service_cidr": str(cluster.service_cidr),
        "log_days": cluster.log_days,
        "support_policy": cluster.support_policy,
        "addon_versions": chosen_builds(cluster.addon_versions),
    }


def capacity_layout(settings: Settings) -> CapacityLayout:
    """How nodes are to be."""
    plain: dict[str, Any] = {
        key: list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
        for key, value in asdict(node_layout(settings.capacity)).items()
    }
    return cast("CapacityLayout", plain)


def capacity_demands(settings: Settings) -> list[CapacityDemand]:
    """What the classes of sandboxes ask of nodes."""
    return [
        {"tier": one.tier, "kernel": one.kernel, "capacity": one.capacity, "gpu": one.gpu} for one in demands(settings)
    ]


def capacity_headroom(settings: Settings) -> CapacityHeadroom:
    """Room kept free."""
    room = settings.capacity.headroom
    return {"pods": room.pods, "cpu": str(room.cpu), "memory": str(room.memory)}
