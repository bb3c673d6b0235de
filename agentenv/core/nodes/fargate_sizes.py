"""The sizes of Fargate pods, and how requests are rounded up to them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

GIB = Decimal(2**30)
# Fargate adds this to a pod's memory for the kubelet and its own agents before it chooses a size.
OVERHEAD = Decimal(256 * 2**20)
INCLUDED_DISK, MOST_DISK = 20 * GIB, 175 * GIB


@dataclass(frozen=True)
class Size:
    """A billed size: cores, and memory in GiB."""

    cpu: Decimal
    memory: Decimal


_MEMORY: dict[str, tuple[int, ...]] = {
    "0.25": (1, 2),
    "0.5": (1, 2, 3, 4),
    "1": tuple(range(2, 9)),
    "2": tuple(range(4, 17)),
    "4": tuple(range(8, 31)),
    "8": tuple(range(16, 61, 4)),
    "16": tuple(range(32, 121, 8)),
}

SIZES = (
    Size(Decimal("0.25"), Decimal("0.5")),
    *(Size(Decimal(cpu), Decimal(memory)) for cpu, choices in _MEMORY.items() for memory in choices),
)


def size_up(cpu: Decimal, memory: Decimal) -> Size | None:
    """Return the smallest size for cores and bytes, with Fargate's overhead; None if no size is large enough."""
    needed = (memory + OVERHEAD) / GIB
    return next((size for size in SIZES if size.cpu >= cpu and size.memory >= needed), None)
