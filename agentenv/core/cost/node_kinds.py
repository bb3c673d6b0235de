"""Kinds of nodes: which classes share nodes, their instance types, and the resources of a sandbox on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from agentenv.core.classes.pods.resources import local_disk
from agentenv.core.cost.nodes import Machine, PodResources, machine
from agentenv.core.nodes.node_pools import METAL
from agentenv.core.nodes.tiers import wall_of
from agentenv.core.values.quantities import Quantity

if TYPE_CHECKING:
    from agentenv.config.sections.classes import SandboxClass
    from agentenv.core.cost.assumptions import Assumptions
    from agentenv.core.cost.context import EstimateContext


@dataclass(frozen=True)
class Kind:
    """A kind of node, and the classes that run on it."""

    name: str
    machine: Machine
    classes: tuple[SandboxClass, ...]
    gpu: bool


def kinds(context: EstimateContext) -> list[Kind]:
    """Return the kinds of nodes that the classes need, in the order of the classes."""
    classes_by_kind: dict[tuple[str, str, str, bool], list[SandboxClass]] = {}
    for sandbox_class in context.settings.sandbox_classes:
        if sandbox_class.compute == "karpenter":
            word = wall_of(sandbox_class.tier, sandbox_class.kernel).word
            classes_by_kind.setdefault(
                (word, sandbox_class.capacity, sandbox_class.architecture, sandbox_class.gpu > 0), []
            ).append(sandbox_class)
    return [
        Kind("-".join(key[:2]), _machine(context, *key[:3], gpu=key[3]), tuple(classes), key[3])
        for key, classes in classes_by_kind.items()
    ]


def system_machine(context: EstimateContext) -> Machine:
    """Return the machine of the system nodes."""
    system = context.settings.capacity.system
    return machine(system.families, context, spot_share=spot_share(system.capacity, context.taken))


def pod_resources(sandbox_class: SandboxClass) -> PodResources:
    """Return the resources of a sandbox of a class on a node, with the overhead of its runtime."""
    wall = wall_of(sandbox_class.tier, sandbox_class.kernel).overhead
    requests = sandbox_class.resources
    return PodResources(
        requests.cpu.value + Quantity.parse(wall.get("cpu", "0")).value,
        requests.memory.value + Quantity.parse(wall.get("memory", "0")).value,
        disk_of(sandbox_class),
    )


def disk_of(sandbox_class: SandboxClass) -> Decimal:
    """Return the disk that a sandbox of a class may use."""
    return local_disk(sandbox_class)


def spot_share(capacity: str, taken: Assumptions) -> Decimal:
    """Return the share of time in which nodes of a capacity type are Spot."""
    return {"spot": Decimal(1), "on-demand": Decimal(0), "both": taken.spot_share}[capacity]


def _machine(context: EstimateContext, word: str, bought: str, architecture: str, *, gpu: bool) -> Machine:
    capacity = context.settings.capacity
    families: Sequence[str] = (
        capacity.gpu.families if gpu else capacity.nested_families if word == "kata" else capacity.families
    )
    # A whole machine is bought last, when the others cannot be had.
    shares = [family for family in families if not family.endswith(METAL)]
    share = spot_share(bought, context.taken)
    return machine(shares or families, context, spot_share=share, architecture=architecture)
