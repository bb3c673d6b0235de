"""Constraints on the sizes of a class: what can be resized in place, and in which order they are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Constraint, Finding
from agentenv.core.nodes.tiers import wall_of

if TYPE_CHECKING:
    from decimal import Decimal

    from agentenv.config.mistakes import Place
    from agentenv.config.sections.classes import Resources, SandboxClass, Size
    from agentenv.config.settings import Settings


def declared_sizes(sandbox_class: SandboxClass) -> Iterator[tuple[Place, Resources | Size]]:
    """Yield the settings of each size of a class with their keys, the smallest first."""
    yield ("resources",), sandbox_class.resources
    for name in ("medium", "large"):
        size: Size | None = getattr(sandbox_class.sizes, name)
        if size is not None:
            yield ("sizes", name), size


def _on_fargate(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class, names in _with_sizes(settings):
        if sandbox_class.compute == "fargate":
            yield Finding((*place, "sizes"), _and(names), also=((*place, "compute"),))


def _of_kata(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class, names in _with_sizes(settings):
        if sandbox_class.compute == "karpenter" and wall_of(sandbox_class.tier, sandbox_class.kernel).word == "kata":
            also = ((*place, "tier"), (*place, "kernel"), (*place, "compute"))
            yield Finding((*place, "sizes"), _and(names), also=also)


def _with_sizes(settings: Settings) -> Iterator[tuple[Place, SandboxClass, list[str]]]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        names = [str(keys[-1]) for keys, _ in declared_sizes(sandbox_class)][1:]
        if names:
            yield ("sandboxClasses", index), sandbox_class, names


def _order(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index)
        for (smaller_keys, smaller), (keys, size) in pairwise(declared_sizes(sandbox_class)):
            amounts, before = _amounts(size), _amounts(smaller)
            less = [name for name in amounts if amounts[name] < before[name]]
            if less or amounts == before:
                found = f"{_and(less)} below {'.'.join(map(str, smaller_keys))}" if less else "no larger"
                yield Finding((*place, *keys), found, also=((*place, *smaller_keys),))


def _qos(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index)
        (_, own), *larger = declared_sizes(sandbox_class)
        for keys, size in larger:
            if _guaranteed(size) != _guaranteed(own):
                found = "no burst" if _guaranteed(size) else "a burst"
                yield Finding((*place, *keys, "burst"), found, also=((*place, "resources"),))


def _amounts(size: Resources | Size) -> dict[str, Decimal]:
    return {
        "cpu": size.cpu.value,
        "memory": size.memory.value,
        "burst.cpu": (size.burst.cpu or size.cpu).value,
        "burst.memory": (size.burst.memory or size.memory).value,
    }


def _guaranteed(size: Resources | Size) -> bool:
    """Return whether its limits are its requests, which is the QoS class Guaranteed."""
    amounts = _amounts(size)
    return amounts["cpu"] == amounts["burst.cpu"] and amounts["memory"] == amounts["burst.memory"]


def _and(names: list[str]) -> str:
    return " and ".join(names)


CONSTRAINTS = (
    Constraint(
        "sizes-on-fargate",
        "Fargate does not resize pods",
        "no sizes on Fargate",
        "declare another class for larger sandboxes, or set compute: karpenter",
        _on_fargate,
    ),
    Constraint(
        "sizes-of-kata",
        "a virtual machine has its memory from its start, so Kata does not resize running pods",
        "no sizes with kernel: kata",
        "declare another class for larger sandboxes, or set another tier",
        _of_kata,
    ),
    Constraint(
        "sizes-out-of-order",
        "a sandbox grows to the next size near its memory limit, which must not take anything away",
        "requests and limits of at least the size before, and one above it",
        "raise it, and its burst, or remove the size",
        _order,
    ),
    Constraint(
        "sizes-of-two-qos-classes",
        "Kubernetes does not change the QoS class of a running pod",
        "a burst above the requests in all sizes of a class, or in none",
        "give each size a burst above its requests, or none",
        _qos,
    ),
)
