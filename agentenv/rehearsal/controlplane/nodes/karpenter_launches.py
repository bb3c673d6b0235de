"""The nodes that Karpenter would launch for a NodePool, from its requirements and template.

Pure, so that it can be compared with Karpenter's own rules: which instance types a pool allows, which labels and
taints their nodes carry, and their allocatable resources. Simplified: prices are not known, so the smallest, newest
type that is large enough stands for the cheapest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentenv.core.nodes.tiers import GPU_TAINT, WALL_LABEL, wall_of
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
# The share of each range of millicores that the kubelet reserves
_CPU_RESERVED = ((0, 1000, 0.06), (1000, 2000, 0.01), (2000, 4000, 0.005), (4000, 2**31, 0.0025))


@dataclass(frozen=True)
class InstanceType:
    """An instance type, as far as pools can require its properties."""

    name: str
    cpu: int
    memory_mi: int
    architecture: str  # amd64 or arm64
    hypervisor: str = "nitro"
    local_disk_gb: int = 0  # of NVMe
    gpus: int = 0
    gpu_maker: str = ""

    def labels(self) -> dict[str, str]:
        """Return the labels that Karpenter adds to its nodes."""
        labels = {
            TYPE: self.name,
            ARCHITECTURE: self.architecture,
            f"{_INSTANCE}cpu": str(self.cpu),
            f"{_INSTANCE}memory": str(self.memory_mi),
            f"{_INSTANCE}hypervisor": self.hypervisor,
        }
        if self.local_disk_gb:
            labels[f"{_INSTANCE}local-nvme"] = str(self.local_disk_gb)
        if self.gpus:
            labels |= {f"{_INSTANCE}gpu-count": str(self.gpus), f"{_INSTANCE}gpu-manufacturer": self.gpu_maker}
        if match := _NAME.fullmatch(self.name):
            labels |= {f"{_INSTANCE}{part}": value for part, value in match.groupdict().items()}
        return labels

    def allocatable(self, pods: int) -> tuple[str, str]:
        """Return the allocatable CPU and memory of a node with that pod limit."""
        thousandths = self.cpu * 1000
        reserved = sum(int(max(0, min(thousandths, end) - start) * share) for start, end, share in _CPU_RESERVED)
        real = self.memory_mi - (64 if self.architecture == "arm64" else 0)
        memory = real - math.ceil(real * _VM_OVERHEAD) - (11 * pods + 255) - _EVICTION_MI
        return f"{thousandths - reserved}m", f"{max(0, memory)}Mi"


def allows(requirements: Iterable[Mapping[str, Any]], labels: Mapping[str, str]) -> bool:
    """Return whether labels meet every requirement."""
    return all(_meets(row["operator"], row.get("values") or [], labels.get(row["key"])) for row in requirements)


def launch(
    pool: Object,
    types: Iterable[InstanceType],
    zones: Sequence[str],
    *,
    cpu: int = 4,
    pods: int = 110,
) -> list[NodeShape]:
    """Return a node in each zone that the pool allows, of the smallest type with that many cores, else of the
    largest.

    There is no node where no type is allowed, or where the pool's limits are reached.
    """
    template = pool["spec"]["template"]
    requirements = template["spec"].get("requirements") or []
    name = pool["metadata"]["name"]
    own = {**(template.get("metadata") or {}).get("labels", {}), **_single_values(requirements), POOL: name}
    if (reference := template["spec"].get("nodeClassRef")) and reference.get("kind") == "EC2NodeClass":
        own[CLASS] = reference["name"]
    limits = pool["spec"].get("limits") or {}
    remaining = {
        key: float(Quantity.parse(str(limits[key])).value) if key in limits else math.inf for key in ("cpu", GPU_TAINT)
    }
    candidates = sorted(types, key=_price_order)
    shapes: list[NodeShape] = []
    for zone in zones:
        fitting = _allowed_types(requirements, own, candidates, zone)
        large = [candidate for candidate in fitting if candidate[0].cpu >= cpu] or fitting[-1:]
        if not large or large[0][0].cpu > remaining["cpu"] or large[0][0].gpus > remaining[GPU_TAINT]:
            continue
        chosen, labels = large[0]
        remaining["cpu"] -= chosen.cpu
        remaining[GPU_TAINT] -= chosen.gpus
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
                taints=tuple(_taint_text(row) for row in template["spec"].get("taints") or ()),
                extended=_extended_resources(chosen, labels, pods),
            )
        )
    return shapes


def _extended_resources(chosen: InstanceType, labels: Mapping[str, str], pods: int) -> dict[str, str]:
    """Return the resources that device plugins announce; GPUs from the start, whether the plugin runs or not.

    A node for Nitro sandboxes announces as many slots as it can hold pods.
    """
    slots = {name: str(pods) for name in NITRO_SLOTS if labels.get(WALL_LABEL) == "nitro"}
    return {**slots, GPU_TAINT: str(chosen.gpus)} if chosen.gpus else slots


def _allowed_types(
    requirements: Sequence[Mapping[str, Any]], own: Mapping[str, str], candidates: Iterable[InstanceType], zone: str
) -> list[tuple[InstanceType, dict[str, str]]]:
    """Return the types that are allowed in a zone, each with the labels of its node."""
    allowed: list[tuple[InstanceType, dict[str, str]]] = []
    for instance_type in candidates:
        for capacity in _PREFERENCE:
            labels = {**own, **instance_type.labels(), "kubernetes.io/os": "linux", ZONE: zone, CAPACITY: capacity}
            if allows(requirements, labels):
                allowed.append((instance_type, labels))
                break
    return allowed


def _single_values(requirements: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the requirements with one value as labels, except those that the instance determines."""
    return {
        row["key"]: row["values"][0]
        for row in requirements
        if row["operator"] == "In"
        and len(row.get("values") or []) == 1
        and not row["key"].startswith(_INSTANCE)
        and row["key"] not in {TYPE, ARCHITECTURE, ZONE, CAPACITY}
    }


def _price_order(instance_type: InstanceType) -> tuple[int, int, int, bool, str]:
    """Return a sort key: smaller is cheaper, then newer, then Graviton."""
    match = _NAME.fullmatch(instance_type.name)
    generation = int(match["generation"]) if match else 0
    return (
        instance_type.cpu,
        instance_type.memory_mi,
        -generation,
        instance_type.architecture != "arm64",
        instance_type.name,
    )


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


def _taint_text(taint: Mapping[str, str]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"
