"""Static volumes on EFS: a PersistentVolume that is reserved for one PersistentVolumeClaim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentenv.core.classes.storage_classes import DRIVER

Document = dict[str, Any]


@dataclass(frozen=True)
class StaticVolume:
    """The names, labels and nominal size of a volume and of its claim."""

    name: str
    namespace: str
    claim_name: str
    labels: Mapping[str, str]
    size: str

    def volume(self, handle: Any, *, read_only: bool = False) -> Document:
        """Return the volume, which is retained when its claim is deleted; the handle may be an unknown output."""
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": self.name, "labels": dict(self.labels)},
            "spec": {
                "capacity": {"storage": self.size},
                "volumeMode": "Filesystem",
                # The driver has no read-only mode for many nodes; `readOnly` below makes the mount read-only.
                "accessModes": ["ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                # The file system policy refuses mounts without TLS or without an allowed role.
                "mountOptions": ["tls", "iam"],
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": self.namespace,
                    "name": self.claim_name,
                },
                "csi": {"driver": DRIVER, "volumeHandle": handle, **({"readOnly": True} if read_only else {})},
            },
        }

    def claim(self) -> Document:
        """Return the claim of the volume."""
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": self.claim_name, "namespace": self.namespace, "labels": dict(self.labels)},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "volumeName": self.name,
                "resources": {"requests": {"storage": self.size}},
            },
        }
