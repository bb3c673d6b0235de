"""The daily job that measures homes: its volumes, schedule, permissions and pods.

It has its own namespace, service account and pods. It mounts the folder of each class through an access point with the
class's uid and gid, and that of each declared seat with the seat's, all read-only. If a folder does not exist yet, EFS
creates it at the first mount with the same owner, as it does for homes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentenv.core.classes.names import base_path, label_value
from agentenv.core.classes.plan import plans
from agentenv.core.classes.pods.hardening import container_security, pod_security
from agentenv.core.classes.static_volumes import StaticVolume
from agentenv.core.iam.documents import policy_document
from agentenv.core.values.names import KINDS, fit
from agentenv.core.workspaces.claims import DO_NOT_DISRUPT
from agentenv.core.workspaces.seats import CLASS_TAG, USER_TAG, seat_plans

if TYPE_CHECKING:
    from agentenv.config.settings import Settings

Plain = dict[str, Any]

NAME = "storage-metering"
# The tag of access points for this job; policies check that only the job uses them.
TAG = NAME
HOMES = "/homes"
USER = 65_532
# The prefixes of the annotations that the job sets on volumes.
MEASURES = ("sandbox.users.io/measured-", "sandbox.users.io/found-")
# The node's driver runs a process of about 12 MB for each mount.
MOST_MOUNTS = 20
LATE_SECONDS, DEADLINE_SECONDS = 6 * 3600, 3 * 3600
# The driver ignores the capacity, but Kubernetes requires one.
NOMINAL = "1Gi"


@dataclass(frozen=True)
class HomeFolder:
    """A folder with homes, the root of one access point."""

    name: str
    shard: int
    path: str
    uid: int
    tags: Mapping[str, str]

    @property
    def volume(self) -> str:
        """Return the name of its PersistentVolume and PersistentVolumeClaim."""
        return fit(f"{NAME}-{self.shard}-{self.name}", KINDS["kubernetes-label"].limit)


@dataclass(frozen=True)
class ScanJob:
    """A CronJob that measures folders of one file system."""

    name: str
    shard: int
    folders: tuple[HomeFolder, ...]
    cron: str
    entries: int


def home_folders(settings: Settings) -> tuple[HomeFolder, ...]:
    """Return the folders with homes: one per class and file system, and one per seat on the first file system.

    There are none without the workspace service, whose ledger needs the sizes and whose image measures them.
    """
    if not (settings.service.deployed and settings.cost.storage_metering.enabled):
        return ()
    class_folders = [
        HomeFolder(f"class-{plan.name}", shard, base_path(plan.name), plan.uid, {TAG: plan.name, CLASS_TAG: plan.name})
        for plan in plans(settings)
        if plan.slots
        for shard in range(plan.shards)
    ]
    seat_folders = [
        HomeFolder(
            f"seat-{seat.name}",
            0,
            seat.path,
            seat.uid,
            {TAG: seat.sandbox_class, CLASS_TAG: seat.sandbox_class, USER_TAG: seat.user},
        )
        for seat in seat_plans(settings)
    ]
    return (*class_folders, *seat_folders)


def scan_jobs(settings: Settings) -> tuple[ScanJob, ...]:
    """Return the jobs, which share the directory entries that may be read per day."""
    groups: list[tuple[str, tuple[HomeFolder, ...]]] = []
    all_folders = home_folders(settings)
    for shard in sorted({folder.shard for folder in all_folders}):
        on_shard = [folder for folder in all_folders if folder.shard == shard]
        for number, first in enumerate(range(0, len(on_shard), MOST_MOUNTS)):
            name = f"homes-{shard}-{number}" if number else f"homes-{shard}"
            groups.append((name, tuple(on_shard[first : first + MOST_MOUNTS])))
    metering = settings.cost.storage_metering
    return tuple(
        ScanJob(
            name=name,
            shard=folders[0].shard,
            folders=folders,
            cron=f"{_start_minute(settings.environment, name)} {metering.hour} * * *",
            entries=max(metering.entries_per_day // len(groups), 1),
        )
        for name, folders in groups
    )


def _start_minute(environment: str, name: str) -> int:
    """Return the minute at which a job starts: always the same, and spread over environments and jobs."""
    return hashlib.sha256(f"{environment}/{name}".encode()).digest()[0] % 60


def volume(folder: HomeFolder, handle: Any) -> Plain:
    """Return the volume of a folder, reserved for the job's claim and mounted read-only."""
    return _static_volume(folder).volume(handle, read_only=True)


def claim(folder: HomeFolder) -> Plain:
    """Return the claim of a folder's volume."""
    return _static_volume(folder).claim()


def _static_volume(folder: HomeFolder) -> StaticVolume:
    return StaticVolume(folder.volume, NAME, folder.volume, _labels(), NOMINAL)


def job(scan_job: ScanJob, settings: Settings, file_system: Any, region: Any) -> Plain:
    """Return the CronJob; the file system and the region may be outputs that are not known yet."""
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": scan_job.name, "namespace": NAME, "labels": _labels()},
        "spec": {
            "schedule": scan_job.cron,
            "timeZone": "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            "suspend": False,
            "startingDeadlineSeconds": LATE_SECONDS,
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 2,
            "jobTemplate": {
                "spec": {
                    # A retry would read the entries of another day; the recorded sizes stay until tomorrow.
                    "backoffLimit": 0,
                    "activeDeadlineSeconds": DEADLINE_SECONDS,
                    "template": {
                        # Karpenter does not disrupt the node until the job is done.
                        "metadata": {"labels": _labels(settings), "annotations": {DO_NOT_DISRUPT: "true"}},
                        "spec": _pod(scan_job, settings, file_system, region),
                    },
                }
            },
        },
    }


def _pod(scan_job: ScanJob, settings: Settings, file_system: Any, region: Any) -> Plain:
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        # The access points enforce their own uid and gid.
        "securityContext": pod_security(USER),
        "containers": [_container(scan_job, settings, file_system, region)],
        "volumes": [
            *(
                {"name": folder.volume, "persistentVolumeClaim": {"claimName": folder.volume, "readOnly": True}}
                for folder in scan_job.folders
            ),
            {"name": "scratch", "emptyDir": {"sizeLimit": "16Mi"}},
        ],
    }


def _container(scan_job: ScanJob, settings: Settings, file_system: Any, region: Any) -> Plain:
    service = settings.service
    return {
        "name": NAME,
        "image": service.image,
        "command": ["python", "-m", "service.metering"],
        "args": arguments(scan_job, service.log_level),
        "env": [{"name": "FILE_SYSTEM", "value": file_system}, {"name": "REGION", "value": region}],
        "resources": {
            # It lists the same objects as the service, and so needs as much memory.
            "requests": {"cpu": "50m", "memory": str(service.memory)},
            "limits": {"cpu": "500m", "memory": str(service.memory)},
        },
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *(
                {"name": folder.volume, "mountPath": mount_path(folder), "readOnly": True}
                for folder in scan_job.folders
            ),
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - in the container
        ],
    }


def mount_path(folder: HomeFolder) -> str:
    """Return the mount path of a folder in the job."""
    return f"{HOMES}/{_file_system_path(folder.shard)}{folder.path}"


def _file_system_path(shard: int) -> str:
    """Return the folder of a file system's mounts, without its id, so that the paths are known at preview."""
    return f"shard-{shard}"


def arguments(scan_job: ScanJob, log_level: str) -> list[str]:
    """Return the arguments of the command."""
    return [
        f"--homes={HOMES}",
        f"--file-system=$(FILE_SYSTEM)={_file_system_path(scan_job.shard)}",
        "--region=$(REGION)",
        f"--entries={scan_job.entries}",
        *(f"--below={folder.path}" for folder in scan_job.folders),
        f"--log-level={log_level}",
    ]


def rbac_rules() -> list[Plain]:
    """Return its RBAC rules: it reads claims and volumes, and records sizes on volumes."""
    return [
        {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["get", "list", "patch"]},
        {"apiGroups": ["extensions.agents.x-k8s.io"], "resources": ["sandboxclaims"], "verbs": ["get", "list"]},
    ]


def iam_statements(systems: Sequence[str], points: str) -> Plain:
    """Return its IAM policy: it reads access points and the metered sizes of file systems.

    It needs no mount permission, because the node's driver mounts volumes.
    """
    return policy_document(
        {
            "Sid": "Look",
            "Effect": "Allow",
            "Action": ["elasticfilesystem:DescribeAccessPoints", "elasticfilesystem:DescribeFileSystems"],
            "Resource": sorted([*systems, points]),
        }
    )


def _labels(settings: Settings | None = None) -> dict[str, str]:
    name = {"app.kubernetes.io/name": NAME}
    if settings is None:
        return name
    return {
        **name,
        "sandbox.users.io/environment": label_value(settings.environment),
        "sandbox.users.io/owner": label_value(settings.cost.owner),
        "sandbox.users.io/cost-center": label_value(settings.cost.cost_center),
    }
