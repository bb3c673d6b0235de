"""The pods of the platform, on Fargate or on the system nodes.

Their requests are those of the settings, or of the pinned add-ons and charts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from agentenv.core.classes.pools.sizes import max_sandboxes_with_rollover
from agentenv.core.metering.sizes import sizes
from agentenv.core.service.deployment import LOOPS_CPU, LOOPS_MEMORY
from agentenv.core.service.home_metering import scan_jobs
from agentenv.core.values.quantities import Quantity

if TYPE_CHECKING:
    from agentenv.config.sections.service import Gateway
    from agentenv.config.settings import Settings


SCAN_CORES = Decimal("0.05")


@dataclass(frozen=True)
class PlatformPod:
    """A pod of the platform, with its number of replicas."""

    name: str
    replicas: int
    cpu: Decimal
    memory: Decimal  # bytes
    on: Literal["fargate", "system"]


def platform_pods(settings: Settings) -> list[PlatformPod]:
    """Return all pods of the platform."""
    return [*_controllers(settings), *_addons(), *_metering(settings), *_service(settings)]


def transient_pods(settings: Settings) -> list[PlatformPod]:
    """Return temporary pods on the system nodes: scans of homes, and surge replicas of the service in updates."""
    scan = PlatformPod("look at homes", len(scan_jobs(settings)), SCAN_CORES, settings.service.memory.value, "system")
    return [*([scan] if scan.replicas else ()), *(replace(pod, replicas=1) for pod in _service(settings))]


def _controllers(settings: Settings) -> list[PlatformPod]:
    karpenter, sandboxes = settings.capacity.controller, settings.cluster.sandbox_controller
    pods = [
        PlatformPod("Karpenter", karpenter.replicas, karpenter.cpu.value, karpenter.memory.value, "fargate"),
        PlatformPod(
            "agent-sandbox controller",
            sandboxes.replicas,
            sandboxes.cpu.value,
            sandboxes.memory.value,
            sandboxes.place,
        ),
    ]
    # An existing cluster has its own DNS.
    return pods if settings.cluster.existing else [_pod("CoreDNS", 2, "100m", "70Mi", "fargate"), *pods]


def _addons() -> list[PlatformPod]:
    """Return the requests of add-ons; those without requests are listed with their usage."""
    return [
        _pod("EFS driver", 2, "20m", "80Mi", "system"),
        _pod("metrics-server", 2, "100m", "200Mi", "system"),
        _pod("kube-state-metrics", 1, "10m", "64Mi", "system"),
    ]


def _metering(settings: Settings) -> list[PlatformPod]:
    if not settings.cost.dashboards:
        return []
    sizes_ = sizes(sum(max_sandboxes_with_rollover(amount) for amount in settings.sandbox_classes))
    amounts = {"Prometheus": sizes_.prometheus, "OpenCost": sizes_.opencost, "Grafana": sizes_.grafana}
    return [_pod(name, 1, amount.cpu, amount.memory, "system") for name, amount in amounts.items()]


def _service(settings: Settings) -> list[PlatformPod]:
    service = settings.service
    if not service.deployed:
        return []
    cpu, memory = service.cpu.value, service.memory.value
    return [
        PlatformPod("workspace service", service.replicas, cpu, memory, "system"),
        _pod("loops of the workspace service", 1, LOOPS_CPU, LOOPS_MEMORY, "system"),
        *([_gateway(service.gateway)] if service.domain is not None else []),
    ]


def _pod(name: str, replicas: int, cpu: str, memory: str, on: Literal["fargate", "system"]) -> PlatformPod:
    return PlatformPod(name, replicas, Quantity.parse(cpu).value, Quantity.parse(memory).value, on)


def _gateway(gateway: Gateway) -> PlatformPod:
    return PlatformPod("Envoy of the gateway", gateway.replicas, gateway.cpu.value, gateway.memory.value, "system")
