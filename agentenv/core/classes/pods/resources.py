"""The resources of a sandbox: of its container, and of its pod on a node."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from agentenv.core.classes.sizes import SMALL, sizes_of
from agentenv.core.nodes.fargate_sizes import GIB, OVERHEAD, size_up
from agentenv.core.nodes.tiers import GPU_TAINT
from agentenv.core.values.quantities import Quantity, cores, size

if TYPE_CHECKING:
    from agentenv.config.sections.classes import SandboxClass, SizeName
    from agentenv.core.classes.plan import ClassPlan

CPU, MEMORY, DISK, GPU = "cpu", "memory", "ephemeral-storage", GPU_TAINT
Amounts = dict[str, Decimal]

# A sandbox on a node may use so many times the ephemeral storage that it requests.
DISK_BURST = 2
# The share of that which each writable path gets. The rest is for logs.
SCRATCH = {"/tmp": Decimal("0.625"), "/var/tmp": Decimal("0.125"), "/run": Decimal("0.0625")}  # noqa: S108 - of a sandbox
# POSIX shared memory, as a share of the requested memory. It counts as memory of the sandbox that writes to it.
SHARED_MEMORY, SHARED_MEMORY_SHARE = "/dev/shm", Decimal("0.5")  # noqa: S108 - of a sandbox

# The disk of workspaced: it has 12 MiB, and is written beside itself when it is replaced.
WORKSPACED_DISK = Quantity.parse("32Mi")


@dataclass(frozen=True)
class ResourceRequirements:
    """The requests and limits of a container or pod."""

    requests: Amounts
    limits: Amounts

    def to_kubernetes(self) -> dict[str, dict[str, str]]:
        """Return the `resources` of a container."""
        return {"requests": format_amounts(self.requests), "limits": format_amounts(self.limits)}


def container_resources(plan: ClassPlan, size_name: SizeName = SMALL) -> ResourceRequirements:
    """Return the resources of a sandbox's container in one of the sizes of its class."""
    settings = sizes_of(plan.settings)[size_name]
    requests: Amounts = {CPU: settings.cpu.value, MEMORY: settings.memory.value, DISK: disk(plan)}
    if plan.on_fargate:
        whole = size_up(settings.cpu.value, settings.memory.value)
        if whole is None:
            raise ValueError(f"Fargate has no size for {settings.cpu} cores and {settings.memory}")
        # The sandbox gets the whole size that is billed, less what Fargate reserves.
        requests |= {CPU: whole.cpu, MEMORY: whole.memory * GIB - OVERHEAD}
        return ResourceRequirements(requests, dict(requests))
    most: Amounts = {
        DISK: requests[DISK] + scratch_disk(plan) - plan.settings.resources.ephemeral.value,
        CPU: (settings.burst.cpu or settings.cpu).value,
        MEMORY: (settings.burst.memory or settings.memory).value,
    }
    # Extended resources cannot be overcommitted: requests equal limits.
    gpus: Amounts = {GPU: Decimal(plan.settings.gpu)} if plan.settings.gpu else {}
    return ResourceRequirements({**requests, **gpus}, {**most, **gpus})


def pod_resources(plan: ClassPlan, size_name: SizeName = SMALL) -> ResourceRequirements:
    """Return the resources of a pod, as the scheduler and quotas count them. The gate never needs more."""
    container, over = container_resources(plan, size_name), overhead(plan)
    return ResourceRequirements(_added(container.requests, over), _added(container.limits, over))


def overhead(plan: ClassPlan) -> Amounts:
    """Return the overhead of the runtime class."""
    wall = plan.wall
    return {} if wall is None else {name: Quantity.parse(text).value for name, text in wall.overhead.items()}


def disk(plan: ClassPlan) -> Decimal:
    """Return the ephemeral storage of a sandbox: its own, that of local folders, and that of workspaced."""
    return local_disk(plan.settings) + (WORKSPACED_DISK.value if plan.daemon == "workspaced" else 0)


def scratch_disk(plan: ClassPlan) -> Decimal:
    """Return the most that a sandbox may use of its scratch paths and logs; Fargate limits it to what is requested."""
    return plan.settings.resources.ephemeral.value * (1 if plan.on_fargate else DISK_BURST)


def local_disk(sandbox_class: SandboxClass) -> Decimal:
    """Return the disk for the files of a sandbox: its ephemeral storage, a scratch home and a local work tree."""
    storage, work_tree = sandbox_class.storage, sandbox_class.work_tree
    return (
        sandbox_class.resources.ephemeral.value
        + (storage.size.value if storage.kind == "scratch" else 0)
        + (work_tree.size.value if work_tree.kind == "local" else 0)
    )


def format_amounts(amounts: Amounts) -> dict[str, str]:
    """Return amounts as Kubernetes quantities."""
    return {name: size(value) if name in {MEMORY, DISK} else cores(value) for name, value in amounts.items()}


def _added(amounts: Amounts, more: Amounts) -> Amounts:
    return {name: value + more.get(name, 0) for name, value in amounts.items()}
