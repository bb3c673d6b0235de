"""What is there whoever comes: control plane, controllers, the system's nodes, keys, logs, and what watches the cost."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from model.cost.kinds import system_machine
from model.cost.lines import Part, plain
from model.cost.nodes import Room, summed
from model.cost.platform_pods import PlatformPod, platform_pods
from model.cost.sandboxes import fargate_hour
from model.fargate import size_up
from model.prices.book import NoPrices
from model.prices.units import HOURS_A_MONTH, Amount, Dollars, total

if TYPE_CHECKING:
    from model.cost.assumptions import Assumptions
    from model.prices.book import PriceBook
    from model.settings.whole import Settings

DAYS_A_MONTH = Decimal(365) / 12


def platform(settings: Settings, book: PriceBook, taken: Assumptions) -> Iterator[Part]:
    """All of it."""
    pods = platform_pods(settings)
    yield from _control_plane(settings, book)
    yield from _on_fargate([pod for pod in pods if pod.on == "fargate"], book)
    yield _system_nodes(settings, [pod for pod in pods if pod.on == "system"], book, taken)
    yield from _keys(settings, book)
    yield from _logs(settings, pods, book, taken)
    yield from _watching(settings, book, taken)


def _control_plane(settings: Settings, book: PriceBook) -> Iterator[Part]:
    if settings.cluster.existing is None:
        words = f"EKS {settings.cluster.version} in standard support"
        yield Part("control plane", book.rate("eks.cluster").all_month(), words)


def _on_fargate(pods: list[PlatformPod], book: PriceBook) -> Iterator[Part]:
    for pod in pods:
        size = size_up(pod.cpu, pod.memory)
        if size is None:
            raise NoPrices(f"Fargate sells no size for {pod.name}")
        hour = fargate_hour(size.cpu, size.memory, book)
        words = f"{pod.replicas} x {plain(size.cpu)} cores and {plain(size.memory)} GB on Fargate"
        yield Part(f"controllers: {pod.name}", hour.of(Amount(HOURS_A_MONTH * pod.replicas, "h")), words)


def _system_nodes(settings: Settings, pods: list[PlatformPod], book: PriceBook, taken: Assumptions) -> Part:
    """Nodes for what is neither a sandbox nor on Fargate, as few as hold it all."""
    machine = system_machine(settings, book, taken)
    rooms = [Room(pod.cpu, pod.memory, Decimal(0)).times(pod.replicas) for pod in pods]
    largest = Room(max(pod.cpu for pod in pods), max(pod.memory for pod in pods), Decimal(0))
    bought, count, price = machine.for_all(summed(rooms), largest, book, taken)
    bought_as = settings.capacity.system.capacity
    names = ", ".join(pod.name for pod in pods)
    return Part("system nodes", price.all_month(), f"{count} {bought.name} {bought_as} with its disk: {names}")


def _keys(settings: Settings, book: PriceBook) -> Iterator[Part]:
    """A key each for logs, secrets, nodes' disks, homes and exported bills, where ours are made."""
    keys = {
        "logs": settings.network.existing is None,
        "secrets": settings.cluster.existing is None,
        "disks": True,
        "homes": not settings.storage.existing and settings.storage.kms_key is None,
        "exported bills": settings.cost.usage_export,
    }
    names = [name for name, made in keys.items() if made]
    yield Part("keys", book.rate("kms.key").all_month() * len(names), f"{len(names)}: {', '.join(names)}")


def _logs(settings: Settings, pods: list[PlatformPod], book: PriceBook, taken: Assumptions) -> Iterator[Part]:
    days = settings.cluster.log_days
    if settings.cluster.existing is None:
        count = sum(pod.replicas for pod in pods if pod.on == "fargate")
        volume = taken.cluster_logs + taken.pod_logs * count
        words = f"{plain(volume)} GB a month, kept {days} days"
        yield Part("logs of the cluster", logged(volume, days, book, taken), words)
    if settings.network.existing is None:
        volume = taken.flows * recorded(settings, taken)
        days = settings.network.flow_log_days
        words = f"{plain(volume)} GB a month ({settings.network.flow_log_traffic}), kept {days} days"
        yield Part("flow logs", logged(volume, days, book, taken, delivered=True), words)


def _watching(settings: Settings, book: PriceBook, taken: Assumptions) -> Iterator[Part]:
    if settings.cost.platform_dashboard:
        yield Part("dashboard of the platform", book.rate("cloudwatch.dashboard").all_month(), "1 in CloudWatch")
    if settings.cost.usage_export:
        months = Decimal(settings.cost.usage_export_days) / DAYS_A_MONTH
        kept = book.rate("s3.standard").of(Amount(taken.exported * months, "GB-month"))
        # Two queries a day of a month's data.
        asked = book.rate("athena.scanned").of(Amount(taken.exported * 60 / 1000, "TB"))
        words = f"{plain(taken.exported)} GB a month, kept {settings.cost.usage_export_days} days and queried"
        yield Part("exported bills", total((kept, asked)), words)


def logged(
    volume: Decimal, days: int, book: PriceBook, taken: Assumptions, *, delivered: bool = False
) -> Dollars:
    """What logs cost that are taken in at so many gigabytes a month and kept for so many days."""
    name = "logs.delivered" if delivered else "logs.taken-in"
    kept = volume * taken.compression * Decimal(days) / DAYS_A_MONTH
    return book.rate(name).of(Amount(volume, "GB")) + book.rate("logs.kept").of(Amount(kept, "GB-month"))


def recorded(settings: Settings, taken: Assumptions) -> Decimal:
    """How much of the traffic flow logs record."""
    rejected = taken.rejected_flows
    return {"all": Decimal(1), "accepted": 1 - rejected, "rejected": rejected}[settings.network.flow_log_traffic]
