"""EFS rules about volumes and StorageClasses: each volume is one access point of one tenant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from agentenv.core.classes.storage_classes import DRIVER
from agentenv.policies.rules.efs.access_points import ACCESS_POINT, FILE_SYSTEM, others_bits
from agentenv.policies.rules.registry import GRAPH, Outcome, fail, forbid, objects, rule, unknown
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.references import known_ids
from agentenv.policies.view.resource import KubernetesObject
from agentenv.policies.view.tenants.namespaces import EXTENSIONS, find_namespace, namespace_of
from agentenv.policies.view.tenants.tenants import tenants

EFS_NAME: Final = ".efs."


@rule(
    id="EFS-07",
    title="An EFS volume is one access point, for one claim, over TLS",
    severity="Critical",
    why="A volume without an access point is the whole file system. One without a claimRef binds to any claim. Two"
    " volumes with one handle share a directory between tenants.",
    fix="Set volumeHandle to fs-…::fsap-…, set claimRef to the namespace and name of its claim, and do not set"
    " encryptInTransit.",
    applies_to=GRAPH,
    defaults="The driver encrypts in transit by default (aws-efs-csi-driver 3.4.1, README). A volume without claimRef"
    " binds any matching claim (Kubernetes documents, Persistent Volumes).",
)
def one_access_point(graph: Graph) -> Iterator[Outcome]:
    """Check each volume. Unknown handles are compared by their dependencies."""
    first: dict[object, KubernetesObject] = {}
    for item in graph.objects("", "PersistentVolume"):
        if item.patch:
            continue
        nfs = item.at("spec", "nfs", "server")
        if isinstance(nfs.raw, str) and EFS_NAME in nfs.raw:
            yield fail(nfs, "mounts the file system without an access point")
        elif nfs.unknown and not item.at("spec").unknown:
            yield unknown(nfs)
        driver = item.at("spec", "csi", "driver")
        if driver.raw != DRIVER:
            if driver.unknown:
                yield unknown(driver)
            continue
        volume = _Volume(graph, item)
        yield from volume.outcomes()
        point = volume.access_point
        if point is not None and first.setdefault(point, item) is not item:
            yield fail(volume.handle, "is also the handle of another volume")


@rule(
    id="EFS-08",
    title="A StorageClass creates new, closed directories with the ids of its class",
    severity="High",
    why="Ids from a range differ from the ids of the sandboxes, and are used again. A directory that is reused or open"
    " to others exposes somebody else's files.",
    fix="Set uid and gid to those of the class and directoryPerms to 700 or 750. Do not set ensureUniqueDirectory and"
    " reuseAccessPoint.",
    applies_to=objects("storage.k8s.io", "StorageClass"),
    defaults="ensureUniqueDirectory is true, reuseAccessPoint is false, and ids come from a range by default."
    " directoryPerms is required (aws-efs-csi-driver 3.4.1, README).",
)
def storage_class(item: KubernetesObject) -> Iterator[Outcome]:
    """Check the parameters, which are all strings."""
    provisioner, parameters = item.at("provisioner"), item.at("parameters")
    if provisioner.raw != DRIVER or item.patch:
        if provisioner.unknown:
            yield unknown(provisioner)
        return
    if parameters.at("provisioningMode").missing:
        # A class for static volumes creates no directories
        return
    for key in ("uid", "gid"):
        yield from forbid(
            parameters.at(key),
            lambda value: value is None or str(value) in {"", "0"},
            f"{key} is missing or that of root",
        )
    yield from forbid(parameters.at("ensureUniqueDirectory"), _is("false"), "may reuse an existing directory")
    yield from forbid(parameters.at("reuseAccessPoint"), _is("true"), "reuses access points")
    mode = parameters.at("directoryPerms")
    bits = others_bits(mode.raw) if mode.known else None
    if mode.unknown or (mode.known and bits is None):
        yield unknown(mode)
    elif bits:
        yield fail(mode, "directories are open to users other than their owner and group")
    yield from _encrypted(parameters.at("encryptInTransit"))


@rule(
    id="EFS-13",
    title="Volumes of sandboxes are no copies of other volumes or snapshots",
    severity="Critical",
    why="A claim with a data source gets the files of another claim or snapshot, also of another tenant.",
    fix="Remove dataSource and dataSourceRef. The service creates copies of an owner's own files.",
    applies_to=GRAPH,
    defaults="A new volume is empty (Kubernetes API reference, PersistentVolumeClaimSpec).",
)
def copies(graph: Graph) -> Iterator[Outcome]:
    """Check claims in namespaces of sandboxes, and the templates of claims."""
    for spec in _claim_specs(graph):
        for key in ("dataSource", "dataSourceRef"):
            source = spec.at(key)
            if source.unknown:
                yield unknown(source)
            elif not source.missing:
                yield fail(source, "the volume is a copy of another one")


def _claim_specs(graph: Graph) -> Iterator[Field]:
    for item in graph.objects("", "PersistentVolumeClaim"):
        namespace = find_namespace(graph, namespace_of(graph, item))
        if namespace is not None and namespace.has_tenants:
            yield item.at("spec")
    owners = [*(tenant.owner for tenant in tenants(graph)), *graph.objects(EXTENSIONS, "SandboxClaim")]
    for owner in owners:
        yield from (row.at("spec") for row in owner.at("spec", "volumeClaimTemplates").elements())
    for tenant in tenants(graph):
        for volume in tenant.pod.at("volumes").elements():
            yield volume.at("ephemeral", "volumeClaimTemplate", "spec")


@dataclass(frozen=True)
class _Volume:
    graph: Graph
    item: KubernetesObject

    @property
    def handle(self) -> Field:
        return self.item.at("spec", "csi", "volumeHandle")

    @property
    def access_point(self) -> object:
        """Return an identity of its access point; None if that is not known."""
        targets = self.graph.targets(self.item.resource, "spec", ACCESS_POINT)
        if isinstance(self.handle.raw, str):
            return self.handle.raw.rpartition(":")[2] if "fsap-" in self.handle.raw else self.handle.raw
        return targets[0].urn if len(targets) == 1 else None

    def outcomes(self) -> Iterator[Outcome]:
        options = [option.raw for option in self.item.at("spec", "mountOptions").elements()]
        by_option = any(isinstance(option, str) and option.startswith("accesspoint=fsap-") for option in options)
        targets = self.graph.targets(self.item.resource, "spec", ACCESS_POINT, FILE_SYSTEM)
        if self.handle.unknown and not by_option:
            if not targets:
                yield unknown(self.handle)
            elif not any(target.type == ACCESS_POINT for target in targets):
                yield fail(self.handle, "is a file system and not an access point")
        elif not by_option and not self._names_access_point():
            yield fail(self.handle, "is a file system and not an access point")
        yield from _encrypted(self.item.at("spec", "csi", "volumeAttributes", "encryptInTransit"))
        claim = self.item.at("spec", "claimRef")
        if claim.unknown:
            yield unknown(claim)
        elif claim.missing or not (claim.has("name") and claim.has("namespace")):
            yield fail(claim, "binds to any claim")

    def _names_access_point(self) -> bool:
        last = self.handle.raw.rpartition(":")[2] if isinstance(self.handle.raw, str) else ""
        points = self.graph.targets(self.item.resource, "spec", ACCESS_POINT)
        return last.startswith("fsap-") or any(last in known_ids(point) for point in points)


def _encrypted(field: Field) -> Iterator[Outcome]:
    yield from forbid(field, _is("false"), "is not encrypted in transit")


def _is(text: str) -> Callable[[object], bool]:
    def equals(value: object) -> bool:
        return str(value).lower() == text

    return equals
