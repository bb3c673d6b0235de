"""Changes that force a replacement: the official provider's table of kinds and paths.

A path stands for everything at and under it; `*` for one step, whatever its name or index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes import objects
from agentenv.rehearsal.providers.kubernetes.discovery import group_of
from agentenv.rehearsal.providers.kubernetes.values import Path

Paths = tuple[str, ...]

IDENTITY: Final[Paths] = ("metadata.name", "metadata.namespace", "kind")

_SELECTOR: Final[Paths] = ("spec.selector",)
_BINDING: Final[Paths] = ("roleRef",)
_CONTAINER: Final = (
    *("args", "command", "env", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "ports", "readinessProbe"),
    *("resources", "securityContext", "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy"),
    *("tty", "volumeDevices", "volumeMounts", "workingDir"),
)
_POD: Final = (
    *("affinity", "automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks", "hostAliases"),
    *("hostIPC", "hostNetwork", "hostPID", "hostname", "imagePullSecrets", "nodeName", "nodeSelector", "overhead"),
    *("preemptionPolicy", "priority", "priorityClassName", "readinessGates", "restartPolicy", "runtimeClassName"),
    *("schedulerName", "securityContext", "serviceAccount", "serviceAccountName", "shareProcessNamespace"),
    *("subdomain", "terminationGracePeriodSeconds", "volumes"),
)
_VOLUME_SOURCE: Final = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker"),
    *("gcePersistentDisk", "glusterfs", "hostPath", "iscsi", "local", "nfs", "photonPersistentDisk"),
    *("portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
)

# By group and kind: fields do not become mutable from one version of a kind to the next.
TABLE: Final[Mapping[tuple[str, str], Paths]] = {
    ("apps", "DaemonSet"): _SELECTOR,
    ("apps", "Deployment"): _SELECTOR,
    ("apps", "StatefulSet"): (
        *_SELECTOR,
        "spec.podManagementPolicy",
        "spec.revisionHistoryLimit",
        "spec.serviceName",
        "spec.volumeClaimTemplates",
    ),
    ("batch", "Job"): (*_SELECTOR, "spec.completions", "spec.parallelism", "spec.template"),
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("storage.k8s.io", "StorageClass"): ("parameters", "provisioner"),
    ("", "PersistentVolume"): tuple(f"spec.{source}" for source in _VOLUME_SOURCE),
    ("", "PersistentVolumeClaim"): (*_SELECTOR, "spec.accessModes", "spec.storageClassName", "spec.volumeName"),
    ("", "Pod"): (
        *(f"spec.{field}" for field in _POD),
        *(f"spec.containers.*.{field}" for field in _CONTAINER),
        *(f"spec.initContainers.*.{field}" for field in _CONTAINER),
    ),
    ("", "ResourceQuota"): ("spec.scopes",),
    ("", "Service"): ("spec.clusterIP",),
}


@dataclass(frozen=True)
class Mutability:
    """The provider's setting whether data of ConfigMaps and Secrets is updated in place."""

    config_maps: bool = False
    secrets: bool = False


def fixed(obj: Mapping[str, Any], mutability: Mutability, *, patch: bool = False) -> Paths:
    """Return the immutable paths of an object. Of a patch that is only the name, as it owns fields, not the object."""
    if patch:
        return IDENTITY
    group, kind = group_of(objects.api_version(obj)), objects.kind(obj)
    sealed = obj.get("immutable") is True
    if (group, kind) == ("", "Secret"):
        data: Paths = ("type", "stringData", "data") if sealed or not mutability.secrets else ("type",)
        return IDENTITY + data
    if (group, kind) == ("", "ConfigMap"):
        return IDENTITY + (("binaryData", "data") if sealed or not mutability.config_maps else ())
    return IDENTITY + TABLE.get((group, kind), ())


def touches(path: Path, paths: Paths) -> bool:
    """Return whether a change at the path affects one of these paths."""
    return any(_meets(path, tuple(pattern.split("."))) for pattern in paths)


def _meets(path: Path, pattern: tuple[str, ...]) -> bool:
    """Return whether one contains the other: removing `spec` removes `spec.selector`."""
    return all(step in {"*", str(key)} for key, step in zip(path, pattern, strict=False))
