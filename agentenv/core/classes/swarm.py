"""The swarm of a task: several sandboxes of a class that share a volume, besides their own homes.

A warm sandbox cannot mount a volume that is chosen later, so a swarm starts cold: from a template for its task, through
a pool that is always empty. Both are deleted when no claim names them, like those of an old release.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import (
    CHANNEL_LABEL,
    EXTENSIONS,
    HOME,
    RELEASE_LABEL,
    SANDBOX,
    SHARED_PATH,
    TASK_LABEL,
    USER_LABEL,
    namespace,
    owner_labels,
    storage_class,
)
from agentenv.core.classes.objects import warm_pool
from agentenv.core.classes.template import template
from agentenv.core.values.names import KINDS, fit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentenv.core.classes.plan import ClassPlan
    from agentenv.core.classes.releases import Release

Plain = dict[str, Any]

SHARED = "shared"


def swarm_name(release: Release, task: str) -> str:
    """Return the name of a task's template and pool."""
    return fit(f"{release.name()}-task-{task}", KINDS["kubernetes-label"].limit)


def shared_claim(task: str) -> str:
    """Return the name of the claim of a task's shared volume."""
    return f"{SHARED}-{task}"


def shared_volume(plan: ClassPlan, task: str, shard: int = 0) -> Plain:
    """Return the claim of a task's shared volume: an access point of the class that all its sandboxes mount."""
    _check(plan, task)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": shared_claim(task),
            "namespace": namespace(plan.name),
            "labels": {CLASS_LABEL: plan.name, TASK_LABEL: task, **owner_labels(plan)},
        },
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": storage_class(plan.name, shard),
            "resources": {"requests": {"storage": str(plan.settings.storage.size)}},
        },
    }


def swarm_template(plan: ClassPlan, release: Release, task: str, shard: int = 0) -> Plain:
    """Return the template of a task: that of its release, with the shared volume."""
    _check(plan, task)
    document = template(plan, release, shard, _labels(plan, release, task))
    document["metadata"]["name"] = swarm_name(release, task)
    mount_shared(document["spec"]["podTemplate"], task)
    return document


def task_objects(template: Mapping[str, Any], task: str, owner: str) -> tuple[Plain, Plain, Plain]:
    """Return the shared volume's claim, the template and the pool of a task, for a class's template in the cluster.

    With these a single member is restored after its swarm was deleted.
    """
    about: Plain = template["metadata"]
    labels: dict[str, str] = {**(about.get("labels") or {}), TASK_LABEL: task, USER_LABEL: owner}
    # It has no channel, because the stack does not name it.
    labels.pop(CHANNEL_LABEL, None)
    name = fit(f"{about['name']}-task-{task}", KINDS["kubernetes-label"].limit)
    where: Plain = {"namespace": about["namespace"], "labels": labels}
    spec: Plain = deepcopy(dict(template["spec"]))
    mount_shared(spec["podTemplate"], task)
    homes: list[Plain] = spec["volumeClaimTemplates"]
    (home,) = (claim for claim in homes if claim["metadata"]["name"] == HOME)
    template_: Plain = {"apiVersion": EXTENSIONS, "kind": "SandboxTemplate", "metadata": {"name": name, **where}}
    pool: Plain = {
        "apiVersion": EXTENSIONS,
        "kind": "SandboxWarmPool",
        "metadata": {"name": name, **deepcopy(where)},
        "spec": {"replicas": 0, "sandboxTemplateRef": {"name": name}, "updateStrategy": {"type": "Recreate"}},
    }
    volume: Plain = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": shared_claim(task), **deepcopy(where)},
        "spec": deepcopy(home["spec"]),
    }
    volume["metadata"]["labels"].pop(RELEASE_LABEL, None)
    return volume, {**template_, "spec": spec}, pool


def mount_shared(pod: Plain, task: str) -> None:
    """Add the shared volume of a task to a pod template."""
    pod["metadata"]["labels"][TASK_LABEL] = task
    pod["spec"].setdefault("volumes", [])
    pod["spec"]["volumes"].append({"name": SHARED, "persistentVolumeClaim": {"claimName": shared_claim(task)}})
    for container in pod["spec"]["containers"]:
        if container["name"] == SANDBOX:
            container["volumeMounts"].append({"name": SHARED, "mountPath": SHARED_PATH})


def swarm_pool(plan: ClassPlan, release: Release, task: str) -> Plain:
    """Return the pool that a task's claims name. It is always empty, so each of them starts cold."""
    _check(plan, task)
    return warm_pool(plan, swarm_name(release, task), 0, _labels(plan, release, task))


def _labels(plan: ClassPlan, release: Release, task: str) -> dict[str, str]:
    return {CLASS_LABEL: plan.name, RELEASE_LABEL: release.hash, TASK_LABEL: task, **owner_labels(plan)}


def _check(plan: ClassPlan, task: str) -> None:
    if plan.settings.storage.kind != "shared":
        raise ValueError(f"class {plan.name} has storage {plan.settings.storage.kind}; a swarm needs storage shared")
    if not KINDS["kubernetes-label"].accepts(task):
        raise ValueError(f"{task!r} is not the name of a task: {KINDS['kubernetes-label'].allowed}, 63 at most")
