"""The StorageClasses of a class: how the EFS CSI driver creates an access point for each home.

There is one per shard, because the parameters name the file system. The uid and gid are those of the class's sandboxes,
because gVisor itself checks the owner and mode of files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import SHARD_LABEL, base_path, owner_labels, storage_class

if TYPE_CHECKING:
    from agentenv.core.classes.plan import ClassPlan

Plain = dict[str, Any]

DRIVER = "efs.csi.aws.com"
# The tag that the driver sets on its access points. It deletes no others, and as an add-on it takes no tags of ours.
DRIVER_MARK = "efs.csi.aws.com/cluster"
# EFS limits paths to 100 characters and four folders. Below the class's folder the driver adds the unique name of the
# volume, pvc- and an id of 36 characters; a pattern with the claim's name would be too long for long names.
LONGEST_PATH, LONGEST_VOLUME = 100, len("pvc-") + 36


def storage_classes(plan: ClassPlan, file_systems: Sequence[Any]) -> tuple[Plain, ...]:
    """Return a StorageClass per file system, in the order of shards; none for a class without homes."""
    if not plan.slots:
        return ()
    return tuple(_document(plan, shard, file_systems[shard]) for shard in range(plan.shards))


def _document(plan: ClassPlan, shard: int, file_system: Any) -> Plain:
    ids = str(plan.uid)
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": storage_class(plan.name, shard),
            "labels": {CLASS_LABEL: plan.name, SHARD_LABEL: str(shard), **owner_labels(plan)},
        },
        "provisioner": DRIVER,
        "parameters": {
            "provisioningMode": "efs-ap",
            "fileSystemId": file_system,
            "directoryPerms": "700",
            "uid": ids,
            "gid": ids,
            "basePath": base_path(plan.name),
            # A home never gets the folder of an earlier one.
            "ensureUniqueDirectory": "true",
            "reuseAccessPoint": "false",
        },
        # The file system policy refuses mounts without TLS or without the role of the node's driver.
        "mountOptions": ["tls", "iam"],
        # An unclaimed slot is deleted with its access point; the service retains the volumes of claimed ones.
        "reclaimPolicy": "Delete",
        # Every node reaches the file system, so nothing is gained by waiting until a pod is scheduled.
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": False,
    }
