"""Which nodes there may be: a node class a tier and way of buying, and node pools of each for the processors it has.

Karpenter launches them; what is here is their specifications as plain data, for the program, policies and estimates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from model.tiers import ARCHITECTURE_LABEL, CAPACITY_LABEL, GPU_TAINT, Wall, labels, taints, wall_of

Plain = dict[str, Any]

GRAVITON = re.compile(r"[a-z]{1,3}[0-9]{1,2}g[a-z]*")
SYSTEM = "system"
POOL_LABEL = "sandbox.users.io/pool"
DISCOVERY_TAG = "karpenter.sh/discovery"
_AWS = "karpenter.k8s.aws"
# DaemonSets and the system's own share take about one core and two gigabytes: a smaller node holds little else.
_SMALLEST: list[Plain] = [
    {"key": f"{_AWS}/instance-cpu", "operator": "Gt", "values": ["1"]},
    {"key": f"{_AWS}/instance-memory", "operator": "Gt", "values": ["3500"]},
]


@dataclass(frozen=True)
class Demand:
    """What one class of sandboxes asks of nodes."""

    tier: str
    kernel: str
    capacity: str
    gpu: bool = False


@dataclass(frozen=True)
class NodeLayout:
    """How nodes are to be; times are in seconds, amounts as Kubernetes writes them."""

    families: tuple[str, ...]
    nested_families: tuple[str, ...]
    gpu_families: tuple[str, ...]
    system_families: tuple[str, ...]
    cpu_limit: str
    memory_limit: str
    system_cpu_limit: str
    system_memory_limit: str
    gpu_limit: int
    pods_per_node: int
    root_volume: str
    image: str
    consolidate_after: int
    expire_after: int
    termination_grace: int
    disruption_budget: str


@dataclass(frozen=True)
class NodeClass:
    """A kind of node: its image, disk and start."""

    name: str
    wall: Wall | None
    gpu: bool = False

    def spec(self, layout: NodeLayout, *, cluster: str, role: Any, key: Any, user_data: str | None, tags: Any) -> Plain:
        """The specification of its EC2NodeClass; role, key and tags may be known later."""
        nested = self.wall is not None and self.wall.word == "kata" and not _all_metal(layout.nested_families)
        nitro = self.wall is not None and self.wall.word == "nitro"
        discovered = [{"tags": {DISCOVERY_TAG: cluster}}]
        return {
            # AWS has no public image with the Nitro runtime: whoever builds one marks it so.
            **(
                {
                    "amiFamily": "AL2023",
                    "amiSelectorTerms": [{"owner": "self", "tags": {"sandbox.users.io/wall": "nitro"}}],
                }
                if nitro
                else {"amiSelectorTerms": [{"alias": layout.image}]}
            ),
            "role": role,
            "subnetSelectorTerms": discovered,
            "securityGroupSelectorTerms": discovered,
            "associatePublicIPAddress": False,
            "metadataOptions": {
                "httpEndpoint": "enabled",
                "httpProtocolIPv6": "disabled",
                # One hop ends at the node: a pod's request is the second.
                "httpPutResponseHopLimit": 1,
                "httpTokens": "required",
            },
            "blockDeviceMappings": [
                {
                    "deviceName": "/dev/xvda",
                    "rootVolume": True,
                    "ebs": {
                        "volumeSize": layout.root_volume,
                        "volumeType": "gp3",
                        "encrypted": True,
                        "kmsKeyID": key,
                        "deleteOnTermination": True,
                    },
                }
            ],
            # Types without local disks pass it over.
            "instanceStorePolicy": "RAID0",
            "kubelet": {"maxPods": layout.pods_per_node},
            **({"cpuOptions": {"nestedVirtualization": "enabled"}} if nested else {}),
            **({"userData": user_data} if user_data else {}),
            "tags": tags,
        }


@dataclass(frozen=True)
class NodePool:
    """Nodes of one class, bought in one way, with one kind of processor."""

    name: str
    node_class: NodeClass
    capacity: str
    architecture: str
    families: tuple[str, ...]
    weight: int

    @property
    def system(self) -> bool:
        """Whether it holds what is neither a sandbox nor on Fargate."""
        return self.node_class.wall is None

    def labels(self) -> dict[str, str]:
        """What its nodes are marked with."""
        wall = self.node_class.wall
        return {POOL_LABEL: self.name, **(labels(wall) if wall else {})}

    def taints(self) -> list[Plain]:
        """What keeps others off; nothing keeps anybody off the system's."""
        wall = self.node_class.wall
        return taints(wall, gpu=self.node_class.gpu) if wall else []

    def spec(self, layout: NodeLayout) -> Plain:
        """The specification of its NodePool."""
        template: Plain = {
            "nodeClassRef": {"group": _AWS, "kind": "EC2NodeClass", "name": self.node_class.name},
            "requirements": self._requirements(),
            "expireAfter": duration(layout.expire_after),
            # Without it a node that has expired would wait for ever for a pod that may not be disturbed.
            "terminationGracePeriod": duration(layout.termination_grace),
        }
        kept_off = self.taints()
        return {
            "weight": self.weight,
            "template": {
                "metadata": {"labels": self.labels()},
                "spec": {**template, "taints": kept_off} if kept_off else template,
            },
            "disruption": {
                # A sandbox cannot move: only a node that holds none is ever given up to save money.
                "consolidationPolicy": "WhenEmptyOrUnderutilized" if self.system else "WhenEmpty",
                "consolidateAfter": duration(layout.consolidate_after),
                "budgets": [{"nodes": layout.disruption_budget}],
            },
            "limits": self._limits(layout),
        }

    def _requirements(self) -> list[Plain]:
        return [
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
            {"key": ARCHITECTURE_LABEL, "operator": "In", "values": [self.architecture]},
            {"key": CAPACITY_LABEL, "operator": "In", "values": [self.capacity]},
            {"key": f"{_AWS}/instance-family", "operator": "In", "values": _names(self.families)},
            *_SMALLEST,
        ]

    def _limits(self, layout: NodeLayout) -> Plain:
        if self.system:
            return {"cpu": layout.system_cpu_limit, "memory": layout.system_memory_limit}
        limits: Plain = {"cpu": layout.cpu_limit, "memory": layout.memory_limit}
        return {**limits, GPU_TAINT: str(layout.gpu_limit)} if self.node_class.gpu else limits


def node_pools(layout: NodeLayout, demands: Iterable[Demand]) -> list[NodePool]:
    """The pools that classes ask for, and that of the system, in an order that does not depend on theirs."""
    wanted: set[tuple[str, str, str, bool]] = set()
    for demand in demands:
        wall = wall_of(demand.tier, demand.kernel)
        for capacity in ("spot", "on-demand") if demand.capacity == "both" else (demand.capacity,):
            wanted.add((demand.tier, wall.word, capacity, demand.gpu))
    made = _pools(SYSTEM, NodeClass(SYSTEM, None), "on-demand", layout.system_families)
    for tier, word, capacity, gpu in sorted(wanted):
        wall = wall_of(tier, word)
        # Only one tier has two walls.
        name = "-".join(part for part in (tier, word * (tier == "untrusted"), "gpu" * gpu, capacity) if part)
        families = layout.gpu_families if gpu else layout.nested_families if word == "kata" else layout.families
        made += _pools(name, NodeClass(name, wall, gpu), capacity, families)
    return made


def node_classes(pools: Iterable[NodePool]) -> list[NodeClass]:
    """The node classes of pools, each once."""
    return list({pool.node_class.name: pool.node_class for pool in pools}.values())


def duration(seconds: int) -> str:
    """A time as Karpenter takes it, in the largest units that fit it exactly."""
    parts = ((seconds // 3600, "h"), (seconds % 3600 // 60, "m"), (seconds % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def _pools(name: str, node_class: NodeClass, capacity: str, families: Sequence[str]) -> list[NodePool]:
    """A pool a kind of processor.

    Karpenter tries the pool of greater weight first: so Graviton comes before the others, and Spot before what costs
    more. Limits hold for each.
    """
    by_processor = {
        processor: tuple(family for family in families if _processor(family) == processor)
        for processor in ("arm64", "amd64")
    }
    found = {processor: some for processor, some in by_processor.items() if some}
    bought = 50 if capacity == "spot" else 10
    return [
        NodePool(
            name if len(found) == 1 else f"{name}-{processor}",
            node_class,
            capacity,
            processor,
            some,
            bought + (10 if processor == "arm64" else 0),
        )
        for processor, some in found.items()
    ]


def _processor(family: str) -> str:
    return "arm64" if GRAVITON.fullmatch(family) else "amd64"


def _names(families: Sequence[str]) -> list[str]:
    return [family.removesuffix("-metal") for family in families]


def _all_metal(families: Sequence[str]) -> bool:
    return all(family.endswith("metal") for family in families)
