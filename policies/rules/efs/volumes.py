"""EFS, volumes: how the cluster comes to an access point, and that nobody else comes to the same one."""

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

EFS_NAME: Final = ".efs."


@rule(
    id="EFS-07",
    title="A volume is one access point, of one claim, by TLS",
    severity="Critical",
    why="A volume without an access point is the whole file system, one without a claim is taken by whoever claims"
    " first, and one handle in two volumes is one folder of two tenants.",
    do="Write volumeHandle as fs-…::fsap-…, set claimRef to the namespace and name of its claim, and leave"
    " encryptInTransit alone.",
    about=GRAPH,
    defaults="The driver encrypts in transit where nothing is said (aws-efs-csi-driver 3.4.1, README); a volume without"
    " claimRef binds any claim that fits (Kubernetes documents, Persistent Volumes).",
)
def one_access_point(graph: Graph) -> Iterator[Outcome]:
    """While ids are not known, a handle is as good as what it hangs on."""
    first: dict[object, KubernetesObject] = {}
    for thing in graph.objects("", "PersistentVolume"):
        if thing.patch:
            continue
        nfs = thing.at("spec", "nfs", "server")
        if isinstance(nfs.raw, str) and EFS_NAME in nfs.raw:
            yield fail(nfs, "mounts the file system past its access points")
        elif nfs.unknown and not thing.at("spec").unknown:
            yield unknown(nfs)
        driver = thing.at("spec", "csi", "driver")
        if driver.raw != DRIVER:
            if driver.unknown:
                yield unknown(driver)
            continue
        volume = _Volume(graph, thing)
        yield from volume.faults()
        point = volume.point
        if point is not None and first.setdefault(point, thing) is not thing:
            yield fail(volume.handle, "is the handle of another volume too")


@rule(
    id="EFS-08",
    title="A StorageClass makes folders of one class's ids, new ones and closed ones",
    severity="High",
    why="Ids out of a range differ from those that a sandbox runs as, and are given again; a folder that is used again,"
    " or open to others, is a way to somebody else's files.",
    do="Set uid and gid to the class's, directoryPerms to 700 or 750, and leave ensureUniqueDirectory and"
    " reuseAccessPoint as they are.",
    about=objects("storage.k8s.io", "StorageClass"),
    defaults="ensureUniqueDirectory is true, reuseAccessPoint false, and ids come out of a range where nothing is said;"
    " directoryPerms has to be given (aws-efs-csi-driver 3.4.1, README).",
)
def storage_class(thing: KubernetesObject) -> Iterator[Outcome]:
    """Parameters are texts, whatever they say."""
    provisioner, given = thing.at("provisioner"), thing.at("parameters")
    if provisioner.raw != DRIVER or thing.patch:
        if provisioner.unknown:
            yield unknown(provisioner)
        return
    if given.at("provisioningMode").missing:
        # For volumes that somebody makes by hand: it gives no folder to anybody
        return
    for key in ("uid", "gid"):
        yield from forbid(
            given.at(key),
            lambda value: value is None or str(value) in {"", "0"},
            f"{key} is root's or none of the class's",
        )
    yield from forbid(given.at("ensureUniqueDirectory"), _is("false"), "may give a folder that somebody had")
    yield from forbid(given.at("reuseAccessPoint"), _is("true"), "gives the same access point again")
    mode = given.at("directoryPerms")
    bits = others_bits(mode.raw) if mode.known else None
    if mode.unknown or (mode.known and bits is None):
        yield unknown(mode)
    elif bits:
        yield fail(mode, "folders are open to others than their owner and group")
    yield from _encrypted(given.at("encryptInTransit"))


@dataclass(frozen=True)
class _Volume:
    graph: Graph
    thing: KubernetesObject

    @property
    def handle(self) -> Field:
        return self.thing.at("spec", "csi", "volumeHandle")

    @property
    def point(self) -> object:
        """Whatever tells its access point from others; None where nobody can say."""
        targets = self.graph.targets(self.thing.resource, "spec", ACCESS_POINT)
        if isinstance(self.handle.raw, str):
            return self.handle.raw.rpartition(":")[2] if "fsap-" in self.handle.raw else self.handle.raw
        return targets[0].urn if len(targets) == 1 else None

    def faults(self) -> Iterator[Outcome]:
        options = [one.raw for one in self.thing.at("spec", "mountOptions").elements()]
        by_option = any(isinstance(one, str) and one.startswith("accesspoint=fsap-") for one in options)
        targets = self.graph.targets(self.thing.resource, "spec", ACCESS_POINT, FILE_SYSTEM)
        if self.handle.unknown and not by_option:
            if not targets:
                yield unknown(self.handle)
            elif not any(one.type == ACCESS_POINT for one in targets):
                yield fail(self.handle, "is a file system, and no access point of it")
        elif not by_option and not self._names_a_point():
            yield fail(self.handle, "is a file system, and no access point of it")
        yield from _encrypted(self.thing.at("spec", "csi", "volumeAttributes", "encryptInTransit"))
        claim = self.thing.at("spec", "claimRef")
        if claim.unknown:
            yield unknown(claim)
        elif claim.missing or not (claim.has("name") and claim.has("namespace")):
            yield fail(claim, "is for whoever claims it first")

    def _names_a_point(self) -> bool:
        last = self.handle.raw.rpartition(":")[2] if isinstance(self.handle.raw, str) else ""
        points = self.graph.targets(self.thing.resource, "spec", ACCESS_POINT)
        return last.startswith("fsap-") or any(last in known_ids(point) for point in points)


def _encrypted(field: Field) -> Iterator[Outcome]:
    yield from forbid(field, _is("false"), "is not encrypted on the way")


def _is(word: str) -> Callable[[object], bool]:
    def same(value: object) -> bool:
        return str(value).lower() == word

    return same
