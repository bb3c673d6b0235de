"""The cost of sandboxes: an hour of each, warm pools, headroom and seats.

Warm sandboxes are a fixed cost: at least whole nodes, filled like an average node. Users add their hours, at the price
of a sandbox's share of a node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from agentenv.core.cost.lines import Part, plain
from agentenv.core.cost.network import images
from agentenv.core.cost.node_kinds import Kind, disk_of, pod_resources
from agentenv.core.cost.nodes import PodResources, summed
from agentenv.core.cost.pool_week import Stretch, average_size, stretches
from agentenv.core.nodes.fargate_sizes import GIB, INCLUDED_DISK, Size, size_up
from agentenv.core.prices.book import MissingPricesError
from agentenv.core.prices.units import HOURS_A_MONTH, Amount, Dollars, Rate

if TYPE_CHECKING:
    from agentenv.config.sections.classes import SandboxClass
    from agentenv.config.settings import Settings
    from agentenv.core.cost.context import EstimateContext
    from agentenv.core.prices.book import Instance, PriceBook

HEADROOM = "room kept free"


@dataclass(frozen=True)
class Place:
    """The hourly rate of a sandbox, and the basis of the calculation."""

    rate: Rate
    basis: str
    nodes: Decimal  # the share of a node that it takes, 0 on Fargate


def place_on_node(sandbox_class: SandboxClass, kind: Kind, fill: Decimal) -> Place:
    """Return the rate of a sandbox on a node that Karpenter would launch for it."""
    room = pod_resources(sandbox_class)
    bought = kind.machine.for_one(room)
    price, fits = kind.machine.price(bought), kind.machine.holds(bought, room)
    share = 1 / (fits * fill)
    words = f"{bought.name} {kind.machine.bought} ${plain(price.dollars)}/h with its disk, {fits} fit, {fill:%} full"
    return Place(price.times(share), words, share)


def place_on_fargate(sandbox_class: SandboxClass, book: PriceBook) -> Place:
    """Return the rate of a sandbox on Fargate, in the billed size."""
    size = size_up(sandbox_class.resources.cpu.value, sandbox_class.resources.memory.value)
    if size is None:
        raise MissingPricesError(
            f"Fargate sells no size for {sandbox_class.resources.cpu} cores and {sandbox_class.resources.memory}"
        )
    hour, words = fargate_hour(size, book), f"Fargate, {plain(size.cpu)} vCPU and {plain(size.memory)} GB"
    if more := max(disk_of(sandbox_class) - INCLUDED_DISK, Decimal(0)) / GIB:
        hour += Rate(book.rate("fargate.disk").of(Amount(more, "GB-h")).value, "h")
        words += f", {plain(more)} GB of disk beyond what is free"
    return Place(hour, words, Decimal(0))


def fargate_hour(size: Size, book: PriceBook) -> Rate:
    """Return the hourly rate of a Fargate size."""
    cores = book.rate("fargate.vcpu").of(Amount(size.cpu, "vCPU-h"))
    memory = book.rate("fargate.memory").of(Amount(size.memory, "GB-h"))
    return Rate((cores + memory).value, "h")


def warm_capacity(context: EstimateContext, kinds: list[Kind]) -> Iterator[Part]:
    """Yield the cost of warm sandboxes, headroom and seats."""
    node_hours = Decimal(0)
    for kind in kinds:
        yield from _of_kind(context.settings, kind)
        node_hours += sum((_nodes(context.settings, kind, stretch) for stretch in _week(kind)), start=Decimal(0))
    yield from images(context, node_hours * HOURS_A_MONTH)
    for stretch in context.settings.sandbox_classes:
        if stretch.compute == "fargate":
            yield from _warm_on_fargate(context.settings, stretch, context.book)


def _of_kind(settings: Settings, kind: Kind) -> Iterator[Part]:
    """Yield the cost of whole nodes in each part of the week, shared by the resources of pods."""
    costs: dict[tuple[str, str | None], Dollars] = {}
    bases: dict[str, int] = {}
    for stretch in _week(kind):
        resources = _resources(settings, kind, stretch)
        if not resources:
            continue
        bought, count, price = _bought(settings, kind, stretch, resources)
        bases[f"{plain(count.quantize(Decimal('0.01')))} {bought.name} {kind.machine.bought}"] = 1
        hours = Amount(HOURS_A_MONTH * stretch.share, "h")
        weights = {key: room.weight for key, room in resources.items()}
        whole = sum(weights.values(), start=Decimal(0))
        for key, weight in weights.items():
            costs[key] = costs.get(key, Dollars()) + price.of(hours) * (weight / whole)
    for (name, of), cost in costs.items():
        words = _words(settings, kind, name, of)
        yield Part(name, cost, f"{words}; of {' or '.join(bases)}", sandbox_class=of)


def _week(kind: Kind) -> list[Stretch]:
    return stretches({sandbox_class.name: sandbox_class.pool for sandbox_class in kind.classes})


def _bought(
    settings: Settings, kind: Kind, stretch: Stretch, resources: Mapping[tuple[str, str | None], PodResources]
) -> tuple[Instance, Decimal, Rate]:
    return kind.machine.for_all(summed(resources.values()), _largest(settings, kind, stretch), among_others=True)


def _nodes(settings: Settings, kind: Kind, stretch: Stretch) -> Decimal:
    """Return the number of nodes in a part of the week, multiplied by its share."""
    resources = _resources(settings, kind, stretch)
    return _bought(settings, kind, stretch, resources)[1] * stretch.share if resources else Decimal(0)


def _resources(settings: Settings, kind: Kind, stretch: Stretch) -> Mapping[tuple[str, str | None], PodResources]:
    resources_by_part: dict[tuple[str, str | None], PodResources] = {}
    for sandbox_class in kind.classes:
        releases = 1 + len(sandbox_class.releases)
        if members := stretch.members[sandbox_class.name] * releases:
            resources_by_part[f"warm sandboxes: {sandbox_class.name}", sandbox_class.name] = pod_resources(
                sandbox_class
            ).times(members)
        if seats := sum(seat.class_ == sandbox_class.name for seat in settings.workspaces):
            resources_by_part[f"declared seats: {sandbox_class.name}", sandbox_class.name] = pod_resources(
                sandbox_class
            ).times(seats)
    room = settings.capacity.headroom
    if room.pods and not kind.gpu:
        resources_by_part[f"{HEADROOM}: {kind.name}", None] = PodResources(
            room.cpu.value, room.memory.value, Decimal(0)
        ).times(room.pods)
    return resources_by_part


def _largest(settings: Settings, kind: Kind, stretch: Stretch) -> PodResources:
    """Return resources that are sufficient for each single pod."""
    pods = [pod_resources(pod) for pod in kind.classes if stretch.members[pod.name] or _seated(settings, pod)]
    room = settings.capacity.headroom
    if room.pods and not kind.gpu:
        pods.append(PodResources(room.cpu.value, room.memory.value, Decimal(0)))
    return PodResources(max(pod.cores for pod in pods), max(pod.memory for pod in pods), max(pod.disk for pod in pods))


def _words(settings: Settings, kind: Kind, name: str, of: str | None) -> str:
    if of is None:
        room = settings.capacity.headroom
        return f"{room.pods} x {room.cpu} and {room.memory}"
    sandbox_class = next(sandbox_class for sandbox_class in kind.classes if sandbox_class.name == of)
    if name.startswith("declared"):
        return f"{sum(seat.class_ == of for seat in settings.workspaces)} awake all month"
    releases = f" in each of {1 + len(sandbox_class.releases)} releases" if sandbox_class.releases else ""
    return f"{plain(average_size(sandbox_class.pool))} on average{releases}"


def _warm_on_fargate(settings: Settings, sandbox_class: SandboxClass, book: PriceBook) -> Iterator[Part]:
    hour = place_on_fargate(sandbox_class, book)
    releases = 1 + len(sandbox_class.releases)
    for name, count in (
        (f"warm sandboxes: {sandbox_class.name}", average_size(sandbox_class.pool) * releases),
        (f"declared seats: {sandbox_class.name}", Decimal(_seated(settings, sandbox_class))),
    ):
        if count:
            cost = hour.rate.of(Amount(HOURS_A_MONTH * count, "h"))
            yield Part(name, cost, f"{plain(count)} on average; {hour.basis}", sandbox_class=sandbox_class.name)


def _seated(settings: Settings, sandbox_class: SandboxClass) -> int:
    return sum(seat.class_ == sandbox_class.name for seat in settings.workspaces)
