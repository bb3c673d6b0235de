"""A swarm as it is asked for: so many sandboxes for one task, made together or not at all.

Whoever attributes what they use counts them as one: all of them carry the task and its owner.
"""

from __future__ import annotations

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
from agentenv.core.workspaces.workspace import DOMAIN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from agentenv.core.classes.plan import ClassPlan
    from agentenv.core.classes.releases import Release

Plain = dict[str, Any]

# On a swarm's pool: how many were asked for at first, how many of them are somebody's by now, and that it is on its way
# out.
REQUESTED_COUNT = f"{DOMAIN}swarm-asked"
ASSIGNED_COUNT = f"{DOMAIN}swarm-handed-over"
ABANDONED = f"{DOMAIN}swarm-given-up"
# Beyond this a class is asked for as a pool, and not as a task.
MOST = 500


@dataclass(frozen=True)
class Swarm:
    """The documents of one task's swarm, in the order in which they are made."""

    namespace: str
    task: str
    owner: str
    volume: Plain
    template: Plain
    pool: Plain
    claims: tuple[Plain, ...]
    keep_for: timedelta  # how long the data of what was deleted of it is kept
    needs: Amounts  # of what quotas count, by their names for it


def swarm(
    plan: ClassPlan, release: Release, task: str, count: int, *, owner: str, shutdown: datetime | None = None
) -> Swarm:
    """A swarm of `count` sandboxes of a class; `ValueError` where there can be none."""
    if not 1 <= count <= MOST:
        raise ValueError(f"{count} sandboxes are no swarm: 1 to {MOST} are")
    whose = {USER_LABEL: owner, TASK_LABEL: task}
    made = [shared_volume(plan, task), swarm_template(plan, release, task), swarm_pool(plan, release, task)]
    for document in made:
        document["metadata"]["labels"] |= whose
    volume, template, pool = made
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
    kept = plan.retain_deleted_for
    space = volume["metadata"]["namespace"]
    return Swarm(space, task, owner, volume, template, pool, members, kept, _needs(plan, count))


def member(task: str, number: int) -> str:
    """The name of one of a task's sandboxes."""
    # Of its home, too: that is called home- and this.
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
    """What a ResourceQuota has too little left of, in words for a person; empty where all of it fits."""
    status = section(quota, "status")
    hard, used = strings(status, "hard"), strings(status, "used")
    wrong: list[str] = []
    for name, amount in needs.items():
        if name in hard:
            try:
                left = Quantity.parse(hard[name]).value - Quantity.parse(used.get(name, "0")).value
            except ValueError:
                continue  # the API server counts by it, and refuses what does not fit
            if amount > left:
                told = [_format_amount(name, value) for value in (amount, max(left, Decimal(0)))]
                wrong.append(f"{name}: {told[0]} of {told[1]} that are left of {hard[name]}")
    return wrong


def _format_amount(name: str, value: Decimal) -> str:
    return size(value) if name.endswith(("memory", "storage")) else cores(value)
