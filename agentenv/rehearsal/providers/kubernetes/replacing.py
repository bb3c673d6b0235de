"""Which changes cannot be made in place: a table of kinds and paths, as the official provider has them.

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
    """Whether the data of ConfigMaps and Secrets may change in place: a setting of the provider."""

    config_maps: bool = False
    secrets: bool = False


def fixed(obj: Mapping[str, Any], mutability: Mutability, *, patch: bool = False) -> Paths:
    """The paths of an object that cannot change in place. A patch owns no object, only fields: its name counts."""
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
    """Whether a change at the path changes what one of these paths stands for."""
    return any(_meets(path, tuple(pattern.split("."))) for pattern in paths)


def _meets(path: Path, pattern: tuple[str, ...]) -> bool:
    """Whether one lies on the way to the other: `spec` going away takes `spec.selector` with it."""
    return all(step in {"*", str(key)} for key, step in zip(path, pattern, strict=False))
