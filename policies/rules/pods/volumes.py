"""POD rules about PersistentVolumes, which a pod can mount with a claim of its namespace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agentenv.policies.rules.efs.volumes import EFS_NAME
from agentenv.policies.rules.registry import Outcome, fail, objects, rule, unknown
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import KubernetesObject
from agentenv.policies.view.tenants.namespaces import find_namespace

# A directory or a device of a node, or a server that the node mounts with its own privileges; no managed cloud volume
SOURCES: Final = (
    "hostPath",
    "local",
    "flexVolume",
    "nfs",
    "iscsi",
    "fc",
    "cephfs",
    "rbd",
    "glusterfs",
    "quobyte",
    "flocker",
    "scaleIO",
    "storageos",
)


@rule(
    id="POD-20",
    title="No PersistentVolume is a directory of a node or on an unknown server",
    severity="Critical",
    why="Every sandbox may create a claim, which binds any matching free volume. A volume that is a directory of a node"
    " breaks isolation like a hostPath, without a hostPath in the pod.",
    fix="Create volumes with a CSI driver and a StorageClass. Remove hostPath, local and nfs, or set claimRef to a"
    " claim in a namespace of the platform.",
    equivalents={"Kyverno": ("limit-hostpath-type-pv",)},
    applies_to=objects("", "PersistentVolume"),
    defaults="A volume has exactly one source (Kubernetes API reference, PersistentVolumeSpec), and binds only the"
    " claim in its claimRef (Kubernetes documents, Persistent Volumes).",
)
def node_volumes(volume: KubernetesObject, graph: Graph) -> Iterator[Outcome]:
    """Check the source of the volume. EFS-07 is about EFS file systems that are mounted with plain NFS."""
    reserved = _reserved_for_platform(graph, volume)
    if reserved:
        return
    if volume.at("spec").unknown:
        yield unknown(volume.at("spec"))
        return
    for kind in SOURCES:
        source = volume.at("spec", kind)
        server = source.at("server").raw
        if source.unknown:
            yield unknown(source)
        elif not source.missing and not (kind == "nfs" and isinstance(server, str) and EFS_NAME in server):
            claim = volume.at("spec", "claimRef")
            yield unknown(claim) if reserved is None else fail(source, f"the volume is of the kind {kind}")


def _reserved_for_platform(graph: Graph, volume: KubernetesObject) -> bool | None:
    """Return whether the volume is reserved for a claim outside of sandboxes, so that no sandbox can bind it."""
    namespace, name = (volume.at("spec", "claimRef", key) for key in ("namespace", "name"))
    if volume.at("spec").unknown or namespace.missing or name.missing:
        return False
    if not (isinstance(namespace.raw, str) and isinstance(name.raw, str)):
        return None
    found = find_namespace(graph, namespace.raw)
    return bool(namespace.raw and name.raw) and found is not None and not found.has_tenants
