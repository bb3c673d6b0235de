"""Refusals of file systems."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Finding, Row
from agentenv.core.classes.names import SHARED_PATH, storage_class
from agentenv.core.classes.pools.sizes import most_volumes
from agentenv.core.nodes.node_pools import has_local_disk, processor

if TYPE_CHECKING:
    from agentenv.config.settings import Settings

ACCESS_POINTS = 10_000

# What the kernel mounts in every container, and where tokens are put that say what a sandbox is to AWS.
_MOUNTED = ("/proc", "/sys", "/dev", "/run/secrets", "/var/run/secrets")
# What the image starts from; beside what is in them, a home may be.
_IMAGES = ("/bin", "/etc", "/lib", "/lib64", "/sbin", "/usr", "/usr/bin", "/usr/lib")
# The kubelet keeps a part of a disk free, and images and the system take some.
_SANDBOXES_PART = Decimal("0.8")

_THROUGHPUT, _FILE_SYSTEMS = ("storage", "throughput"), ("storage", "fileSystems")


def _access_points(settings: Settings) -> Iterator[Finding]:
    needed = sum(most_volumes(one) for one in settings.sandbox_classes) + len(settings.workspaces)
    shards = settings.storage.file_systems
    if needed > shards * ACCESS_POINTS:
        yield Finding(
            _FILE_SYSTEMS,
            f"{needed} access points on {shards}",
            f"set it to {-(-needed // ACCESS_POINTS)} or more",
            (("sandboxClasses",), ("workspaces",)),
        )


def _provisioned(settings: Settings) -> Iterator[Finding]:
    storage = settings.storage
    if storage.throughput == "provisioned" and storage.provisioned_mibps is None:
        yield Finding(_THROUGHPUT, "provisioned without provisionedMibps", also=(("storage", "provisionedMibps"),))
    if storage.throughput != "provisioned" and storage.provisioned_mibps is not None:
        place = ("storage", "provisionedMibps")
        yield Finding(place, f"{storage.provisioned_mibps} with {storage.throughput}", "drop it", (_THROUGHPUT,))


def _archive(settings: Settings) -> Iterator[Finding]:
    storage = settings.storage
    if storage.archive_after != "never" and storage.throughput != "elastic":
        yield Finding(("storage", "archiveAfter"), f"Archive with {storage.throughput}", also=(_THROUGHPUT,))


def _archive_first(settings: Settings) -> Iterator[Finding]:
    storage = settings.storage
    if storage.archive_after != "never":
        colder = ("storage", "infrequentAccessAfter")
        if storage.infrequent_access_after == "never" or _days(storage.archive_after) <= _days(
            storage.infrequent_access_after
        ):
            found = f"{storage.archive_after}, and {storage.infrequent_access_after} before it"
            yield Finding(("storage", "archiveAfter"), found, also=(colder,))


def _days(transition: str) -> int:
    return int(transition.removesuffix("d"))


def _adopted(settings: Settings) -> Iterator[Finding]:
    storage = settings.storage
    if storage.existing and len(storage.existing) != storage.file_systems:
        found = f"{len(storage.existing)} file systems for fileSystems {storage.file_systems}"
        yield Finding(("storage", "existing"), found, also=(_FILE_SYSTEMS,))


def _storage_class_taken(settings: Settings) -> Iterator[Finding]:
    shards = settings.storage.file_systems
    with_homes = {one.name for one in settings.sandbox_classes if one.storage.kind in {"slot", "shared"}}
    for index, one in enumerate(settings.sandbox_classes):
        numbered = {storage_class(name, shard): name for name in with_homes for shard in range(1, shards)}
        other = numbered.get(storage_class(one.name))
        if one.name in with_homes and other is not None:
            also = (_FILE_SYSTEMS, ("sandboxClasses", "*", "name"), ("sandboxClasses", "*", "storage"))
            found = f"{one.name} beside {other} on {shards} file systems"
            yield Finding(("sandboxClasses", index, "name"), found, also=also)


def _mount_path(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        path = one.storage.mount_path
        taken = [*_MOUNTED, *([SHARED_PATH] if one.storage.kind == "shared" else [])]
        if path in _IMAGES or any(path == other or path.startswith(f"{other}/") for other in taken):
            place = ("sandboxClasses", index, "storage")
            yield Finding((*place, "mountPath"), path, also=((*place, "kind"),))


def _no_local_disk(settings: Settings) -> Iterator[Finding]:
    capacity = settings.capacity
    for index, one in enumerate(settings.sandbox_classes):
        if one.compute != "karpenter" or one.storage.kind != "scratch":
            continue
        nested = one.tier == "untrusted" and one.kernel == "kata"
        families = capacity.gpu.families if one.gpu else capacity.nested_families if nested else capacity.families
        if not any(has_local_disk(some) and one.architecture in {"any", processor(some)} for some in families):
            key = "gpu.families" if one.gpu else "nestedFamilies" if nested else "families"
            place = ("sandboxClasses", index)
            also = (("capacity",), *((*place, word) for word in ("compute", "tier", "kernel", "gpu", "architecture")))
            yield Finding((*place, "storage", "kind"), f"scratch, and capacity.{key} has no such disks", also=also)


def _larger_than_disk(settings: Settings) -> Iterator[Finding]:
    room = settings.capacity.root_volume.value * _SANDBOXES_PART
    for index, one in enumerate(settings.sandbox_classes):
        asked = one.resources.ephemeral
        if one.compute == "karpenter" and one.storage.kind != "scratch" and asked.value > room:
            place = ("sandboxClasses", index)
            also = (("capacity", "rootVolume"), (*place, "compute"), (*place, "storage"))
            found = f"{asked} with capacity.rootVolume {settings.capacity.root_volume}"
            yield Finding((*place, "resources", "ephemeral"), found, also=also)


ROWS = (
    Row(
        "access-points-over-limit",
        f"a file system takes {ACCESS_POINTS:,} access points, and each slot and seat has one",
        "as many file systems as the pools, quotas and seats need",
        "add file systems, or shrink the pools",
        _access_points,
    ),
    Row(
        "provisioned-throughput",
        "provisioned throughput and its amount go together",
        "throughput: provisioned with provisionedMibps, or neither",
        "set provisionedMibps, or throughput: elastic",
        _provisioned,
    ),
    Row(
        "archive-without-elastic",
        "EFS keeps an Archive class for Elastic throughput only",
        "archiveAfter with throughput: elastic",
        "set throughput: elastic, or archiveAfter: never",
        _archive,
    ),
    Row(
        "archive-before-infrequent-access",
        "files move to Infrequent Access first and to Archive later",
        "archiveAfter later than infrequentAccessAfter",
        "set a longer time, or never",
        _archive_first,
    ),
    Row(
        "existing-file-systems-count",
        "homes are spread over the file systems by their number",
        "as many existing file systems as fileSystems",
        "make the two agree",
        _adopted,
    ),
    Row(
        "storage-class-taken",
        "the storage classes of a class are numbered by file system, and another's is called as one of those",
        "class names that do not end in a number another class would get",
        "rename one of the two classes",
        _storage_class_taken,
    ),
    Row(
        "mount-path-taken",
        "the kernel's own file systems or tokens are mounted there, what a task's sandboxes have in common, or the"
        " image has there what it starts with",
        f"paths outside {', '.join(_MOUNTED)}, and {SHARED_PATH} with storage.kind shared;"
        f" none of {', '.join(_IMAGES)}",
        "mount it elsewhere, such as /home/agent",
        _mount_path,
    ),
    Row(
        "scratch-without-local-disk",
        "scratch is on disks that an instance comes with, and none of the instance families does",
        "scratch with a family that has local disks",
        "add one, such as m8gd or m7gd, or set storage.kind: none",
        _no_local_disk,
    ),
    Row(
        "ephemeral-over-root-volume",
        "no node has as much disk to give, so no pod would ever be placed",
        "at most four fifths of capacity.rootVolume",
        "raise capacity.rootVolume, or set storage.kind: scratch for local disks",
        _larger_than_disk,
    ),
)
