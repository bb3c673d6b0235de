"""Kinds of node: which sandboxes share nodes, what those nodes are bought from, and what each sandbox takes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

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
    """One kind of node, and the classes whose sandboxes run there."""

    name: str
    machine: Machine
    classes: tuple[SandboxClass, ...]
    gpu: bool


def kinds(context: EstimateContext) -> list[Kind]:
    """The kinds of node that the classes ask for, in the order of the classes."""
    found: dict[tuple[str, str, str, bool], list[SandboxClass]] = {}
    for one in context.settings.sandbox_classes:
        if one.compute == "karpenter":
            word = wall_of(one.tier, one.kernel).word
            found.setdefault((word, one.capacity, one.architecture, one.gpu > 0), []).append(one)
    return [
        Kind("-".join(key[:2]), _machine(context, *key[:3], gpu=key[3]), tuple(classes), key[3])
        for key, classes in found.items()
    ]


def system_machine(context: EstimateContext) -> Machine:
    """The nodes of the platform itself."""
    system = context.settings.capacity.system
    return machine(system.families, context, spot_share=spot_share(system.capacity, context.taken))


def pod_resources(one: SandboxClass) -> PodResources:
    """What a sandbox of a class takes of a node, with its wall's share."""
    wall = wall_of(one.tier, one.kernel).overhead
    asked = one.resources
    return PodResources(
        asked.cpu.value + Quantity.parse(wall.get("cpu", "0")).value,
        asked.memory.value + Quantity.parse(wall.get("memory", "0")).value,
        disk_of(one),
    )


def disk_of(one: SandboxClass) -> Decimal:
    """What a sandbox of a class may take of the disk of where it runs."""
    return one.resources.ephemeral.value + (one.storage.size.value if one.storage.kind == "scratch" else 0)


def spot_share(capacity: str, taken: Assumptions) -> Decimal:
    """How much of the time nodes that are bought in a way are Spot."""
    return {"spot": Decimal(1), "on-demand": Decimal(0), "both": taken.spot_share}[capacity]


def _machine(context: EstimateContext, word: str, bought: str, architecture: str, *, gpu: bool) -> Machine:
    capacity = context.settings.capacity
    named: Sequence[str] = (
        capacity.gpu.families if gpu else capacity.nested_families if word == "kata" else capacity.families
    )
    # A whole machine is bought last, when the others cannot be had.
    shares = [one for one in named if not one.endswith(METAL)]
    share = spot_share(bought, context.taken)
    return machine(shares or named, context, spot_share=share, architecture=architecture)
