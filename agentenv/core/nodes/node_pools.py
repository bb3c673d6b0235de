"""Karpenter node classes and node pools as plain data, for the program, policies and estimates.

There is a node class for each tier and runtime, and a node pool for each capacity type and architecture.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from agentenv.core.nodes.tiers import (
    ARCHITECTURE_LABEL,
    CAPACITY_LABEL,
    GPU_LABEL,
    GPU_TAINT,
    Wall,
    labels,
    taints,
    wall_of,
)
from agentenv.core.pinned_versions import releases

if TYPE_CHECKING:
    from agentenv.config.sections.capacity import Capacity, Limits
    from agentenv.config.sections.classes import SandboxClass
    from agentenv.config.settings import Settings

Plain = dict[str, Any]

GRAVITON = re.compile(r"[a-z]{1,3}[0-9]{1,2}g[a-z]*")
# A `d` behind the generation says so, and some families have them without saying it.
LOCAL_DISK = re.compile(
    r"[a-z]{1,3}[0-9]{1,2}[a-z]*d[a-z]*"
    r"|(i[3-9]|im[4-9]|is[4-9]|d[3-9]|f[12]|g[6-9]|gr6|p[56]|trn[12])[a-z]*(-b[0-9]+)?|g5"
)
SYSTEM = "system"
POOL_LABEL = "sandbox.users.io/pool"
DISCOVERY_TAG = "karpenter.sh/discovery"
METAL = "-metal"
_AWS = "karpenter.k8s.aws"
# DaemonSets and the system's own share take about one core and two gigabytes: a smaller node holds little else.
_SMALLEST: list[Plain] = [
    {"key": f"{_AWS}/instance-cpu", "operator": "Gt", "values": ["1"]},
    {"key": f"{_AWS}/instance-memory", "operator": "Gt", "values": ["3500"]},
]


@dataclass(frozen=True)
class Demand:
    """The requirements of a sandbox class for nodes."""

    tier: str
    kernel: str
    capacity: str
    gpu: bool = False


def demands(settings: Settings) -> list[Demand]:
    """Return the demands of the classes that run on nodes."""
    return [
        Demand(sandbox_class.tier, sandbox_class.kernel, sandbox_class.capacity, sandbox_class.gpu > 0)
        for sandbox_class in settings.sandbox_classes
        if sandbox_class.compute == "karpenter"
    ]


@dataclass(frozen=True)
class NodeClass:
    """A node class: image, disk and user data."""

    name: str
    wall: Wall | None
    gpu: bool = False
    # Whether its instances are bare metal: these run guests without nested virtualization, and refuse that option.
    metal: bool = False

    @property
    def nested(self) -> bool:
        """Return whether nested virtualization is enabled on its instances."""
        return self.wall is not None and self.wall.word == "kata" and not self.metal

    def spec(self, settings: Capacity, *, cluster: str, identity: Plain, key: Any, user_data: Any, tags: Any) -> Plain:
        """Return the spec of the EC2NodeClass; but for `settings`, arguments may be outputs."""
        nitro = self.wall is not None and self.wall.word == "nitro"
        discovered = [{"tags": {DISCOVERY_TAG: cluster}}]
        return {
            **(
                {"amiFamily": "AL2023", "amiSelectorTerms": [{"id": image} for image in settings.nitro_images]}
                if nitro
                else {"amiSelectorTerms": [{"alias": node_image(settings)}]}
            ),
            **identity,
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
                        "volumeSize": str(settings.root_volume),
                        "volumeType": "gp3",
                        "encrypted": True,
                        "kmsKeyID": key,
                        "deleteOnTermination": True,
                    },
                }
            ],
            # Types without local disks pass it over.
            "instanceStorePolicy": "RAID0",
            "kubelet": {"maxPods": settings.pods_per_node},
            **({"cpuOptions": {"nestedVirtualization": "enabled"}} if self.nested else {}),
            "userData": user_data,
            "tags": tags,
        }


@dataclass(frozen=True)
class NodePool:
    """A node pool: nodes of a node class with a capacity type and an architecture."""

    name: str
    node_class: NodeClass
    capacity: str
    architecture: str
    families: tuple[str, ...]
    weight: int

    @property
    def system(self) -> bool:
        """Return whether it is a system node pool."""
        return self.node_class.wall is None

    def labels(self) -> dict[str, str]:
        """Return the labels of its nodes."""
        wall = self.node_class.wall
        labels_ = {POOL_LABEL: self.name, **(labels(wall) if wall else {})}
        return {**labels_, GPU_LABEL: "true"} if self.node_class.gpu else labels_

    def taints(self) -> list[Plain]:
        """Return the taints of its nodes; system nodes have none."""
        wall = self.node_class.wall
        return taints(wall, gpu=self.node_class.gpu) if wall else []

    def spec(self, settings: Capacity) -> Plain:
        """Return the spec of the NodePool."""
        template: Plain = {
            "nodeClassRef": {"group": _AWS, "kind": "EC2NodeClass", "name": self.node_class.name},
            "requirements": self._requirements(),
            "expireAfter": duration(settings.expire_after),
            # Without it an expired node would wait for ever for a pod that may not be disrupted.
            "terminationGracePeriod": duration(settings.termination_grace),
        }
        taints_ = self.taints()
        return {
            "weight": self.weight,
            "template": {
                "metadata": {"labels": self.labels()},
                "spec": {**template, "taints": taints_} if taints_ else template,
            },
            "disruption": {
                # A claimed sandbox is marked do-not-disrupt and keeps its node; a slot is created again elsewhere.
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": duration(settings.consolidate_after),
                "budgets": self._budgets(settings),
            },
            "limits": self._limits(settings),
        }

    def _budgets(self, settings: Capacity) -> list[Plain]:
        everything: Plain = {"nodes": settings.disruption_budget}
        # A drifted node is replaced like an expired one: after its termination grace all pods end, do-not-disrupt or
        # not.
        # So drift has a budget of its own for sandbox nodes.
        return [everything] if self.system else [everything, {"nodes": settings.drift_budget, "reasons": ["Drifted"]}]

    def _requirements(self) -> list[Plain]:
        return [
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
            {"key": ARCHITECTURE_LABEL, "operator": "In", "values": [self.architecture]},
            {"key": CAPACITY_LABEL, "operator": "In", "values": [self.capacity]},
            {"key": f"{_AWS}/instance-family", "operator": "In", "values": _names(self.families)},
            *_SMALLEST,
            *self._machines(),
        ]

    def _machines(self) -> list[Plain]:
        """Return further requirements of instances, such as bare metal; a family has metal and virtual instances."""
        requirements: list[Plain] = []
        if self.node_class.metal:
            # A whole machine has no hypervisor, which Karpenter writes as a label without a value.
            requirements.append({"key": f"{_AWS}/instance-hypervisor", "operator": "NotIn", "values": ["nitro", "xen"]})
        elif self.node_class.nested:
            requirements.append({"key": f"{_AWS}/instance-hypervisor", "operator": "In", "values": ["nitro"]})
        if self.node_class.gpu:
            requirements.append({"key": f"{_AWS}/instance-gpu-manufacturer", "operator": "In", "values": ["nvidia"]})
        return requirements

    def _limits(self, settings: Capacity) -> Plain:
        if self.system:
            return _amounts(settings.system.limits)
        limits = _amounts(settings.limits)
        return {**limits, GPU_TAINT: str(settings.gpu.limit)} if self.node_class.gpu else limits


def node_pools(settings: Capacity, demands: Iterable[Demand]) -> list[NodePool]:
    """Return the node pools of classes and of the system, in an order independent of the order of classes."""
    selected: set[tuple[str, str, str, bool]] = set()
    for demand in demands:
        wall = wall_of(demand.tier, demand.kernel)
        for capacity in _capacity_types(demand.capacity):
            selected.add((demand.tier, wall.word, capacity, demand.gpu))
    pools = [pool for bought in _capacity_types(settings.system.capacity) for pool in _system_pools(settings, bought)]
    for tier, word, capacity, gpu in sorted(selected):
        # Only one tier has two walls.
        words = (tier, word * (tier == "untrusted"), "gpu" * gpu)
        families = settings.gpu.families if gpu else settings.nested_families if word == "kata" else settings.families
        pools += _pools(words, wall_of(tier, word), capacity, families, gpu=gpu)
    return pools


def node_classes(pools: Iterable[NodePool]) -> list[NodeClass]:
    """Return the distinct node classes of node pools."""
    return list({pool.node_class.name: pool.node_class for pool in pools}.values())


def node_image(settings: Capacity) -> str:
    """Return the release of the node image: the configured or the pinned one."""
    return settings.ami or releases().node_image


def duration(time: timedelta) -> str:
    """Return a duration as Karpenter formats it, in the largest exact units."""
    seconds = int(time.total_seconds())
    parts = ((seconds // 3600, "h"), (seconds % 3600 // 60, "m"), (seconds % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


# What EC2 calls the CPU architectures of Kubernetes.
EC2_ARCHITECTURES = {"arm64": "arm64", "amd64": "x86_64"}


def processor(family: str) -> str:
    """Return the CPU architecture of an instance family, as in Kubernetes."""
    return "arm64" if GRAVITON.fullmatch(family.removesuffix(METAL)) else "amd64"


def families_of(sandbox_class: SandboxClass, settings: Capacity) -> tuple[str, ...]:
    """Return the instance families of the nodes of a class."""
    if sandbox_class.gpu:
        return settings.gpu.families
    nested = sandbox_class.tier == "untrusted" and sandbox_class.kernel == "kata"
    return settings.nested_families if nested else settings.families


def architecture_of(sandbox_class: SandboxClass, settings: Capacity) -> str:
    """Return the architecture of the nodes of a class: what is installed in a home runs on one only.

    `any` stays for classes whose sandboxes start empty. Otherwise it is that of Graviton where a family has it.
    """
    lasting = sandbox_class.storage.kind in {"slot", "shared"} and sandbox_class.compute != "fargate"
    if sandbox_class.architecture != "any" or not lasting:
        return sandbox_class.architecture
    return min(map(processor, families_of(sandbox_class, settings)), key=lambda name: name != "arm64")


def has_local_disk(family: str) -> bool:
    """Return whether the instances of a family have local disks."""
    return LOCAL_DISK.fullmatch(family.removesuffix(METAL)) is not None


def _capacity_types(capacity: str) -> tuple[str, ...]:
    return ("spot", "on-demand") if capacity == "both" else (capacity,)


def _system_pools(settings: Capacity, capacity: str) -> list[NodePool]:
    """Return the system node pools; the on-demand ones have no suffix."""
    words = (SYSTEM,) if capacity == "on-demand" else (SYSTEM, capacity)
    return _pools(words, None, capacity, settings.system.families)


def _pools(
    words: Sequence[str], wall: Wall | None, capacity: str, families: Sequence[str], *, gpu: bool = False
) -> list[NodePool]:
    """A pool a kind of processor, and others for whole machines, which are not of the same class.

    Each is named by its processor even where it is the only one: a family that is added later renames no pool, which
    would drain its nodes. Karpenter tries the pool of greater weight first: so Graviton comes before the others, Spot
    before what costs more, and a whole machine last. Limits hold for each.
    """
    pools: list[NodePool] = []
    for metal in (False, True):
        bought = "" if wall is None else capacity
        name = "-".join(part for part in (*words, "metal" * metal, bought) if part)
        node_class = NodeClass(name, wall, gpu, metal)
        first = (1 if metal else 10) if capacity == "on-demand" else (3 if metal else 50)
        for kind, more in (("arm64", 1 if metal else 10), ("amd64", 0)):
            selected = tuple(
                family for family in families if processor(family) == kind and family.endswith(METAL) == metal
            )
            if selected:
                pools.append(NodePool(f"{name}-{kind}", node_class, capacity, kind, selected, first + more))
    return pools


def _amounts(limits: Limits) -> Plain:
    return {"cpu": str(limits.cpu), "memory": str(limits.memory)}


def _names(families: Sequence[str]) -> list[str]:
    return [family.removesuffix(METAL) for family in families]
