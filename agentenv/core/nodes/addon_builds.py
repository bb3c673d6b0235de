"""Which builds of EKS's add-ons a cluster gets: those that are pinned, with those that its settings ask for instead."""

from __future__ import annotations

from agentenv.config.sections.cluster import AddonVersions, Cluster
from agentenv.core.pinned_versions import releases

# What settings call an add-on, where EKS calls it otherwise than by its words alone.
ADDONS = {"efs_csi_driver": "aws-efs-csi-driver", "pod_identity_agent": "eks-pod-identity-agent"}


def chosen_builds(chosen: AddonVersions) -> dict[str, str]:
    """The builds that were asked for, by the names that EKS has for add-ons."""
    return {
        ADDONS.get(field, field.replace("_", "-")): build
        for field, build in chosen.model_dump().items()
        if build is not None
    }


def addon_builds(cluster: Cluster) -> dict[str, str]:
    """Every add-on of the cluster with its build."""
    return {**releases().addons[cluster.version], **chosen_builds(cluster.addon_versions)}
