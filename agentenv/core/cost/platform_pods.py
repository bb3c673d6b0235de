"""The pods that an environment always has, and where they run: on Fargate, where each is rounded up to a size that is
sold, or on the system's nodes, where they share.

What a setting says is taken from it; the rest is what the add-ons and charts ask for in the versions that are pinned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from agentenv.core.classes.pools.sizes import max_sandboxes_with_rollover
from agentenv.core.metering.sizes import sizes
from agentenv.core.service.home_metering import passes
from agentenv.core.values.quantities import Quantity

if TYPE_CHECKING:
    from agentenv.config.settings import Settings


LOOKING_CORES = Decimal("0.05")


@dataclass(frozen=True)
class PlatformPod:
    """One of them, so many times."""

    name: str
    replicas: int
    cpu: Decimal
    memory: Decimal  # bytes
    on: Literal["fargate", "system"]


def platform_pods(settings: Settings) -> list[PlatformPod]:
    """All of them."""
    return [*_controllers(settings), *_addons(), *_metering(settings), *_service(settings)]


def transient_pods(settings: Settings) -> list[PlatformPod]:
    """What is there for a while, on the system's nodes: a look at homes, and one more of the service as it changes."""
    looks = PlatformPod("look at homes", len(passes(settings)), LOOKING_CORES, settings.service.memory.value, "system")
    return [*([looks] if looks.replicas else ()), *(replace(pod, replicas=1) for pod in _service(settings))]


def _controllers(settings: Settings) -> list[PlatformPod]:
    karpenter, sandboxes = settings.capacity.controller, settings.cluster.sandbox_controller
    found = [
        PlatformPod("Karpenter", karpenter.replicas, karpenter.cpu.value, karpenter.memory.value, "fargate"),
        PlatformPod(
            "agent-sandbox controller",
            sandboxes.replicas,
            sandboxes.cpu.value,
            sandboxes.memory.value,
            sandboxes.place,
        ),
    ]
    # A cluster that stands already has its own names.
    return found if settings.cluster.existing else [_pod("CoreDNS", 2, "100m", "70Mi", "fargate"), *found]


def _addons() -> list[PlatformPod]:
    """What the add-ons ask for; those of storage and of metrics by name ask for nothing, and stand with what they
    take."""
    return [
        _pod("EFS driver", 2, "20m", "80Mi", "system"),
        _pod("metrics-server", 2, "100m", "200Mi", "system"),
        _pod("kube-state-metrics", 1, "10m", "64Mi", "system"),
    ]


def _metering(settings: Settings) -> list[PlatformPod]:
    if not settings.cost.dashboards:
        return []
    given = sizes(sum(max_sandboxes_with_rollover(one) for one in settings.sandbox_classes))
    amounts = {"Prometheus": given.prometheus, "OpenCost": given.opencost, "Grafana": given.grafana}
    return [_pod(name, 1, one.cpu, one.memory, "system") for name, one in amounts.items()]


def _service(settings: Settings) -> list[PlatformPod]:
    service = settings.service
    if not service.deployed:
        return []
    return [PlatformPod("workspace service", service.replicas, service.cpu.value, service.memory.value, "system")]


def _pod(name: str, replicas: int, cpu: str, memory: str, on: Literal["fargate", "system"]) -> PlatformPod:
    return PlatformPod(name, replicas, Quantity.parse(cpu).value, Quantity.parse(memory).value, on)
