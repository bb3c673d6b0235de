"""Kinds of node: which sandboxes share nodes, what those nodes are bought from, and what each sandbox takes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from model.cost.nodes import Machine, Room, machine
from model.node_pools import METAL
from model.quantities import Quantity
from model.tiers import wall_of

if TYPE_CHECKING:
    from model.cost.assumptions import Assumptions
    from model.prices.book import PriceBook
    from model.settings.classes import SandboxClass
    from model.settings.whole import Settings

ON_DEMAND, SPOT = Decimal(0), Decimal(1)


@dataclass(frozen=True)
class Kind:
    """One kind of node, and the classes whose sandboxes run there."""

    name: str
    machine: Machine
    classes: tuple[SandboxClass, ...]
    gpu: bool

    @property
    def bought(self) -> str:
        """How it is bought, in a word."""
        share = self.machine.spot_share
        return "Spot" if share == SPOT else "on-demand" if share == ON_DEMAND else f"Spot {share:%} of the time"


def kinds(settings: Settings, book: PriceBook, taken: Assumptions) -> list[Kind]:
    """The kinds of node that the classes ask for, in the order of the classes."""
    found: dict[tuple[str, str, str, str, bool], list[SandboxClass]] = {}
    for one in settings.sandbox_classes:
        if one.compute == "karpenter":
            word = wall_of(one.tier, one.kernel).word
            found.setdefault((one.tier, word, one.capacity, one.architecture, one.gpu > 0), []).append(one)
    return [
        Kind("-".join(key[1:3]), _machine(settings, book, taken, key), tuple(classes), key[4])
        for key, classes in found.items()
    ]


def system_machine(settings: Settings, book: PriceBook, taken: Assumptions) -> Machine:
    """The nodes of the platform itself."""
    system = settings.capacity.system
    return machine(
        system.families,
        book,
        spot_share=spot_share(system.capacity, taken),
        root_disk=settings.capacity.root_volume.value,
        most_pods=settings.capacity.pods_per_node,
    )


def room_of(one: SandboxClass) -> Room:
    """What a sandbox of a class takes of a node, with its wall's share."""
    wall = wall_of(one.tier, one.kernel).overhead
    asked = one.resources
    disk = asked.ephemeral.value + (one.storage.size.value if one.storage.kind == "scratch" else 0)
    return Room(
        asked.cpu.value + Quantity.parse(wall.get("cpu", "0")).value,
        asked.memory.value + Quantity.parse(wall.get("memory", "0")).value,
        disk,
    )


def spot_share(capacity: str, taken: Assumptions) -> Decimal:
    """How much of the time nodes that are bought in a way are Spot."""
    return {"spot": SPOT, "on-demand": ON_DEMAND, "both": taken.spot_share}[capacity]


def _machine(
    settings: Settings, book: PriceBook, taken: Assumptions, key: tuple[str, str, str, str, bool]
) -> Machine:
    capacity = settings.capacity
    _, word, bought, architecture, gpu = key
    named: Sequence[str] = (
        capacity.gpu.families if gpu else capacity.nested_families if word == "kata" else capacity.families
    )
    # A whole machine is bought last, when the others cannot be had.
    shares = [one for one in named if not one.endswith(METAL)]
    return machine(
        shares or named,
        book,
        spot_share=spot_share(bought, taken),
        root_disk=capacity.root_volume.value,
        most_pods=capacity.pods_per_node,
        architecture=architecture,
    )
