"""The fixed cost of the platform: control plane, controllers, system nodes, keys, logs and cost reports."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from agentenv.core.cost.lines import Part, plain
from agentenv.core.cost.node_kinds import system_machine
from agentenv.core.cost.nodes import PodResources, summed
from agentenv.core.cost.platform_pods import PlatformPod, platform_pods, transient_pods
from agentenv.core.cost.sandboxes import fargate_hour
from agentenv.core.nodes.fargate_sizes import size_up
from agentenv.core.nodes.mirrors import runtime_files
from agentenv.core.nodes.node_pools import demands, node_pools
from agentenv.core.prices.book import MissingPricesError
from agentenv.core.prices.units import HOURS_A_MONTH, Amount, Dollars, total

if TYPE_CHECKING:
    from agentenv.core.cost.context import EstimateContext

DAYS_A_MONTH = Decimal(365) / 12
QUERIES_A_MONTH = 60


def platform(context: EstimateContext) -> Iterator[Part]:
    """Yield the parts of the platform."""
    pods = platform_pods(context.settings)
    if context.settings.cluster.existing is None:
        words = f"EKS {context.settings.cluster.version} in standard support"
        yield Part("control plane", context.rate("eks.cluster").all_month(), words)
    yield from _on_fargate([pod for pod in pods if pod.on == "fargate"], context)
    yield _system_nodes([pod for pod in pods if pod.on == "system"], context)
    yield _keys(context)
    yield from _logs(pods, context)
    yield from _runtimes(context)
    yield from _monitoring(context)


def _on_fargate(pods: list[PlatformPod], context: EstimateContext) -> Iterator[Part]:
    for pod in pods:
        size = size_up(pod.cpu, pod.memory)
        if size is None:
            raise MissingPricesError(f"Fargate sells no size for {pod.name}")
        hourly = fargate_hour(size, context.book)
        words = f"{pod.replicas} x {plain(size.cpu)} vCPU and {plain(size.memory)} GB on Fargate"
        yield Part(f"controllers: {pod.name}", hourly.of(Amount(HOURS_A_MONTH * pod.replicas, "h")), words)


def _system_nodes(pods: list[PlatformPod], context: EstimateContext) -> Part:
    """Return the cost of the system nodes, as few as possible."""
    machine = system_machine(context)
    resources = [_resources(pod) for pod in pods]
    largest = PodResources(max(pod.cpu for pod in pods), max(pod.memory for pod in pods), Decimal(0))
    bought, count, price = machine.for_all(summed(resources), largest)
    names = ", ".join(f"{pod.replicas} x {pod.name}" for pod in pods)
    words = f"{count} {bought.name} {machine.bought} with its disk: {names}"
    # Transient pods fit on the nodes, or need another node while they run.
    extra = max(
        (
            machine.needed(bought, summed([*resources, _resources(pod)])) - count
            for pod in transient_pods(context.settings)
        ),
        default=Decimal(0),
    )
    hours = extra * context.taken.passing * DAYS_A_MONTH
    if hours:
        words += f"; {extra} more for {plain(context.taken.passing)} h a day"
    return Part("system nodes", price.all_month() + machine.price(bought).of(Amount(hours, "h")), words)


def _resources(pod: PlatformPod) -> PodResources:
    return PodResources(pod.cpu, pod.memory, Decimal(0)).times(pod.replicas)


def _keys(context: EstimateContext) -> Part:
    """Return the cost of the KMS keys that are created; exported bills use the key of S3."""
    settings = context.settings
    keys = {
        "logs": settings.network.existing is None,
        "secrets": settings.cluster.existing is None,
        "disks": True,
        "homes": not settings.storage.existing and settings.storage.kms_key is None,
    }
    names = [name for name, created in keys.items() if created]
    return Part("keys", context.rate("kms.key").all_month() * len(names), f"{len(names)}: {', '.join(names)}")


def _logs(pods: list[PlatformPod], context: EstimateContext) -> Iterator[Part]:
    settings, taken = context.settings, context.taken
    if settings.cluster.existing is None:
        days = settings.cluster.log_days
        volume = taken.cluster_logs + taken.pod_logs * sum(pod.replicas for pod in pods if pod.on == "fargate")
        words = f"{plain(volume)} GB a month, kept {days} days"
        yield Part("logs of the cluster", log_cost("logs.taken-in", volume, days, context), words)
    if settings.network.existing is None:
        days = settings.network.flow_log_days
        volume = taken.flows * recorded_share(context)
        words = f"{plain(volume)} GB a month ({settings.network.flow_log_traffic}), kept {days} days"
        yield Part("flow logs", log_cost("logs.delivered", volume, days, context), words)


def _runtimes(context: EstimateContext) -> Iterator[Part]:
    """Yield the bucket of runtimes; nodes read it through the free S3 endpoint."""
    settings = context.settings
    files = runtime_files(node_pools(settings.capacity, demands(settings)))
    if settings.network.mirrors.bucket and files:
        volume = context.taken.runtime * len(files)
        words = f"{len(files)} files, {plain(volume)} GB"
        yield Part("bucket of runtimes", context.cost("s3.standard", volume, "GB-month"), words)


def _monitoring(context: EstimateContext) -> Iterator[Part]:
    cost, volume = context.settings.cost, context.taken.exported
    if cost.platform_dashboard:
        yield Part("dashboard of the platform", context.rate("cloudwatch.dashboard").all_month(), "1 in CloudWatch")
    if cost.usage_export:
        storage = context.cost("s3.standard", volume * cost.usage_export_days / DAYS_A_MONTH, "GB-month")
        queries = context.cost("athena.scanned", volume * QUERIES_A_MONTH / 1000, "TB")
        words = f"{plain(volume)} GB a month, kept {cost.usage_export_days} days, {QUERIES_A_MONTH} queries a month"
        yield Part("exported bills", total((storage, queries)), words)


def log_cost(price: str, volume: Decimal, days: int, context: EstimateContext) -> Dollars:
    """Return the cost of logs with a monthly volume in gigabytes and a retention in days."""
    stored = volume * context.taken.compression * days / DAYS_A_MONTH
    return context.cost(price, volume, "GB") + context.cost("logs.kept", stored, "GB-month")


def recorded_share(context: EstimateContext) -> Decimal:
    """Return the share of traffic that flow logs record."""
    rejected = context.taken.rejected_flows
    recorded_share: dict[str, Decimal] = {"all": Decimal(1), "accepted": 1 - rejected, "rejected": rejected}
    return recorded_share[context.settings.network.flow_log_traffic]
