"""Isolation tiers on nodes: the wall (runtime) of a tier, and the labels and taints that reserve nodes for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TIER_LABEL = "sandbox.users.io/tier"
WALL_LABEL = "sandbox.users.io/wall"
GPU_TAINT = "nvidia.com/gpu"
# The namespace of the device plugin, which registers the GPUs of a node with its kubelet.
GPU_PLUGIN = "gpu-device-plugin"
GPU_LABEL = "sandbox.users.io/gpu"
CAPACITY_LABEL = "karpenter.sh/capacity-type"
ARCHITECTURE_LABEL = "kubernetes.io/arch"

Plain = dict[str, Any]

# Memory of a Kata pod beside its sandbox, in MiB: its guest's kernel and agent, and on the node the machine monitor,
# the file system daemon, the shim and page tables.
KATA_GUEST_MEMORY, KATA_NODE_MEMORY = 256, 96


@dataclass(frozen=True)
class Wall:
    """The isolation boundary between a sandbox and its node: the container runtime and its RuntimeClass."""

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
    # All of it is in the cgroup of the pod, whose memory limit is that of its containers and this.
    Wall(
        "kata",
        "untrusted",
        "kata",
        "kata",
        {"cpu": "250m", "memory": f"{KATA_GUEST_MEMORY + KATA_NODE_MEMORY}Mi"},
    ),
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
    """Return the wall of a tier; for `untrusted` it depends on the kernel."""
    word = {"verified": "runc", "standard": "gvisor", "untrusted": kernel}[tier]
    return next(wall for wall in WALLS if wall.word == word)


def labels(wall: Wall) -> dict[str, str]:
    """Return the labels of nodes with a wall."""
    return {TIER_LABEL: wall.tier, WALL_LABEL: wall.word}


def taints(wall: Wall, *, gpu: bool = False) -> list[Plain]:
    """Return the taints of nodes with a wall."""
    kept_off: list[Plain] = [{"key": TIER_LABEL, "value": wall.tier, "effect": "NoSchedule"}]
    return [*kept_off, {"key": GPU_TAINT, "value": "true", "effect": "NoSchedule"}] if gpu else kept_off


def tolerations(wall: Wall, *, gpu: bool = False) -> list[Plain]:
    """Return the tolerations of sandboxes with a wall."""
    return [{**taint, "operator": "Equal"} for taint in taints(wall, gpu=gpu)]


def runtime_class(wall: Wall) -> Plain | None:
    """Return the RuntimeClass of a wall without its kind; None if containers share the node's kernel.

    Its scheduling section places pods on nodes with this handler.
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
    """Return the scheduling part of a pod spec: node selector, tolerations and runtime class."""
    selector = labels(wall)
    if capacity != "both":
        selector[CAPACITY_LABEL] = capacity
    if architecture != "any":
        selector[ARCHITECTURE_LABEL] = architecture
    placed: Plain = {"nodeSelector": selector, "tolerations": tolerations(wall, gpu=gpu)}
    return {**placed, "runtimeClassName": wall.runtime_class} if wall.runtime_class else placed
