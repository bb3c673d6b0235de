"""What the settings of a stack need of an account, as numbers: pure functions, and the reckoning in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import ceil

from agentenv.config import Settings
from agentenv.config.sections.classes import SandboxClass
from agentenv.core.classes.pools.sizes import max_sandboxes, max_volumes
from agentenv.core.nodes.fargate_sizes import size_up
from agentenv.core.nodes.from_settings import demands, node_layout
from agentenv.core.nodes.node_pools import METAL, NodeLayout, NodePool, node_pools, processor
from agentenv.core.nodes.tiers import wall_of
from agentenv.core.service.home_metering import home_folders
from agentenv.core.values.quantities import Quantity

# A node has two cores at the least, and its daemons take about one of them.
NODE_CORES, NODE_SHARE = 2, Decimal(1)
# The smallest instances with a graphics processor have four cores for each.
CORES_A_GPU = 4
# Two nodes: for the storage driver, the metrics server and kube-state-metrics, and one to move to.
SYSTEM_CORES = 4
# What is on Fargate in every environment, in cores: CoreDNS, Karpenter and the agent-sandbox controller, two of each.
CONTROLLER_CORES = Decimal("2.0")
CONTROLLER_PROFILES = 3

# Words that instance families begin with, as EC2 counts their cores together; the first that fits decides.
GROUPS = (
    ("inf", "Inf"),
    ("trn", "Trn"),
    ("hpc", "HPC"),
    ("dl", "DL"),
    ("vt", "G and VT"),
    ("u-", "High Memory"),
    ("u7", "High Memory"),
    ("f", "F"),
    ("g", "G and VT"),
    ("p", "P"),
    ("x", "X"),
)
STANDARD = "Standard (A, C, D, H, I, M, R, T, Z)"


@dataclass(frozen=True)
class Cores:
    """Cores of one kind of instance, bought in one way."""

    group: str
    capacity: str
    amount: int
    reckoned: str


def group_of(family: str) -> str:
    """The instances whose cores EC2 counts together with those of a family."""
    return next((group for word, group in GROUPS if family.startswith(word)), STANDARD)


def pools_of(settings: Settings) -> list[NodePool]:
    """The node pools that the settings make."""
    return node_pools(node_layout(settings.capacity), demands(settings))


def on_nodes(settings: Settings) -> list[SandboxClass]:
    """The classes that run on nodes."""
    return [one for one in settings.sandbox_classes if one.compute == "karpenter"]


def node_cores(settings: Settings) -> list[Cores]:
    """The cores that nodes need at the most, by what EC2 counts together and by how they are bought.

    Where a class takes both Spot and on-demand, each has to be able to hold it all: Spot may be gone.
    """
    layout = node_layout(settings.capacity)
    found: dict[tuple[str, str], tuple[int, list[str]]] = {}

    def add(families: tuple[str, ...], capacity: str, cores: int, words: str) -> None:
        before, said = found.get((group_of(families[0]), capacity), (0, []))
        found[group_of(families[0]), capacity] = (before + cores, [*said, words])

    bought = "on-demand" if layout.system_capacity == "on-demand" else "spot"
    add(layout.system_families, bought, min(SYSTEM_CORES, _whole(layout.system_cpu_limit)), "two system nodes")
    for (capacity, families, limit), classes in _kinds(settings, layout).items():
        asked = sum((_cores(one) for one in classes), Decimal(0))
        room = settings.capacity.headroom
        asked += room.pods * room.cpu.value
        pods = sum(max_sandboxes(one) for one in classes) + room.pods
        nodes = max(1, ceil(Decimal(pods) / settings.capacity.pods_per_node))
        cores = ceil((asked + nodes * NODE_SHARE) / NODE_CORES) * NODE_CORES
        names = ", ".join(f"{max_sandboxes(one)} of {one.name}" for one in classes)
        add(families, capacity, min(cores, limit), names + (f", {room.pods} kept free" if room.pods else ""))
    return [Cores(group, capacity, cores, "; ".join(said)) for (group, capacity), (cores, said) in found.items()]


def _kinds(settings: Settings, layout: NodeLayout) -> dict[tuple[str, tuple[str, ...], int], list[SandboxClass]]:
    """Classes by the way their nodes are bought, the families of those, and the most that their pools may have."""
    kinds: dict[tuple[str, tuple[str, ...], int], list[SandboxClass]] = {}
    for one in on_nodes(settings):
        word = wall_of(one.tier, one.kernel).word
        nested = layout.nested_families if word == "kata" else layout.families
        families = layout.gpu_families if one.gpu else nested
        pools = len({(processor(family), family.endswith(METAL)) for family in families})
        for capacity in ("spot", "on-demand") if one.capacity == "both" else (one.capacity,):
            kinds.setdefault((capacity, families, pools * _whole(layout.cpu_limit)), []).append(one)
    return kinds


def _cores(one: SandboxClass) -> Decimal:
    """What all sandboxes of a class ask of nodes, with what their wall takes."""
    wall = Quantity.parse(wall_of(one.tier, one.kernel).overhead.get("cpu", "0")).value
    each = max(one.resources.cpu.value + wall, Decimal(one.gpu * CORES_A_GPU))
    return each * max_sandboxes(one)


def _whole(amount: str) -> int:
    return int(Quantity.parse(amount).value)


def fargate_cores(settings: Settings) -> int:
    """The cores of everything on Fargate at once."""
    cores = CONTROLLER_CORES
    for one in settings.sandbox_classes:
        if one.compute == "fargate" and (size := size_up(one.resources.cpu.value, one.resources.memory.value)):
            cores += size.cpu * max_sandboxes(one)
    return ceil(cores)


def fargate_profiles(settings: Settings) -> int:
    """The profiles: one for each controller, and one for each class on Fargate. An existing cluster has its CoreDNS."""
    controllers = CONTROLLER_PROFILES - (settings.cluster.existing is not None)
    return controllers + sum(one.compute == "fargate" for one in settings.sandbox_classes)


def access_points(settings: Settings) -> int:
    """The access points of the file system that has most of them: homes are spread evenly, and looked at by further
    ones.
    """
    volumes = sum(max_volumes(one) for one in settings.sandbox_classes)
    looked_at = sum(one.shard == 0 for one in home_folders(settings))
    return ceil((volumes + len(settings.workspaces)) / settings.storage.file_systems) + looked_at


def gateways(settings: Settings) -> int:
    """The NAT gateways, each with an address of its own."""
    network = settings.network
    if network.existing is not None or network.nat == "none":
        return 0
    return network.zone_count if network.nat == "per-zone" else 1


def families(pools: list[NodePool]) -> Iterator[str]:
    """Every instance family of the pools, once."""
    yield from dict.fromkeys(family for pool in pools for family in pool.families)
