"""The schedules of a pool: CronJobs that scale it when a time of the week with another size begins or ends.

The jobs run in their own namespace, with a service account that may only read and scale the pools of the class.
The schedule owns the size of a scheduled pool, so its declaration ignores changes of it. Until the first job runs, and
after one that was missed by more than the starting deadline, the pool keeps its size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentenv.core.classes.names import SCHEDULES, namespace, owner_labels
from agentenv.core.classes.namespace import class_labels, restricted
from agentenv.core.classes.pods.hardening import container_security
from agentenv.core.classes.pools.sizes import base_size, divide_members
from agentenv.core.classes.releases import releases_of
from agentenv.core.values.names import fit

if TYPE_CHECKING:
    from agentenv.config.sections.classes import Pool
    from agentenv.core.classes.plan import ClassPlan

Plain = dict[str, Any]

WEEK = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# A CronJob adds eleven characters to the name of its jobs, in a label of 63.
LONGEST_JOB = 52
NOBODY_UID = 65_532
LATE_SECONDS = 600
JOB_DEADLINE_SECONDS = 120


@dataclass(frozen=True)
class SizeChange:
    """A time of the week at which a pool changes its size."""

    days: tuple[str, ...]
    time: str
    members: int

    @property
    def cron(self) -> str:
        """Return the schedule of a CronJob."""
        hour, minute = self.time.split(":")
        return f"{int(minute)} {int(hour)} * * {','.join(str(WEEK.index(day)) for day in self.days)}"


@dataclass(frozen=True)
class Schedules:
    """The CronJobs that scale the pools of a class, with their service account and its RBAC objects."""

    account: Plain
    role: Plain
    binding: Plain
    jobs: tuple[Plain, ...]

    def documents(self) -> tuple[Plain, ...]:
        """Return all objects in the order of their dependencies."""
        return (self.account, self.role, self.binding, *self.jobs)


def size_changes(pool: Pool) -> tuple[SizeChange, ...]:
    """Return when a pool changes its size. Where one schedule ends as another starts, the start counts."""
    sizes: dict[tuple[str, str], int] = {}
    for schedule in pool.schedules:
        for day in schedule.days:
            sizes.setdefault(_cron_time(day, schedule.end), base_size(pool))
    for schedule in pool.schedules:
        for day in schedule.days:
            sizes[day, schedule.start] = schedule.size
    days_of: dict[tuple[str, int], list[str]] = {}
    for (day, time), members in sizes.items():
        days_of.setdefault((time, members), []).append(day)
    return tuple(
        SizeChange(tuple(sorted(days, key=WEEK.index)), time, members)
        for (time, members), days in sorted(days_of.items())
    )


def _cron_time(day: str, time: str) -> tuple[str, str]:
    """Return the day and time for a CronJob, in which the end of a day is the beginning of the next."""
    return (WEEK[(WEEK.index(day) + 1) % len(WEEK)], "00:00") if time == "24:00" else (day, time)


def schedules(plan: ClassPlan) -> Schedules | None:
    """Return the objects that scale a class's pools; None if they have one size all week."""
    changes = size_changes(plan.settings.pool)
    if not changes:
        return None
    account = {"name": plan.name, "namespace": SCHEDULES, "labels": class_labels(plan)}
    role = {"name": SCHEDULES, "namespace": namespace(plan.name), "labels": class_labels(plan)}
    names = [name for release in releases_of(plan) for name in release.names]
    pools = {"apiGroups": ["extensions.agents.x-k8s.io"], "resourceNames": names}
    return Schedules(
        account={
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": account,
            "automountServiceAccountToken": False,
        },
        role={
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": role,
            "rules": [
                # kubectl reads the pool before it scales it.
                {**pools, "resources": ["sandboxwarmpools"], "verbs": ["get"]},
                {**pools, "resources": ["sandboxwarmpools/scale"], "verbs": ["get", "patch", "update"]},
            ],
        },
        binding={
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": role,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": SCHEDULES},
            "subjects": [{"kind": "ServiceAccount", "name": plan.name, "namespace": SCHEDULES}],
        },
        jobs=tuple(_job(plan, change) for change in changes),
    )


def schedules_namespace(version: str) -> Plain:
    """Return the namespace of the jobs of all classes."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": SCHEDULES, "labels": restricted(version)},
    }


def _job(plan: ClassPlan, change: SizeChange) -> Plain:
    # The schedules of a pool have one time zone, which the settings check: two would overlap twice a year.
    timezone = plan.settings.pool.schedules[0].timezone
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": _job_name(plan, change), "namespace": SCHEDULES, "labels": class_labels(plan)},
        "spec": {
            "schedule": change.cron,
            "timeZone": timezone,
            "concurrencyPolicy": "Replace",
            "startingDeadlineSeconds": LATE_SECONDS,
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {
                "spec": {
                    "backoffLimit": 3,
                    "activeDeadlineSeconds": JOB_DEADLINE_SECONDS,
                    "template": {"metadata": {"labels": owner_labels(plan)}, "spec": _job_pod(plan, change)},
                }
            },
        },
    }


def _job_pod(plan: ClassPlan, change: SizeChange) -> Plain:
    return {
        "serviceAccountName": plan.name,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NOBODY_UID,
            "runAsGroup": NOBODY_UID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_scale_container(plan, members, names) for members, names in _by_size(plan, change)],
    }


def _scale_container(plan: ClassPlan, members: int, names: Sequence[str]) -> Plain:
    """Return the container that scales pools to a size: kubectl takes one size, and its image has no shell."""
    amounts = {"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "16Mi"}
    return {
        "name": f"scale-to-{members}",
        "image": plan.kubectl_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["kubectl"],
        "args": [
            "scale",
            f"--namespace={namespace(plan.name)}",
            f"--replicas={members}",
            *(f"sandboxwarmpools.extensions.agents.x-k8s.io/{name}" for name in names),
        ],
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _by_size(plan: ClassPlan, change: SizeChange) -> Iterator[tuple[int, list[str]]]:
    """Yield each new size with the names of its pools."""
    by_size: dict[int, list[str]] = {}
    for release in releases_of(plan):
        for name, members in zip(release.names, divide_members(change.members, len(release.names)), strict=True):
            by_size.setdefault(members, []).append(name)
    yield from by_size.items()


def _job_name(plan: ClassPlan, change: SizeChange) -> str:
    """Return the name of a CronJob, with the time, the size and a hash of the days, of which there may be seven."""
    days = hashlib.sha256(",".join(change.days).encode()).hexdigest()[:4]
    return fit(f"{plan.name}-{change.time.replace(':', '')}-{change.members}-{days}", LONGEST_JOB)
