"""POD: volumes of the cluster, which a pod comes to by a claim of its own namespace: what they may be made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agentenv.policies.rules.efs.volumes import EFS_NAME
from agentenv.policies.rules.registry import Outcome, fail, objects, rule, unknown
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import KubernetesObject
from agentenv.policies.view.tenants.namespaces import space_of

# A folder or a device of some node, or a server that the node mounts with its own rights; what providers of clouds
# look after is in none of them
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
    title="No volume of the cluster is a node's own folder, or an unknown server's",
    severity="Critical",
    why="A claim is allowed to every sandbox, and binds whatever volume fits and is not another claim's: one that is a"
    " folder of a node leads out of the sandbox as a hostPath does, past the rule about those.",
    do="Make volumes by a CSI driver, whose StorageClass says of what; remove hostPath, local and nfs, or say in"
    " claimRef whose claim in a namespace of the platform it is for.",
    equivalents={"Kyverno": ("limit-hostpath-type-pv",)},
    about=objects("", "PersistentVolume"),
    defaults="A volume has just the one source that it names (Kubernetes API reference, PersistentVolumeSpec), and"
    " binds no other claim than the one in its claimRef (Kubernetes documents, Persistent Volumes).",
)
def of_a_node(volume: KubernetesObject, graph: Graph) -> Iterator[Outcome]:
    """By its source; a file system of EFS that is mounted as plain NFS is another rule's."""
    taken = _of_the_platform(graph, volume)
    if taken:
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
            whose = volume.at("spec", "claimRef")
            yield unknown(whose) if taken is None else fail(source, f"the volume is of the kind {kind}")


def _of_the_platform(graph: Graph, volume: KubernetesObject) -> bool | None:
    """Whether no sandbox's claim can ever bind it: it is one claim's already, elsewhere."""
    place, name = (volume.at("spec", "claimRef", key) for key in ("namespace", "name"))
    if volume.at("spec").unknown or place.missing or name.missing:
        return False
    if not (isinstance(place.raw, str) and isinstance(name.raw, str)):
        return None
    space = space_of(graph, place.raw)
    return bool(place.raw and name.raw) and space is not None and not space.tenants
