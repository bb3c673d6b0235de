"""The daily job that looks how large homes are: what it has mounted, when it runs, and as what.

Whoever looks into homes is nobody else: a namespace, an account and pods of its own. It has each class's folder by an
access point with the class's ids, and each declared seat's with the seat's, and all of them to read only. Where the
folder is not there yet, EFS makes it when it is first mounted, as it does for homes, and with the same owner.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentenv.core.classes.names import base_path, label_value
from agentenv.core.classes.plan import plans
from agentenv.core.classes.pods.hardening import container_security, pod_security
from agentenv.core.classes.storage_classes import DRIVER
from agentenv.core.values.names import KINDS, fit
from agentenv.core.workspaces.claims import DO_NOT_DISRUPT
from agentenv.core.workspaces.seats import CLASS_TAG, USER_TAG, seat_plans

if TYPE_CHECKING:
    from agentenv.config.settings import Settings

Plain = dict[str, Any]

NAME = "storage-metering"
# By this tag an access point says that it is there for this job alone; policies hold it to that.
TAG = NAME
HOMES = "/homes"
USER = 65_532
# How the annotations of a volume begin that the job writes, and no others.
MEASURES = ("sandbox.users.io/measured-", "sandbox.users.io/found-")
# The node's driver has a process of its own for each mount, of about twelve megabytes.
MOST_MOUNTS = 20
LATE_SECONDS, PATIENCE_SECONDS = 6 * 3600, 3 * 3600
# Of a volume the driver counts nothing; Kubernetes wants a number.
NOMINAL = "1Gi"


@dataclass(frozen=True)
class HomeFolder:
    """A folder with homes that one access point leads to."""

    name: str
    shard: int
    path: str
    uid: int
    tags: Mapping[str, str]

    @property
    def volume(self) -> str:
        """Its PersistentVolume, and the claim of it."""
        return fit(f"{NAME}-{self.shard}-{self.name}", KINDS["kubernetes-label"].limit)


@dataclass(frozen=True)
class ScanJob:
    """One job: folders of one file system."""

    name: str
    shard: int
    looked: tuple[HomeFolder, ...]
    cron: str
    entries: int


def home_folders(settings: Settings) -> tuple[HomeFolder, ...]:
    """Where homes are: a folder a class on each file system, and those of seats on the first.

    None without the service: it gives homes to people, its ledger is what they are measured for, and its image what
    looks at them.
    """
    if not (settings.service.deployed and settings.cost.storage_metering.enabled):
        return ()
    of_classes = [
        HomeFolder(f"class-{one.name}", shard, base_path(one.name), one.uid, {TAG: one.name, CLASS_TAG: one.name})
        for one in plans(settings)
        if one.slots
        for shard in range(one.shards)
    ]
    of_seats = [
        HomeFolder(
            f"seat-{one.name}",
            0,
            one.path,
            one.uid,
            {TAG: one.sandbox_class, CLASS_TAG: one.sandbox_class, USER_TAG: one.user},
        )
        for one in seat_plans(settings)
    ]
    return (*of_classes, *of_seats)


def scan_jobs(settings: Settings) -> tuple[ScanJob, ...]:
    """The jobs; they share the entries of a day."""
    groups: list[tuple[str, tuple[HomeFolder, ...]]] = []
    found = home_folders(settings)
    for shard in sorted({one.shard for one in found}):
        here = [one for one in found if one.shard == shard]
        for number, first in enumerate(range(0, len(here), MOST_MOUNTS)):
            name = f"homes-{shard}-{number}" if number else f"homes-{shard}"
            groups.append((name, tuple(here[first : first + MOST_MOUNTS])))
    asked = settings.cost.storage_metering
    return tuple(
        ScanJob(
            name=name,
            shard=looked[0].shard,
            looked=looked,
            cron=f"{_start_minute(settings.environment, name)} {asked.hour} * * *",
            entries=max(asked.entries_per_day // len(groups), 1),
        )
        for name, looked in groups
    )


def _start_minute(environment: str, name: str) -> int:
    """The same every time, and another for each: environments of one account do not all look at once."""
    return hashlib.sha256(f"{environment}/{name}".encode()).digest()[0] % 60


def volume(looked: HomeFolder, handle: Any) -> Plain:
    """The volume of a folder, for this job's claim alone."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": looked.volume, "labels": _labels()},
        "spec": {
            "capacity": {"storage": NOMINAL},
            "volumeMode": "Filesystem",
            # The driver knows this mode and the one of a single node; that nothing is written is said below.
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "mountOptions": ["tls", "iam"],
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": NAME,
                "name": looked.volume,
            },
            "csi": {"driver": DRIVER, "volumeHandle": handle, "readOnly": True},
        },
    }


def claim(looked: HomeFolder) -> Plain:
    """The claim of that volume and of no other."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": looked.volume, "namespace": NAME, "labels": _labels()},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": looked.volume,
            "resources": {"requests": {"storage": NOMINAL}},
        },
    }


def job(pass_: ScanJob, settings: Settings, file_system: Any, region: Any) -> Plain:
    """The CronJob of a pass; the file system and the region may be known later."""
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": pass_.name, "namespace": NAME, "labels": _labels()},
        "spec": {
            "schedule": pass_.cron,
            "timeZone": "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            "suspend": False,
            "startingDeadlineSeconds": LATE_SECONDS,
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 2,
            "jobTemplate": {
                "spec": {
                    # A second try would have the entries of a second day; what is known stays known until tomorrow.
                    "backoffLimit": 0,
                    "activeDeadlineSeconds": PATIENCE_SECONDS,
                    "template": {
                        # A node that was to be given up waits until the looking is done.
                        "metadata": {"labels": _labels(settings), "annotations": {DO_NOT_DISRUPT: "true"}},
                        "spec": _pod(pass_, settings, file_system, region),
                    },
                }
            },
        },
    }


def _pod(pass_: ScanJob, settings: Settings, file_system: Any, region: Any) -> Plain:
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        # Whoever it is here, to each file system it is whom the access point says.
        "securityContext": pod_security(USER),
        "containers": [_container(pass_, settings, file_system, region)],
        "volumes": [
            *(
                {"name": one.volume, "persistentVolumeClaim": {"claimName": one.volume, "readOnly": True}}
                for one in pass_.looked
            ),
            {"name": "scratch", "emptyDir": {"sizeLimit": "16Mi"}},
        ],
    }


def _container(pass_: ScanJob, settings: Settings, file_system: Any, region: Any) -> Plain:
    service = settings.service
    return {
        "name": NAME,
        "image": service.image,
        "command": ["python", "-m", "service.metering"],
        "args": arguments(pass_, service.log_level),
        "env": [{"name": "FILE_SYSTEM", "value": file_system}, {"name": "REGION", "value": region}],
        "resources": {
            # It lists what the service lists, and so takes what that was given.
            "requests": {"cpu": "50m", "memory": str(service.memory)},
            "limits": {"cpu": "500m", "memory": str(service.memory)},
        },
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *({"name": one.volume, "mountPath": mount_path(one), "readOnly": True} for one in pass_.looked),
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - in the container
        ],
    }


def mount_path(looked: HomeFolder) -> str:
    """Where a folder is in the job."""
    return f"{HOMES}/{_file_system_path(looked.shard)}{looked.path}"


def _file_system_path(shard: int) -> str:
    """The file system's folder: its id is known later than all the rest, and would hide where things are mounted."""
    return f"shard-{shard}"


def arguments(pass_: ScanJob, log_level: str) -> list[str]:
    """What the command is told."""
    return [
        f"--homes={HOMES}",
        f"--file-system=$(FILE_SYSTEM)={_file_system_path(pass_.shard)}",
        "--region=$(REGION)",
        f"--entries={pass_.entries}",
        *(f"--below={looked.path}" for looked in pass_.looked),
        f"--log-level={log_level}",
    ]


def rbac_rules() -> list[Plain]:
    """What it may do in the cluster: read whose turn it is, and write sizes on volumes."""
    return [
        {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["get", "list", "patch"]},
        {"apiGroups": ["extensions.agents.x-k8s.io"], "resources": ["sandboxclaims"], "verbs": ["get", "list"]},
    ]


def iam_statements(systems: Sequence[str], points: str) -> Plain:
    """What it may do in AWS: ask where access points lead, and what file systems are metered at. It mounts nothing
    itself: the node's driver does, as it does for every pod."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "Look",
                "Effect": "Allow",
                "Action": ["elasticfilesystem:DescribeAccessPoints", "elasticfilesystem:DescribeFileSystems"],
                "Resource": sorted([*systems, points]),
            }
        ],
    }


def _labels(settings: Settings | None = None) -> dict[str, str]:
    named = {"app.kubernetes.io/name": NAME}
    if settings is None:
        return named
    return {
        **named,
        "sandbox.users.io/environment": label_value(settings.environment),
        "sandbox.users.io/owner": label_value(settings.cost.owner),
        "sandbox.users.io/cost-center": label_value(settings.cost.cost_center),
    }
