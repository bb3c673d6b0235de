"""What Karpenter would launch for a NodePool: its requirements and template in, node shapes out.

Pure, so that it can be laid beside Karpenter's own rules: which instance types a pool allows, which labels and taints
their nodes carry, and what pods may use of them. Simplified: prices are not known, so the smallest, newest type that
is large enough stands for the cheapest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentenv.core.nodes.tiers import GPU_TAINT as GPU
from agentenv.core.nodes.tiers import WALL_LABEL, wall_of
from agentenv.core.values.quantities import Quantity
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape

Object = dict[str, Any]

POOL, CLASS, CAPACITY = "karpenter.sh/nodepool", "karpenter.k8s.aws/ec2nodeclass", "karpenter.sh/capacity-type"
ZONE, ARCHITECTURE, TYPE = "topology.kubernetes.io/zone", "kubernetes.io/arch", "node.kubernetes.io/instance-type"
NITRO_SLOTS = tuple(name for name in wall_of("untrusted", "nitro").overhead if "/" in name)
_INSTANCE = "karpenter.k8s.aws/instance-"
_NAME = re.compile(r"(?P<family>(?P<category>[a-z]+)(?P<generation>\d+)[a-z0-9-]*)\.(?P<size>[a-z0-9-]+)")
_VM_OVERHEAD = 0.075  # of memory, for the hypervisor
_EVICTION_MI = 100
_PREFERENCE = ("spot", "on-demand")  # as Karpenter prefers them; reservations are not simulated
# What the kubelet keeps for itself of each stretch of a thousandth core
_CPU_KEPT = ((0, 1000, 0.06), (1000, 2000, 0.01), (2000, 4000, 0.005), (4000, 2**31, 0.0025))


@dataclass(frozen=True)
class InstanceType:
    """An instance type, as far as pools can ask for it."""

    name: str
    cpu: int
    memory_mi: int
    architecture: str  # amd64 or arm64
    hypervisor: str = "nitro"
    local_disk_gb: int = 0  # of NVMe
    gpus: int = 0
    gpu_maker: str = ""

    def labels(self) -> dict[str, str]:
        """What Karpenter writes on its nodes."""
        told = {
            TYPE: self.name,
            ARCHITECTURE: self.architecture,
            f"{_INSTANCE}cpu": str(self.cpu),
            f"{_INSTANCE}memory": str(self.memory_mi),
            f"{_INSTANCE}hypervisor": self.hypervisor,
        }
        if self.local_disk_gb:
            told[f"{_INSTANCE}local-nvme"] = str(self.local_disk_gb)
        if self.gpus:
            told |= {f"{_INSTANCE}gpu-count": str(self.gpus), f"{_INSTANCE}gpu-manufacturer": self.gpu_maker}
        if found := _NAME.fullmatch(self.name):
            told |= {f"{_INSTANCE}{part}": value for part, value in found.groupdict().items()}
        return told

    def allocatable(self, pods: int) -> tuple[str, str]:
        """CPU and memory that pods may use, with so many of them allowed."""
        thousandths = self.cpu * 1000
        kept = sum(int(max(0, min(thousandths, end) - start) * share) for start, end, share in _CPU_KEPT)
        real = self.memory_mi - (64 if self.architecture == "arm64" else 0)
        memory = real - math.ceil(real * _VM_OVERHEAD) - (11 * pods + 255) - _EVICTION_MI
        return f"{thousandths - kept}m", f"{max(0, memory)}Mi"


def allows(requirements: Iterable[Mapping[str, Any]], labels: Mapping[str, str]) -> bool:
    """Whether labels meet every requirement."""
    return all(_meets(row["operator"], row.get("values") or [], labels.get(row["key"])) for row in requirements)


def launch(
    pool: Object,
    types: Iterable[InstanceType],
    zones: Sequence[str],
    *,
    cpu: int = 4,
    pods: int = 110,
) -> list[NodeShape]:
    """A node in each zone that the pool allows, of the smallest type with that many cores, or of the largest there is.

    No node where no type is allowed, or where the pool's limits leave no room for it.
    """
    template = pool["spec"]["template"]
    requirements = template["spec"].get("requirements") or []
    name = pool["metadata"]["name"]
    own = {**(template.get("metadata") or {}).get("labels", {}), **_single_values(requirements), POOL: name}
    if (reference := template["spec"].get("nodeClassRef")) and reference.get("kind") == "EC2NodeClass":
        own[CLASS] = reference["name"]
    limits = pool["spec"].get("limits") or {}
    left = {key: float(Quantity.parse(str(limits[key])).value) if key in limits else math.inf for key in ("cpu", GPU)}
    candidates = sorted(types, key=_cheapness)
    shapes: list[NodeShape] = []
    for zone in zones:
        fitting = _fitting(requirements, own, candidates, zone)
        large = [found for found in fitting if found[0].cpu >= cpu] or fitting[-1:]
        if not large or large[0][0].cpu > left["cpu"] or large[0][0].gpus > left[GPU]:
            continue
        chosen, labels = large[0]
        left["cpu"] -= chosen.cpu
        left[GPU] -= chosen.gpus
        usable = chosen.allocatable(pods)
        shapes.append(
            NodeShape(
                name=f"{name}-{zone}",
                zone=zone,
                instance_type=chosen.name,
                cpu=usable[0],
                memory=usable[1],
                pods=pods,
                architecture=chosen.architecture,
                labels={**labels, "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"},
                taints=tuple(_written(row) for row in template["spec"].get("taints") or ()),
                extended=_extended(chosen, labels, pods),
            )
        )
    return shapes


def _extended(chosen: InstanceType, labels: Mapping[str, str], pods: int) -> dict[str, str]:
    """Resources that device plugins announce. The processors are there from the start, whether the plugin runs or not.

    A node for Nitro sandboxes says how many it can hold; here as many as it can hold pods.
    """
    slots = {name: str(pods) for name in NITRO_SLOTS if labels.get(WALL_LABEL) == "nitro"}
    return {**slots, GPU: str(chosen.gpus)} if chosen.gpus else slots


def _fitting(
    requirements: Sequence[Mapping[str, Any]], own: Mapping[str, str], candidates: Iterable[InstanceType], zone: str
) -> list[tuple[InstanceType, dict[str, str]]]:
    """The types that are allowed in a zone, each with the labels of a node of it."""
    found: list[tuple[InstanceType, dict[str, str]]] = []
    for one in candidates:
        for capacity in _PREFERENCE:
            labels = {**own, **one.labels(), "kubernetes.io/os": "linux", ZONE: zone, CAPACITY: capacity}
            if allows(requirements, labels):
                found.append((one, labels))
                break
    return found


def _single_values(requirements: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """A requirement with one value is a label, unless it is the instance that decides it."""
    return {
        row["key"]: row["values"][0]
        for row in requirements
        if row["operator"] == "In"
        and len(row.get("values") or []) == 1
        and not row["key"].startswith(_INSTANCE)
        and row["key"] not in {TYPE, ARCHITECTURE, ZONE, CAPACITY}
    }


def _cheapness(one: InstanceType) -> tuple[int, int, int, bool, str]:
    """Smaller is cheaper, then newer, then Graviton."""
    found = _NAME.fullmatch(one.name)
    generation = int(found["generation"]) if found else 0
    return one.cpu, one.memory_mi, -generation, one.architecture != "arm64", one.name


def _meets(operator: str, values: Sequence[str], value: str | None) -> bool:
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(values[0])
        case "Lt":
            return value is not None and int(value) < int(values[0])
        case _:
            raise ValueError(f"'{operator}' is no operator: In, NotIn, Exists, DoesNotExist, Gt and Lt are")


def _written(taint: Mapping[str, str]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"
