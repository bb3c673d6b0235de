"""What one sandbox takes: of processor, memory and disk, for its container and for its place on a node."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from agentenv.core.nodes.fargate_sizes import GIB, OVERHEAD, size_up
from agentenv.core.nodes.tiers import GPU_TAINT
from agentenv.core.values.quantities import Quantity, cores, size

if TYPE_CHECKING:
    from agentenv.core.classes.plan import ClassPlan

CPU, MEMORY, DISK, GPU = "cpu", "memory", "ephemeral-storage", GPU_TAINT
Amounts = dict[str, Decimal]

# Of the disk that a sandbox has, by where programs expect to write. The rest is for logs.
SCRATCH = {"/tmp": Decimal("0.5"), "/var/tmp": Decimal("0.125"), "/run": Decimal("0.0625")}  # noqa: S108 - of a sandbox


@dataclass(frozen=True)
class Share:
    """What a container always has, and what it may have for a while."""

    requests: Amounts
    limits: Amounts

    def written(self) -> dict[str, dict[str, str]]:
        """As Kubernetes takes it."""
        return {"requests": written(self.requests), "limits": written(self.limits)}


def share(plan: ClassPlan) -> Share:
    """The share of a sandbox's container."""
    asked = plan.asked.resources
    requests: Amounts = {CPU: asked.cpu.value, MEMORY: asked.memory.value, DISK: disk(plan)}
    if plan.on_fargate:
        whole = size_up(asked.cpu.value, asked.memory.value)
        if whole is None:
            raise ValueError(f"Fargate has no size for {asked.cpu} cores and {asked.memory}")
        # Whatever size is billed belongs to the sandbox whole, less what Fargate keeps for itself.
        requests |= {CPU: whole.cpu, MEMORY: whole.memory * GIB - OVERHEAD}
        return Share(requests, dict(requests))
    most: Amounts = {
        **requests,
        CPU: (asked.burst.cpu or asked.cpu).value,
        MEMORY: (asked.burst.memory or asked.memory).value,
    }
    # Extended resources are had whole or not at all.
    gpus: Amounts = {GPU: Decimal(plan.asked.gpu)} if plan.asked.gpu else {}
    return Share({**requests, **gpus}, {**most, **gpus})


def whole_pod(plan: ClassPlan) -> Share:
    """The share of a pod, as the scheduler and quotas count it: the gate never has more than the sandbox after it."""
    one, over = share(plan), overhead(plan)
    return Share(_added(one.requests, over), _added(one.limits, over))


def overhead(plan: ClassPlan) -> Amounts:
    """What the wall takes of a node beside the sandbox."""
    wall = plan.wall
    return {} if wall is None else {name: Quantity.parse(text).value for name, text in wall.overhead.items()}


def disk(plan: ClassPlan) -> Decimal:
    """The disk of a node that a sandbox has; a home that is lost on stop is a part of it."""
    asked = plan.asked
    return asked.resources.ephemeral.value + (asked.storage.size.value if asked.storage.kind == "scratch" else 0)


def written(amounts: Amounts) -> dict[str, str]:
    """Amounts as Kubernetes takes them."""
    return {name: size(value) if name in {MEMORY, DISK} else cores(value) for name, value in amounts.items()}


def _added(amounts: Amounts, more: Amounts) -> Amounts:
    return {name: value + more.get(name, 0) for name, value in amounts.items()}
