"""The pod of a sandbox, hardened: no security-relevant field is left to its default.

A claim only adds labels and annotations to it.
"""

from __future__ import annotations

from copy import deepcopy
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.capabilities.policies.network_policy import dns_settings
from agentenv.core.classes.names import HOME, SANDBOX
from agentenv.core.classes.pods import aws_identity, daemon, work_tree
from agentenv.core.classes.pods.environment import TEMPORARY
from agentenv.core.classes.pods.environment import variables as environment_variables
from agentenv.core.classes.pods.hardening import container_security, pod_security
from agentenv.core.classes.pods.home_layout import home_mount, layout_container
from agentenv.core.classes.pods.resources import (
    SCRATCH,
    SHARED_MEMORY,
    SHARED_MEMORY_SHARE,
    container_resources,
    scratch_disk,
)
from agentenv.core.nodes.tiers import placement
from agentenv.core.values.quantities import size

if TYPE_CHECKING:
    from agentenv.core.classes.plan import ClassPlan

Plain = dict[str, Any]

# The time for workspaced to kill remaining processes and to deliver the last output, after their own grace period.
STOP_SECONDS = 10
ZONE = "topology.kubernetes.io/zone"
LOCAL_DISK = "karpenter.k8s.aws/instance-local-nvme"


def pod_spec(plan: ClassPlan, image: str, *, seat: bool = False) -> Plain:
    """Return the spec of a sandbox's pod, or of a declared seat's. The volume of the home is added to it later."""
    home = home_path(plan, seat=seat)
    return {
        "serviceAccountName": SANDBOX,
        "automountServiceAccountToken": False,
        # Otherwise the kubelet sets variables for every Service of the namespace.
        "enableServiceLinks": False,
        "securityContext": pod_security(plan.uid),
        **dns_settings(granted=any(grant.word == "dns" for grant in plan.settings.capabilities), cluster=plan.cluster),
        "terminationGracePeriodSeconds": _stop_seconds(plan),
        **_scheduling(plan),
        **_init_containers(plan, image, home, stored=seat or plan.slots),
        "containers": [_container(plan, image, home, stored=seat or plan.slots)],
        "volumes": [
            *_scratch_volumes(plan, home, seat=seat),
            *work_tree.volumes(plan),
            *daemon.volumes(plan),
            *aws_identity.volumes(plan),
        ],
    }


def _stop_seconds(plan: ClassPlan) -> int:
    """Return how long a sandbox may take to stop: its processes, its work tree, and workspaced itself."""
    flush = work_tree.FLUSH_SECONDS if work_tree.has_work_tree(plan) else 0
    return int(plan.settings.suspend_grace.total_seconds()) + flush + STOP_SECONDS


def home_path(plan: ClassPlan, *, seat: bool = False) -> str | None:
    """Return the mount path of the home; None for a sandbox without one."""
    storage = plan.settings.storage
    return None if storage.kind == "none" and not seat else storage.mount_path


def _init_containers(plan: ClassPlan, image: str, home: str | None, *, stored: bool) -> Plain:
    """Return the init containers; the gate is the last, because a policy is enforced while the others run."""
    containers = [
        *([layout_container(plan)] if stored else []),
        *daemon.init_containers(plan, image, home or TEMPORARY),
        *([deepcopy(plan.gate)] if plan.gate else []),
    ]
    return {"initContainers": containers} if containers else {}


def _container(plan: ClassPlan, image: str, home: str | None, *, stored: bool) -> Plain:
    settings = plan.settings
    declared = {variable.name: variable.value for variable in settings.env}
    # The home in the image is on the read-only root file system.
    variables = {
        **environment_variables(home or TEMPORARY),
        **aws_identity.variables(plan),
        **declared,
        **daemon.variables(plan),
        **work_tree.variables(plan),
    }
    return {
        "name": SANDBOX,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        **daemon.entry_point(plan),
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "resources": container_resources(plan).to_kubernetes(),
        # A sandbox is resized without a restart; Fargate does not resize pods.
        **({} if plan.on_fargate else {"resizePolicy": _resize_policy()}),
        "securityContext": container_security(),
        **(_probes(plan) or daemon.probes(plan)),
        "volumeMounts": _mounts(plan, home, stored=stored),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _probes(plan: ClassPlan) -> Plain:
    """Return the startup and readiness probes.

    There is no liveness probe: a sandbox that is too busy to answer is working, and a restart would lose its processes.
    """
    settings = plan.settings.probe
    if settings is None:
        return {}
    if settings.command:
        handler: Plain = {"exec": {"command": list(settings.command)}}
    elif settings.path is not None:
        handler = {"httpGet": {"path": settings.path, "port": settings.port}}
    else:
        handler = {"tcpSocket": {"port": settings.port}}
    seconds = int(settings.start_within.total_seconds())
    return {
        # Pools and claims wait for the startup probe, so it is frequent; it ends with its first success.
        "startupProbe": {**handler, "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": seconds},
        "readinessProbe": {**handler, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3},
    }


def _resize_policy() -> list[Plain]:
    return [{"resourceName": name, "restartPolicy": "NotRequired"} for name in ("cpu", "memory")]


def _scheduling(plan: ClassPlan) -> Plain:
    """Return the scheduling fields. Fargate gives each pod its own node, and sets its priority."""
    settings, wall = plan.settings, plan.wall
    if wall is None:
        return {}
    spread: Plain = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        # A zone without capacity must not delay a claim.
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {CLASS_LABEL: plan.name}},
    }
    on_disk: Plain = {"matchExpressions": [{"key": LOCAL_DISK, "operator": "Exists"}]}
    return {
        **placement(wall, settings.capacity, plan.architecture, gpu=settings.gpu > 0),
        **(
            {
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [on_disk]}}
                }
            }
            if settings.storage.kind == "scratch"
            else {}
        ),
        "topologySpreadConstraints": [spread],
        "priorityClassName": SANDBOX,
    }


def _scratch_paths(plan: ClassPlan, home: str | None) -> dict[str, Decimal]:
    """Return the sizes of the writable paths besides the home."""
    amount = scratch_disk(plan)
    return {path: amount * part for path, part in SCRATCH.items() if path != home}


def _scratch_volumes(plan: ClassPlan, home: str | None, *, seat: bool) -> list[Plain]:
    volumes = [
        {"name": _volume(path), "emptyDir": {"sizeLimit": size(amount)}}
        for path, amount in _scratch_paths(plan, home).items()
    ]
    memory = plan.settings.resources.memory.value * SHARED_MEMORY_SHARE
    # Without it gVisor offers as much as half of the node's memory.
    volumes.append({"name": _volume(SHARED_MEMORY), "emptyDir": {"medium": "Memory", "sizeLimit": size(memory)}})
    if plan.settings.storage.kind == "scratch" and not seat:
        volumes.append({"name": HOME, "emptyDir": {"sizeLimit": size(plan.settings.storage.size.value)}})
    return volumes


def _mounts(plan: ClassPlan, home: str | None, *, stored: bool) -> list[Plain]:
    mounts = [{"name": _volume(path), "mountPath": path} for path in (*_scratch_paths(plan, home), SHARED_MEMORY)]
    mounts += [*work_tree.mounts(plan), *daemon.mounts(plan), *aws_identity.mounts(plan)]
    if home is None:
        return mounts
    return [*mounts, home_mount(home) if stored else {"name": HOME, "mountPath": home}]


def _volume(path: str) -> str:
    return path.strip("/").replace("/", "-")
