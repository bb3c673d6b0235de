"""The builds of EKS add-ons: pinned ones, and those from the settings."""

from __future__ import annotations

from agentenv.config.sections.cluster import AddonVersions, Cluster
from agentenv.core.pinned_versions import releases

# What settings call an add-on, where EKS calls it otherwise than by its words alone.
ADDONS = {"efs_csi_driver": "aws-efs-csi-driver", "pod_identity_agent": "eks-pod-identity-agent"}


def chosen_builds(chosen: AddonVersions) -> dict[str, str]:
    """Return the configured builds by the EKS names of add-ons."""
    return {
        ADDONS.get(field, field.replace("_", "-")): build
        for field, build in chosen.model_dump().items()
        if build is not None
    }


def addon_builds(cluster: Cluster) -> dict[str, str]:
    """Return the build of every add-on of a cluster."""
    return {**releases().addons[cluster.version], **chosen_builds(cluster.addon_versions)}
