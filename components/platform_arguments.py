"""From settings to the arguments of the cluster and of what runs on it."""

from dataclasses import asdict
from typing import Any, cast

from components.access import ClusterAccess
from components.capacity import CapacityDemand, CapacityHeadroom, CapacityLayout
from components.cluster import ClusterLayout
from model.node_settings import demands, node_layout
from model.settings import Settings
from model.settings.cluster import AddonVersions, Cluster

# What settings call an add-on, where EKS calls it otherwise than by its words alone.
ADDONS = {"efs_csi_driver": "aws-efs-csi-driver", "pod_identity_agent": "eks-pod-identity-agent"}


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
        "addon_versions": addon_versions(cluster.addon_versions),
    }


def addon_versions(chosen: AddonVersions) -> dict[str, str]:
    """The builds that were asked for, by the names that EKS has for add-ons."""
    return {
        ADDONS.get(field, field.replace("_", "-")): build
        for field, build in chosen.model_dump().items()
        if build is not None
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
