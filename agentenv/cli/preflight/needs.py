"""Compute from the settings what a stack needs of an account: cores, profiles, access points, gateways."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import ceil

from agentenv.config import Settings
from agentenv.config.sections.classes import SandboxClass
from agentenv.core.classes.pools.sizes import max_sandboxes, max_volumes
from agentenv.core.classes.sizes import largest_size, sizes_of
from agentenv.core.nodes.fargate_sizes import size_up
from agentenv.core.nodes.node_pools import METAL, NodePool, demands, node_pools, processor
from agentenv.core.nodes.tiers import wall_of
from agentenv.core.service.home_metering import home_folders
from agentenv.core.values.quantities import Quantity

# A node has at least two cores, and its daemons use about one of them.
NODE_CORES, NODE_SHARE = 2, Decimal(1)
# The smallest GPU instances have four cores for each GPU.
CORES_A_GPU = 4
# Two nodes: one for the storage driver, the metrics server and kube-state-metrics, and a spare one.
SYSTEM_CORES = 4
# On Fargate in every environment: two replicas each of CoreDNS, Karpenter and the agent-sandbox controller.
CONTROLLER_CORES = Decimal("2.0")
CONTROLLER_PROFILES = 3

# Prefixes of instance families whose cores EC2 counts together; the first match decides.
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
    """Cores of one group of instance families, with one purchase option."""

    group: str
    capacity: str
    amount: int
    basis: str


def group_of(family: str) -> str:
    """Return the group of a family: EC2 counts the cores of a group together."""
    return next((group for prefix, group in GROUPS if family.startswith(prefix)), STANDARD)


def pools_of(settings: Settings) -> list[NodePool]:
    """Return the node pools of the settings."""
    return node_pools(settings.capacity, demands(settings))


def _node_classes(settings: Settings) -> list[SandboxClass]:
    """Return the classes that run on nodes."""
    return [row for row in settings.sandbox_classes if row.compute == "karpenter"]


def node_cores(settings: Settings) -> list[Cores]:
    """Return the most cores that nodes need, by group of families and purchase option.

    A class with both Spot and on-demand counts fully for each, because Spot may be unavailable.
    """
    system_nodes = settings.capacity.system
    totals: dict[tuple[str, str], tuple[int, list[str]]] = {}

    def add(families: tuple[str, ...], capacity: str, cores: int, basis: str) -> None:
        total, bases = totals.get((group_of(families[0]), capacity), (0, []))
        totals[group_of(families[0]), capacity] = (total + cores, [*bases, basis])

    system = "on-demand" if system_nodes.capacity == "on-demand" else "spot"
    add(system_nodes.families, system, min(SYSTEM_CORES, int(system_nodes.limits.cpu.value)), "two system nodes")
    headroom = settings.capacity.headroom
    for (capacity, families, limit), classes in _by_capacity(settings).items():
        requested = sum((_cores(row) for row in classes), Decimal(0)) + headroom.pods * headroom.cpu.value
        pods = sum(max_sandboxes(row) for row in classes) + headroom.pods
        nodes = max(1, ceil(Decimal(pods) / settings.capacity.pods_per_node))
        cores = ceil((requested + nodes * NODE_SHARE) / NODE_CORES) * NODE_CORES
        basis = ", ".join(f"{max_sandboxes(row)} of {row.name}" for row in classes)
        add(families, capacity, min(cores, limit), basis + (f", {headroom.pods} of headroom" if headroom.pods else ""))
    return [Cores(group, capacity, cores, "; ".join(bases)) for (group, capacity), (cores, bases) in totals.items()]


def _by_capacity(settings: Settings) -> dict[tuple[str, tuple[str, ...], int], list[SandboxClass]]:
    """Return the classes by purchase option, instance families, and the CPU limit of their pools."""
    capacity_settings = settings.capacity
    kinds: dict[tuple[str, tuple[str, ...], int], list[SandboxClass]] = {}
    for row in _node_classes(settings):
        word = wall_of(row.tier, row.kernel).word
        nested = capacity_settings.nested_families if word == "kata" else capacity_settings.families
        families = capacity_settings.gpu.families if row.gpu else nested
        pools = len({(processor(family), family.endswith(METAL)) for family in families})
        for capacity in ("spot", "on-demand") if row.capacity == "both" else (row.capacity,):
            kinds.setdefault((capacity, families, pools * int(capacity_settings.limits.cpu.value)), []).append(row)
    return kinds


def _cores(row: SandboxClass) -> Decimal:
    """Return the cores that all sandboxes of a class request in its largest size, with their runtime's overhead."""
    overhead = Quantity.parse(wall_of(row.tier, row.kernel).overhead.get("cpu", "0")).value
    largest = sizes_of(row)[largest_size(row)]
    each = max(largest.cpu.value + overhead, Decimal(row.gpu * CORES_A_GPU))
    return each * max_sandboxes(row)


def fargate_cores(settings: Settings) -> int:
    """Return the most cores on Fargate."""
    cores = CONTROLLER_CORES
    for row in settings.sandbox_classes:
        if row.compute == "fargate" and (size := size_up(row.resources.cpu.value, row.resources.memory.value)):
            cores += size.cpu * max_sandboxes(row)
    return ceil(cores)


def fargate_profiles(settings: Settings) -> int:
    """Return the number of Fargate profiles: one for each controller and each class on Fargate.

    An existing cluster has its own CoreDNS.
    """
    controllers = CONTROLLER_PROFILES - (settings.cluster.existing is not None)
    return controllers + sum(row.compute == "fargate" for row in settings.sandbox_classes)


def access_points(settings: Settings) -> int:
    """Return the access points of the fullest file system: homes are spread evenly, and metering adds its own."""
    volumes = sum(max_volumes(row) for row in settings.sandbox_classes)
    metering = sum(folder.shard == 0 for folder in home_folders(settings))
    return ceil((volumes + len(settings.workspaces)) / settings.storage.file_systems) + metering


def nat_gateways(settings: Settings) -> int:
    """Return the number of NAT gateways, each with an Elastic IP address."""
    network = settings.network
    if network.existing is not None or network.nat == "none":
        return 0
    return network.zone_count if network.nat == "per-zone" else 1


def instance_families(pools: list[NodePool]) -> Iterator[str]:
    """Yield every instance family of the pools, once."""
    yield from dict.fromkeys(family for pool in pools for family in pool.families)
