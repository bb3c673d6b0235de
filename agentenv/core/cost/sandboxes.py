"""What sandboxes cost: an hour of one, what is kept warm for the next, room kept free, and seats that are always there.

What is warm is there before anybody comes, so it is a fixed cost: whole nodes at the least, and no fuller than nodes
are on average once users come and go among it. What users add is their hours, at the price of a place on such a node.
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
    """An hour of a sandbox's place: what it costs, and what that was reckoned from."""

    rate: Rate
    basis: str
    nodes: Decimal  # the share of a node that it takes, 0 on Fargate


def place_on_node(one: SandboxClass, kind: Kind, fill: Decimal) -> Place:
    """A place on a node of what Karpenter buys for one sandbox."""
    room = pod_resources(one)
    bought = kind.machine.for_one(room)
    price, fits = kind.machine.price(bought), kind.machine.holds(bought, room)
    share = 1 / (fits * fill)
    words = f"{bought.name} {kind.machine.bought} ${plain(price.dollars)}/h with its disk, {fits} fit, {fill:%} full"
    return Place(price.times(share), words, share)


def place_on_fargate(one: SandboxClass, book: PriceBook) -> Place:
    """A machine of its own, in the size that is sold."""
    size = size_up(one.resources.cpu.value, one.resources.memory.value)
    if size is None:
        raise MissingPricesError(f"Fargate sells no size for {one.resources.cpu} cores and {one.resources.memory}")
    hour, words = fargate_hour(size, book), f"Fargate, {plain(size.cpu)} cores and {plain(size.memory)} GB"
    if more := max(disk_of(one) - INCLUDED_DISK, Decimal(0)) / GIB:
        hour += Rate(book.rate("fargate.disk").of(Amount(more, "GB-h")).value, "h")
        words += f", {plain(more)} GB of disk beyond what is free"
    return Place(hour, words, Decimal(0))


def fargate_hour(size: Size, book: PriceBook) -> Rate:
    """An hour of a size of Fargate."""
    cores = book.rate("fargate.vcpu").of(Amount(size.cpu, "vCPU-h"))
    memory = book.rate("fargate.memory").of(Amount(size.memory, "GB-h"))
    return Rate((cores + memory).value, "h")


def standing(context: EstimateContext, kinds: list[Kind]) -> Iterator[Part]:
    """What stands there for nobody yet, and for declared seats."""
    node_hours = Decimal(0)
    for kind in kinds:
        yield from _of_kind(context.settings, kind)
        node_hours += sum((_nodes(context.settings, kind, one) for one in _week(kind)), start=Decimal(0))
    yield from images(context, node_hours * HOURS_A_MONTH)
    for one in context.settings.sandbox_classes:
        if one.compute == "fargate":
            yield from _warm_on_fargate(context.settings, one, context.book)


def _of_kind(settings: Settings, kind: Kind) -> Iterator[Part]:
    """Whole nodes for all that stands on them in each stretch of the week, shared by what each takes of them."""
    costs: dict[tuple[str, str | None], Dollars] = {}
    told: dict[str, int] = {}
    for stretch in _week(kind):
        rooms = _rooms(settings, kind, stretch)
        if not rooms:
            continue
        bought, count, price = _bought(settings, kind, stretch, rooms)
        told[f"{plain(count.quantize(Decimal('0.01')))} {bought.name} {kind.machine.bought}"] = 1
        hours = Amount(HOURS_A_MONTH * stretch.share, "h")
        weights = {key: room.weight for key, room in rooms.items()}
        whole = sum(weights.values(), start=Decimal(0))
        for key, weight in weights.items():
            costs[key] = costs.get(key, Dollars()) + price.of(hours) * (weight / whole)
    for (name, of), cost in costs.items():
        words = _words(settings, kind, name, of)
        yield Part(name, cost, f"{words}; of {' or '.join(told)}", sandbox_class=of)


def _week(kind: Kind) -> list[Stretch]:
    return stretches({one.name: one.pool for one in kind.classes})


def _bought(
    settings: Settings, kind: Kind, stretch: Stretch, rooms: Mapping[tuple[str, str | None], PodResources]
) -> tuple[Instance, Decimal, Rate]:
    return kind.machine.for_all(summed(rooms.values()), _largest(settings, kind, stretch), among_others=True)


def _nodes(settings: Settings, kind: Kind, stretch: Stretch) -> Decimal:
    """How many nodes stand in a part of the week, by its share of the whole."""
    rooms = _rooms(settings, kind, stretch)
    return _bought(settings, kind, stretch, rooms)[1] * stretch.share if rooms else Decimal(0)


def _rooms(settings: Settings, kind: Kind, stretch: Stretch) -> Mapping[tuple[str, str | None], PodResources]:
    found: dict[tuple[str, str | None], PodResources] = {}
    for one in kind.classes:
        releases = 1 + len(one.releases)
        if members := stretch.members[one.name] * releases:
            found[f"warm sandboxes: {one.name}", one.name] = pod_resources(one).times(members)
        if seats := sum(seat.class_ == one.name for seat in settings.workspaces):
            found[f"declared seats: {one.name}", one.name] = pod_resources(one).times(seats)
    room = settings.capacity.headroom
    if room.pods and not kind.gpu:
        found[f"{HEADROOM}: {kind.name}", None] = PodResources(room.cpu.value, room.memory.value, Decimal(0)).times(
            room.pods
        )
    return found


def _largest(settings: Settings, kind: Kind, stretch: Stretch) -> PodResources:
    """Room enough for each single pod that stands there."""
    pods = [pod_resources(one) for one in kind.classes if stretch.members[one.name] or _seated(settings, one)]
    room = settings.capacity.headroom
    if room.pods and not kind.gpu:
        pods.append(PodResources(room.cpu.value, room.memory.value, Decimal(0)))
    return PodResources(max(one.cores for one in pods), max(one.memory for one in pods), max(one.disk for one in pods))


def _words(settings: Settings, kind: Kind, name: str, of: str | None) -> str:
    if of is None:
        room = settings.capacity.headroom
        return f"{room.pods} x {room.cpu} and {room.memory}"
    one = next(one for one in kind.classes if one.name == of)
    if name.startswith("declared"):
        return f"{sum(seat.class_ == of for seat in settings.workspaces)} awake all month"
    releases = f" in each of {1 + len(one.releases)} releases" if one.releases else ""
    return f"{plain(average_size(one.pool))} on average{releases}"


def _warm_on_fargate(settings: Settings, one: SandboxClass, book: PriceBook) -> Iterator[Part]:
    hour = place_on_fargate(one, book)
    releases = 1 + len(one.releases)
    for name, count in (
        (f"warm sandboxes: {one.name}", average_size(one.pool) * releases),
        (f"declared seats: {one.name}", Decimal(_seated(settings, one))),
    ):
        if count:
            cost = hour.rate.of(Amount(HOURS_A_MONTH * count, "h"))
            yield Part(name, cost, f"{plain(count)} on average; {hour.basis}", sandbox_class=one.name)


def _seated(settings: Settings, one: SandboxClass) -> int:
    return sum(seat.class_ == one.name for seat in settings.workspaces)
