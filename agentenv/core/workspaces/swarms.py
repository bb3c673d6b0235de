"""The objects of a swarm: several sandboxes for one task, created together or not at all.

All of them have the labels of the task and its owner, with which costs are attributed.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b32encode
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from agentenv.core.classes.names import TASK_LABEL, USER_LABEL
from agentenv.core.classes.pods.resources import GPU, Amounts, pod_resources
from agentenv.core.classes.swarm import shared_volume, swarm_pool, swarm_template
from agentenv.core.values.names import KINDS, fit
from agentenv.core.values.object_fields import section, strings
from agentenv.core.values.quantities import Quantity, cores, size
from agentenv.core.workspaces import claims
from agentenv.core.workspaces.workspace import DOMAIN, TEAMS, Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from agentenv.core.classes.plan import ClassPlan
    from agentenv.core.classes.releases import Release

Plain = dict[str, Any]

# On a swarm's pool: the requested number of members, the number of assigned ones, and whether it is being deleted.
REQUESTED_COUNT = f"{DOMAIN}swarm-asked"
ASSIGNED_COUNT = f"{DOMAIN}swarm-handed-over"
ABANDONED = f"{DOMAIN}swarm-given-up"
# The largest swarm.
MOST = 500


@dataclass(frozen=True)
class SwarmRequest:
    """A request to create the swarm of a task."""

    owner: str
    class_name: str
    task: str  # as its owner named it
    count: int
    fit: bool = False  # whether to create as many as fit
    channel: str = "stable"
    deadline: datetime | None = None
    limited_teams: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of the task in the cluster."""
        return task_name(self.owner, self.task)

    @property
    def workspace(self) -> Workspace:
        """Return what its workspaces have in common, with the name of the task as id."""
        return Workspace(
            self.name,
            self.owner,
            self.class_name,
            "agent",
            "creating",
            task=self.name,
            deadline=self.deadline,
            limited_teams=self.limited_teams,
        )


@dataclass(frozen=True)
class Swarm:
    """The objects of one task's swarm, in the order of their creation."""

    namespace: str
    task: str
    owner: str
    volume: Plain
    template: Plain
    pool: Plain
    claims: tuple[Plain, ...]
    keep_for: timedelta  # how long the data of deleted members is retained
    needs: Amounts  # the amounts that a ResourceQuota counts, by its names


def swarm(
    plan: ClassPlan,
    release: Release,
    task: str,
    count: int,
    *,
    owner: str,
    shutdown: datetime | None = None,
    limited_teams: Sequence[str] = (),
) -> Swarm:
    """Return a swarm of `count` sandboxes of a class; raise `ValueError` if it is not possible."""
    if not 1 <= count <= MOST:
        raise ValueError(f"a swarm has 1 to {MOST} sandboxes, not {count}")
    shared = [shared_volume(plan, task), swarm_template(plan, release, task), swarm_pool(plan, release, task)]
    for document in shared:
        document["metadata"]["labels"] |= {USER_LABEL: owner, TASK_LABEL: task}
    volume, template, pool = shared
    pool["metadata"]["annotations"] = {**pool["metadata"].get("annotations", {}), REQUESTED_COUNT: str(count)}
    members = tuple(
        claims.claim(
            plan.name,
            pool["metadata"]["name"],
            member(task, number),
            owner=owner,
            workspace=member(task, number),
            mode="agent",
            task=task,
            shutdown=shutdown,
        )
        for number in range(count)
    )
    for claim in members if limited_teams else ():
        claim["metadata"]["annotations"] = {TEAMS: json.dumps(limited_teams)}
    namespace = volume["metadata"]["namespace"]
    keep_for = plan.retain_deleted_for
    return Swarm(namespace, task, owner, volume, template, pool, members, keep_for, _needs(plan, count))


def member(task: str, number: int) -> str:
    """Return the name of a member of a task's swarm."""
    # Short enough for the name of its home, which has the prefix home-.
    return f"{fit(task, KINDS['kubernetes-label'].limit - len('home-') - len('-000'))}-{number}"


def _needs(plan: ClassPlan, count: int) -> Amounts:
    pod = pod_resources(plan)
    needs: Amounts = {"pods": Decimal(count)}
    needs |= {f"requests.{name}": value * count for name, value in pod.requests.items()}
    needs |= {f"limits.{name}": value * count for name, value in pod.limits.items() if name != GPU}
    volumes = count + 1
    return {
        **needs,
        "persistentvolumeclaims": Decimal(volumes),
        "requests.storage": plan.settings.storage.size.value * volumes,
    }


def quota_shortfalls(quota: Mapping[str, Any], needs: Amounts) -> list[str]:
    """Return what a ResourceQuota has too little left of, for messages; empty if everything fits."""
    status = section(quota, "status")
    hard, used = strings(status, "hard"), strings(status, "used")
    shortfalls: list[str] = []
    for name, amount in needs.items():
        if name in hard:
            try:
                left = Quantity.parse(hard[name]).value - Quantity.parse(used.get(name, "0")).value
            except ValueError:
                continue  # the API server refuses what exceeds it
            if amount > left:
                needed, free = (_format_amount(name, value) for value in (amount, max(left, Decimal(0))))
                shortfalls.append(f"{name}: {needed} needed, {free} of {hard[name]} left")
    return shortfalls


def _format_amount(name: str, value: Decimal) -> str:
    return size(value) if name.endswith(("memory", "storage")) else cores(value)


def task_of(workspace: Workspace) -> str | None:
    """Return the task of a workspace as its owner named it."""
    name = workspace.task
    task = name.rpartition("-")[0] if name else ""
    return task if task and task_name(workspace.owner, task) == name else name


def task_name(owner: str, task: str) -> str:
    """Return the name of a task in the cluster: unique per owner."""
    digest = b32encode(hashlib.sha256(f"{len(owner)}:{owner}:{task}".encode()).digest()).decode().lower()
    return f"{task}-{digest[:10]}"
