"""Constraints on file systems and volumes."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Constraint, Finding
from agentenv.core.classes.names import SHARED_PATH, storage_class
from agentenv.core.classes.pods.daemon import DAEMON_PATHS
from agentenv.core.classes.pools.sizes import max_volumes
from agentenv.core.nodes.node_pools import has_local_disk, processor

if TYPE_CHECKING:
    from agentenv.config.settings import Settings

ACCESS_POINTS = 10_000
# The first major version of the EFS CSI driver whose pods on nodes get credentials from the Pod Identity agent.
POD_IDENTITY_DRIVER = 3

# Mounted in every container by the kernel or by Kubernetes (service account and AWS tokens), and for workspaced.
_MOUNTED = ("/proc", "/sys", "/dev", "/run/secrets", "/var/run/secrets", *DAEMON_PATHS)
# Needed by the image to start. A home may be mounted below them, not over them.
_IMAGES = ("/bin", "/etc", "/lib", "/lib64", "/opt", "/sbin", "/usr", "/usr/bin", "/usr/lib")
# The part of a disk for sandboxes: the kubelet reserves some, and images and the system use some.
_SANDBOX_SHARE = Decimal("0.8")

_THROUGHPUT, _FILE_SYSTEMS = ("storage", "throughput"), ("storage", "fileSystems")


def _access_points(settings: Settings) -> Iterator[Finding]:
    needed = sum(max_volumes(sandbox_class) for sandbox_class in settings.sandbox_classes) + len(settings.workspaces)
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
        yield Finding(place, f"{storage.provisioned_mibps} with {storage.throughput}", "remove it", (_THROUGHPUT,))


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


def _existing_count(settings: Settings) -> Iterator[Finding]:
    storage = settings.storage
    if storage.existing and len(storage.existing) != storage.file_systems:
        found = f"{len(storage.existing)} file systems for fileSystems {storage.file_systems}"
        yield Finding(("storage", "existing"), found, also=(_FILE_SYSTEMS,))


def _storage_class_taken(settings: Settings) -> Iterator[Finding]:
    shards = settings.storage.file_systems
    with_homes = {
        sandbox_class.name
        for sandbox_class in settings.sandbox_classes
        if sandbox_class.storage.kind in {"slot", "shared"}
    }
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        numbered = {storage_class(name, shard): name for name in with_homes for shard in range(1, shards)}
        other = numbered.get(storage_class(sandbox_class.name))
        if sandbox_class.name in with_homes and other is not None:
            also = (_FILE_SYSTEMS, ("sandboxClasses", "*", "name"), ("sandboxClasses", "*", "storage"))
            found = f"{sandbox_class.name} beside {other} on {shards} file systems"
            yield Finding(("sandboxClasses", index, "name"), found, also=also)


def _mount_path(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        path = sandbox_class.storage.mount_path
        taken = [*_MOUNTED, *([SHARED_PATH] if sandbox_class.storage.kind == "shared" else [])]
        if path in _IMAGES or any(path == other or path.startswith(f"{other}/") for other in taken):
            place = ("sandboxClasses", index, "storage")
            yield Finding((*place, "mountPath"), path, also=((*place, "kind"),))


def _no_local_disk(settings: Settings) -> Iterator[Finding]:
    capacity = settings.capacity
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        if sandbox_class.compute != "karpenter" or sandbox_class.storage.kind != "scratch":
            continue
        nested = sandbox_class.tier == "untrusted" and sandbox_class.kernel == "kata"
        families = (
            capacity.gpu.families if sandbox_class.gpu else capacity.nested_families if nested else capacity.families
        )
        if not any(
            has_local_disk(family) and sandbox_class.architecture in {"any", processor(family)} for family in families
        ):
            key = "gpu.families" if sandbox_class.gpu else "nestedFamilies" if nested else "families"
            place = ("sandboxClasses", index)
            also = (("capacity",), *((*place, word) for word in ("compute", "tier", "kernel", "gpu", "architecture")))
            yield Finding((*place, "storage", "kind"), f"scratch, and capacity.{key} has no local disks", also=also)


def _larger_than_disk(settings: Settings) -> Iterator[Finding]:
    capacity = settings.capacity.root_volume.value * _SANDBOX_SHARE
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        ephemeral = sandbox_class.resources.ephemeral
        if (
            sandbox_class.compute == "karpenter"
            and sandbox_class.storage.kind != "scratch"
            and ephemeral.value > capacity
        ):
            place = ("sandboxClasses", index)
            also = (("capacity", "rootVolume"), (*place, "compute"), (*place, "storage"))
            found = f"{ephemeral} with capacity.rootVolume {settings.capacity.root_volume}"
            yield Finding((*place, "resources", "ephemeral"), found, also=also)


def _driver_without_pod_identity(settings: Settings) -> Iterator[Finding]:
    build = settings.cluster.addon_versions.efs_csi_driver
    if build is not None and int(build.removeprefix("v").partition(".")[0]) < POD_IDENTITY_DRIVER:
        yield Finding(("cluster", "addonVersions", "efsCsiDriver"), build)


CONSTRAINTS = (
    Constraint(
        "efs-driver-without-pod-identity",
        "the driver mounts homes with a role of Pod Identity, which its pods on nodes use from version 3.0.0 only",
        f"aws-efs-csi-driver v{POD_IDENTITY_DRIVER}.0.0 or newer",
        "choose a newer build, or remove the version to get the pinned one",
        _driver_without_pod_identity,
    ),
    Constraint(
        "access-points-over-limit",
        f"a file system has at most {ACCESS_POINTS:,} access points, and each slot and seat needs one",
        "as many file systems as the pools, quotas and seats need",
        "increase storage.fileSystems, or reduce the pools",
        _access_points,
    ),
    Constraint(
        "provisioned-throughput",
        "provisioned throughput needs an amount, and only provisioned throughput has one",
        "throughput: provisioned with provisionedMibps, or neither",
        "set provisionedMibps, or throughput: elastic",
        _provisioned,
    ),
    Constraint(
        "archive-without-elastic",
        "EFS supports the Archive storage class with Elastic throughput only",
        "archiveAfter with throughput: elastic",
        "set throughput: elastic, or archiveAfter: never",
        _archive,
    ),
    Constraint(
        "archive-before-infrequent-access",
        "files move to Infrequent Access before they move to Archive",
        "archiveAfter later than infrequentAccessAfter",
        "set a longer time, or never",
        _archive_first,
    ),
    Constraint(
        "existing-file-systems-count",
        "homes are distributed over exactly fileSystems file systems",
        "as many existing file systems as fileSystems",
        "set fileSystems to the number of existing file systems",
        _existing_count,
    ),
    Constraint(
        "storage-class-taken",
        "storage classes are numbered by file system, and this class would have the same storage class as another",
        "class names that do not end in a number that another class would get",
        "rename one of the two classes",
        _storage_class_taken,
    ),
    Constraint(
        "mount-path-taken",
        "the path is used by the kernel, by tokens, by workspaced, by the shared volume of a task, or by the image",
        f"paths outside of {', '.join(_MOUNTED)}, and of {SHARED_PATH} with storage.kind shared;"
        f" none of {', '.join(_IMAGES)}",
        "use another path, such as /home/agent",
        _mount_path,
    ),
    Constraint(
        "scratch-without-local-disk",
        "scratch uses local instance disks, and none of the instance families has any",
        "scratch with an instance family that has local disks",
        "add a family such as m8gd or m7gd, or set storage.kind: none",
        _no_local_disk,
    ),
    Constraint(
        "ephemeral-over-root-volume",
        "no node has enough disk, so no pod would be scheduled",
        "at most four fifths of capacity.rootVolume",
        "raise capacity.rootVolume, or set storage.kind: scratch for local disks",
        _larger_than_disk,
    ),
)
