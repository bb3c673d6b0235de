"""The cost of nodes: allocatable resources of an instance, how many pods fit, which instance Karpenter chooses.

Reserved resources are computed as Karpenter does before it launches a node: the hypervisor's memory, the kubelet's
reservations, and the eviction thresholds. Disk is included, because many sandboxes exhaust it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

from agentenv.core.nodes.fargate_sizes import GIB
from agentenv.core.prices.book import Instance, MissingPricesError, PriceBook
from agentenv.core.prices.units import HOURS_A_MONTH, Amount, Rate

if TYPE_CHECKING:
    from agentenv.core.cost.assumptions import Assumptions
    from agentenv.core.cost.context import EstimateContext

MIB = Decimal(2**20)
# As Karpenter computes them (VM_MEMORY_OVERHEAD_PERCENT of its chart, and its kubelet reservations).
HYPERVISOR = Decimal("0.075")
GRAVITON_KEPT = 64 * MIB
KUBELET_MEMORY, KUBELET_MEMORY_A_POD = 255 * MIB, 11 * MIB
EVICTION_MEMORY, EVICTION_DISK = 100 * MIB, Decimal("0.1")
KUBELET_DISK = GIB
KUBELET_CORES = ((1, Decimal("0.06")), (1, Decimal("0.01")), (2, Decimal("0.005")), (10**6, Decimal("0.0025")))
# The requests of DaemonSets: the CNI with its policy agent, and kube-proxy. The CSI driver and the Pod Identity agent
# have no requests.
DAEMON_CORES, DAEMON_PODS = Decimal("0.15"), 4
HALF = Decimal("0.5")
PREFIX = 16  # addresses of a delegated prefix
# The minimum of a node pool's instances (`_SMALLEST` in agentenv/core/nodes/node_pools.py).
FEWEST_CORES, LEAST_MEMORY = 2, 3500 * MIB


@dataclass(frozen=True)
class PodResources:
    """Resources of pods, or the allocatable resources of a node."""

    cores: Decimal
    memory: Decimal  # bytes
    disk: Decimal  # bytes
    pods: int = 1

    def __add__(self, other: PodResources) -> PodResources:
        return PodResources(
            self.cores + other.cores, self.memory + other.memory, self.disk + other.disk, self.pods + other.pods
        )

    def times(self, number: int) -> PodResources:
        """Return the resources of a number of pods."""
        return PodResources(self.cores * number, self.memory * number, self.disk * number, self.pods * number)

    @property
    def weight(self) -> Decimal:
        """Return the weight by which the price of a node is shared: a core weighs as much as nine gigabytes."""
        return 9 * self.cores + self.memory / GIB


NOTHING = PodResources(Decimal(0), Decimal(0), Decimal(0), 0)


@dataclass(frozen=True)
class Machine:
    """The nodes of a kind: instance types, capacity type and disk."""

    instances: tuple[Instance, ...]
    spot_share: Decimal  # of the time
    root_disk: Decimal  # bytes
    most_pods: int
    book: PriceBook
    taken: Assumptions

    @property
    def bought(self) -> str:
        """Return the capacity type as text."""
        share = self.spot_share
        return "Spot" if share == 1 else f"Spot {share:%} of the time" if share else "on-demand"

    def left(self, instance: Instance) -> PodResources:
        """Return the allocatable resources of an instance."""
        memory = instance.memory * GIB - (GRAVITON_KEPT if instance.architecture == "arm64" else 0)
        usual_pods = instance.interfaces * (instance.addresses - 1) + 2
        memory -= memory * HYPERVISOR + KUBELET_MEMORY + KUBELET_MEMORY_A_POD * usual_pods + EVICTION_MEMORY
        cores, counted = Decimal(instance.vcpu) - DAEMON_CORES, 0
        for more, share in KUBELET_CORES:
            step = min(more, instance.vcpu - counted)
            cores, counted = cores - step * share, counted + step
        pods = min(self.most_pods, instance.interfaces * (instance.addresses - 1) * PREFIX + 2) - DAEMON_PODS
        return PodResources(cores, memory, self.root_disk * (1 - EVICTION_DISK) - KUBELET_DISK, pods)

    def holds(self, instance: Instance, pod: PodResources) -> int:
        """Return how many of these pods fit on an instance."""
        left = self.left(instance)
        ratios = [left.cores / pod.cores, left.memory / pod.memory] if pod.cores and pod.memory else []
        ratios += [left.disk / pod.disk] if pod.disk else []
        return max(min([left.pods, *(int(ratio) for ratio in ratios)]), 0)

    def filled(self, instance: Instance, all_of_them: PodResources) -> Decimal:
        """Return how many instances small pods fill, as a fraction."""
        left = self.left(instance)
        if min(left.cores, left.memory, left.disk, left.pods) <= 0:
            return Decimal(10**9)
        return max(
            all_of_them.cores / left.cores,
            all_of_them.memory / left.memory,
            all_of_them.disk / left.disk,
            Decimal(all_of_them.pods) / left.pods,
        )

    def needed(self, instance: Instance, all_of_them: PodResources) -> Decimal:
        """Return how many instances hold all of these pods."""
        return self.filled(instance, all_of_them).to_integral_value(rounding=ROUND_CEILING)

    def average(self, instance: Instance, all_of_them: PodResources) -> Decimal:
        """Return the average number of instances for long-lived pods that share nodes with short-lived ones.

        Nodes have the average fill, and the last one is half empty. They are never fewer than the pods need.
        """
        filled = self.filled(instance, all_of_them)
        return max(self.needed(instance, all_of_them), filled / self.taken.node_fill + HALF)

    def price(self, instance: Instance) -> Rate:
        """Return the price of an hour of an instance with its root disk."""
        spot = instance.spot or instance.on_demand.times(1 - self.taken.spot_discount)
        bought = spot.times(self.spot_share) + instance.on_demand.times(1 - self.spot_share)
        disk = self.book.rate("ebs.gp3").of(Amount(self.root_disk / GIB, "GB-month"))
        return bought + Rate(disk.value / HOURS_A_MONTH, "h")

    def for_one(self, pod: PodResources) -> Instance:
        """Return the cheapest instance that holds a pod."""
        fitting = [instance for instance in self.instances if self.holds(instance, pod) >= 1]
        if not fitting:
            raise MissingPricesError(
                f"none of the instances with prices in {self.book.region} holds a pod of that size"
            )
        return min(
            fitting, key=lambda instance: (self.price(instance).dollars, -self.holds(instance, pod), instance.name)
        )

    def for_all(
        self, all_of_them: PodResources, largest: PodResources, *, among_others: bool = False
    ) -> tuple[Instance, Decimal, Rate]:
        """Return the instance type, the number and the hourly price of all instances for pending pods.

        With `among_others` it is the average number for long-lived pods, which may be a fraction.
        """
        fitting = [instance for instance in self.instances if self.holds(instance, largest) >= 1]
        if not fitting:
            raise MissingPricesError(
                f"none of the instances with prices in {self.book.region} holds a pod of that size"
            )

        number = self.average if among_others else self.needed

        def cost(instance: Instance) -> tuple[Decimal, Decimal, str]:
            count = number(instance, all_of_them)
            return (self.price(instance).dollars * count, count, instance.name)

        best = min(fitting, key=cost)
        count = number(best, all_of_them)
        return best, count, self.price(best).times(count)


def machine(
    families: Sequence[str], context: EstimateContext, *, spot_share: Decimal, architecture: str = "any"
) -> Machine:
    """Return the machine of some instance families. Graviton instances are preferred if there are any."""
    book, capacity = context.book, context.settings.capacity
    offered = [instance for instance in book.of_families(families) if _large_enough(instance)]
    selected = (
        "arm64"
        if architecture == "any" and any(instance.architecture == "arm64" for instance in offered)
        else architecture
    )
    fitting = tuple(instance for instance in offered if selected in {"any", instance.architecture})
    if not fitting:
        raise MissingPricesError(
            f"there are no prices in {book.region} of {', '.join(families)}"
            f"{'' if architecture == 'any' else f' for {architecture}'}; `agentenv prices refresh --region "
            f"{book.region}` looks them up, or choose others of {', '.join(sorted(book.families()))}"
        )
    disk, most = capacity.root_volume.value, capacity.pods_per_node
    return Machine(fitting, spot_share, disk, most, book, context.taken)


def summed(resources: Iterable[PodResources]) -> PodResources:
    """Return the sum of resources."""
    return sum(resources, start=NOTHING)


def _large_enough(instance: Instance) -> bool:
    return instance.vcpu >= FEWEST_CORES and instance.memory * GIB > LEAST_MEMORY
