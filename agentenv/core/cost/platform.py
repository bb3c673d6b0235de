"""What is there whoever comes: control plane, controllers, the system's nodes, keys, logs, and what watches costs."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from agentenv.core.cost.lines import Part, plain
from agentenv.core.cost.node_kinds import system_machine
from agentenv.core.cost.nodes import Room, summed
from agentenv.core.cost.platform_pods import PlatformPod, passing_pods, platform_pods
from agentenv.core.cost.sandboxes import fargate_hour
from agentenv.core.nodes.fargate_sizes import size_up
from agentenv.core.prices.book import NoPrices
from agentenv.core.prices.units import HOURS_A_MONTH, Amount, Dollars, total

if TYPE_CHECKING:
    from agentenv.core.cost.context import Ground

DAYS_A_MONTH = Decimal(365) / 12
QUERIES_A_MONTH = 60


def platform(ground: Ground) -> Iterator[Part]:
    """All of it."""
    pods = platform_pods(ground.settings)
    if ground.settings.cluster.existing is None:
        words = f"EKS {ground.settings.cluster.version} in standard support"
        yield Part("control plane", ground.rate("eks.cluster").all_month(), words)
    yield from _on_fargate([pod for pod in pods if pod.on == "fargate"], ground)
    yield _system_nodes([pod for pod in pods if pod.on == "system"], ground)
    yield _keys(ground)
    yield from _logs(pods, ground)
    yield from _watching(ground)


def _on_fargate(pods: list[PlatformPod], ground: Ground) -> Iterator[Part]:
    for pod in pods:
        size = size_up(pod.cpu, pod.memory)
        if size is None:
            raise NoPrices(f"Fargate sells no size for {pod.name}")
        hour = fargate_hour(size, ground.book)
        words = f"{pod.replicas} x {plain(size.cpu)} cores and {plain(size.memory)} GB on Fargate"
        yield Part(f"controllers: {pod.name}", hour.of(Amount(HOURS_A_MONTH * pod.replicas, "h")), words)


def _system_nodes(pods: list[PlatformPod], ground: Ground) -> Part:
    """Nodes for what is neither a sandbox nor on Fargate, as few as hold it all."""
    machine = system_machine(ground)
    rooms = [_room(pod) for pod in pods]
    largest = Room(max(pod.cpu for pod in pods), max(pod.memory for pod in pods), Decimal(0))
    bought, count, price = machine.for_all(summed(rooms), largest)
    names = ", ".join(f"{pod.replicas} x {pod.name}" for pod in pods)
    words = f"{count} {bought.name} {machine.bought} with its disk: {names}"
    # What comes and goes finds room, or has another node for as long as it is there.
    more = max(
        (machine.needed(bought, summed([*rooms, _room(pod)])) - count for pod in passing_pods(ground.settings)),
        default=Decimal(0),
    )
    hours = more * ground.taken.passing * DAYS_A_MONTH
    if hours:
        words += f"; {more} more for {plain(ground.taken.passing)} h a day"
    return Part("system nodes", price.all_month() + machine.price(bought).of(Amount(hours, "h")), words)


def _room(pod: PlatformPod) -> Room:
    return Room(pod.cpu, pod.memory, Decimal(0)).times(pod.replicas)


def _keys(ground: Ground) -> Part:
    """A key each for logs, secrets, nodes' disks and homes, where ours are made; exported bills have S3's own."""
    settings = ground.settings
    keys = {
        "logs": settings.network.existing is None,
        "secrets": settings.cluster.existing is None,
        "disks": True,
        "homes": not settings.storage.existing and settings.storage.kms_key is None,
    }
    names = [name for name, made in keys.items() if made]
    return Part("keys", ground.rate("kms.key").all_month() * len(names), f"{len(names)}: {', '.join(names)}")


def _logs(pods: list[PlatformPod], ground: Ground) -> Iterator[Part]:
    settings, taken = ground.settings, ground.taken
    if settings.cluster.existing is None:
        days = settings.cluster.log_days
        volume = taken.cluster_logs + taken.pod_logs * sum(pod.replicas for pod in pods if pod.on == "fargate")
        words = f"{plain(volume)} GB a month, kept {days} days"
        yield Part("logs of the cluster", logged("logs.taken-in", volume, days, ground), words)
    if settings.network.existing is None:
        days = settings.network.flow_log_days
        volume = taken.flows * recorded(ground)
        words = f"{plain(volume)} GB a month ({settings.network.flow_log_traffic}), kept {days} days"
        yield Part("flow logs", logged("logs.delivered", volume, days, ground), words)


def _watching(ground: Ground) -> Iterator[Part]:
    cost, volume = ground.settings.cost, ground.taken.exported
    if cost.platform_dashboard:
        yield Part("dashboard of the platform", ground.rate("cloudwatch.dashboard").all_month(), "1 in CloudWatch")
    if cost.usage_export:
        kept = ground.cost("s3.standard", volume * cost.usage_export_days / DAYS_A_MONTH, "GB-month")
        asked = ground.cost("athena.scanned", volume * QUERIES_A_MONTH / 1000, "TB")
        words = f"{plain(volume)} GB a month, kept {cost.usage_export_days} days, {QUERIES_A_MONTH} queries a month"
        yield Part("exported bills", total((kept, asked)), words)


def logged(price: str, volume: Decimal, days: int, ground: Ground) -> Dollars:
    """What logs cost that come at so many gigabytes a month and are kept for so many days."""
    kept = volume * ground.taken.compression * days / DAYS_A_MONTH
    return ground.cost(price, volume, "GB") + ground.cost("logs.kept", kept, "GB-month")


def recorded(ground: Ground) -> Decimal:
    """How much of the traffic flow logs record."""
    rejected = ground.taken.rejected_flows
    recorded: dict[str, Decimal] = {"all": Decimal(1), "accepted": 1 - rejected, "rejected": rejected}
    return recorded[ground.settings.network.flow_log_traffic]
