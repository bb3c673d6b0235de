"""What a tier means on a node: its wall, and the labels and taints by which only its own sandboxes get there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TIER_LABEL = "sandbox.users.io/tier"
WALL_LABEL = "sandbox.users.io/wall"
GPU_TAINT = "nvidia.com/gpu"
# The namespace of the device plugin, which announces a node's graphics processors to its kubelet.
GPU_PLUGIN = "gpu-device-plugin"
GPU_LABEL = "sandbox.users.io/gpu"
CAPACITY_LABEL = "karpenter.sh/capacity-type"
ARCHITECTURE_LABEL = "kubernetes.io/arch"

Plain = dict[str, Any]


@dataclass(frozen=True)
class Wall:
    """What stands between a sandbox and its node."""

    word: str
    tier: str
    runtime_class: str | None = None
    handler: str | None = None
    # What the wall itself takes beside the sandbox; the scheduler and quotas count it.
    overhead: Mapping[str, str] = field(default_factory=dict[str, str])


WALLS = (
    Wall("runc", "verified"),
    # Measured: a gVisor pod holds 42 MB where the same pod under runc holds 9.
    Wall("gvisor", "standard", "gvisor", "runsc", {"cpu": "20m", "memory": "48Mi"}),
    # The machine monitor and the guest's kernel.
    Wall("kata", "untrusted", "kata", "kata", {"cpu": "250m", "memory": "160Mi"}),
    # A node says how many sandboxes it can hold by this resource, and Karpenter turns on Nitro Enclaves for a node that
    # is asked for it: without it no pod would ever find a place.
    Wall(
        "nitro",
        "untrusted",
        "isolated-sandbox",
        "isolated-sandbox",
        {"cpu": "100m", "memory": "128Mi", "eks.amazonaws.com/nip-slots": "1"},
    ),
)


def wall_of(tier: str, kernel: str = "kata") -> Wall:
    """The wall of a tier; `kernel` decides for the tier that has a kernel of its own."""
    word = {"verified": "runc", "standard": "gvisor", "untrusted": kernel}[tier]
    return next(wall for wall in WALLS if wall.word == word)


def labels(wall: Wall) -> dict[str, str]:
    """The labels of a node behind whose wall sandboxes run."""
    return {TIER_LABEL: wall.tier, WALL_LABEL: wall.word}


def taints(wall: Wall, *, gpu: bool = False) -> list[Plain]:
    """What keeps everything else off such a node."""
    kept_off: list[Plain] = [{"key": TIER_LABEL, "value": wall.tier, "effect": "NoSchedule"}]
    return [*kept_off, {"key": GPU_TAINT, "value": "true", "effect": "NoSchedule"}] if gpu else kept_off


def tolerations(wall: Wall, *, gpu: bool = False) -> list[Plain]:
    """What lets its own sandboxes on, and nothing else."""
    return [{**taint, "operator": "Equal"} for taint in taints(wall, gpu=gpu)]


def runtime_class(wall: Wall) -> Plain | None:
    """The RuntimeClass of a wall, less its kind; None where containers share the node's kernel.

    It brings its pods to the nodes of its wall: one that lands elsewhere would find no such handler.
    """
    if wall.runtime_class is None:
        return None
    return {
        "metadata": {"name": wall.runtime_class},
        "handler": wall.handler,
        "overhead": {"podFixed": dict(wall.overhead)},
        "scheduling": {"nodeSelector": labels(wall), "tolerations": tolerations(wall)},
    }


def placement(wall: Wall, capacity: str, architecture: str = "any", *, gpu: bool = False) -> Plain:
    """The part of a sandbox's pod that says where it runs; `both` ways to buy nodes and `any` processor add nothing."""
    selector = labels(wall)
    if capacity != "both":
        selector[CAPACITY_LABEL] = capacity
    if architecture != "any":
        selector[ARCHITECTURE_LABEL] = architecture
    placed: Plain = {"nodeSelector": selector, "tolerations": tolerations(wall, gpu=gpu)}
    return {**placed, "runtimeClassName": wall.runtime_class} if wall.runtime_class else placed
