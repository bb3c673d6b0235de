"""The StorageClasses of a class: how the EFS driver makes an access point for each of its homes.

A class a shard, since the parameters name the file system. The ids are the class's own: gVisor holds a file's owner and
mode against the process itself, so they have to be those that its sandboxes run as.
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
# The driver marks what it makes, may delete nothing else, and lets nobody add tags of their own as an add-on.
DRIVER_MARK = "efs.csi.aws.com/cluster"
# EFS takes paths of a hundred characters and four folders. Below the class's folder the driver adds the volume's name,
# pvc- and an id of 36, which no other volume has; a pattern with the claim's name would not fit for long names.
LONGEST_PATH, LONGEST_VOLUME = 100, len("pvc-") + 36


def storage_classes(plan: ClassPlan, file_systems: Sequence[Any]) -> tuple[Plain, ...]:
    """A StorageClass for each file system, by shard; none for a class without homes of its own."""
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
            # Nobody is ever given a folder that somebody had.
            "ensureUniqueDirectory": "true",
            "reuseAccessPoint": "false",
        },
        # The file system's policy takes no mount without TLS and without the role of the node's driver.
        "mountOptions": ["tls", "iam"],
        # A slot that nobody claimed takes its access point with it; being kept is a part of being claimed.
        "reclaimPolicy": "Delete",
        # Not only once a pod is placed: any node reaches the file system, and a warm pod would wait for nothing.
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": False,
    }
