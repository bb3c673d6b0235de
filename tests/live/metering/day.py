"""A day of an environment: who owned which sandbox, and the metrics that its exporters would export.

Six users: one with a warm start who is suspended over noon, one with a cold start, one who loses a Spot node, one with
a swarm, one on Fargate, and one with files only. There are also unclaimed warm sandboxes, and a pod without an owner.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from agentenv.core.metering.exporters import CLAIM, TYPE, USER, WARM, WORKSPACE, ZONE, series_label
from agentenv.core.nodes.tiers import CAPACITY_LABEL, TIER_LABEL
from agentenv.service.telemetry.metrics import Metrics

BEGAN = 1_794_873_600  # a midnight in UTC
MINUTES = 1440
GIB = 1 << 30
EVERY = 30  # seconds; a minute's rate needs two samples

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Span:
    """Minutes of a pod with one owner and constant usage."""

    began: int
    ended: int
    cores: float
    user: str = ""
    claim: str = ""
    warm: bool = False


@dataclass(frozen=True)
class Pod:
    """The pod of a sandbox, from its first minute to its last."""

    name: str
    uid: str
    node: str
    spans: tuple[Span, ...]
    namespace: str = "sandbox-standard"
    requested: float = 0.1
    memory: int = GIB // 2


def _slot(name: str, node: str, minutes: tuple[int, int, int], user: str, cores: float) -> Pod:
    """Return the pod of a warm sandbox: the minutes of its creation, its adoption and its end."""
    began, adopted, ended = minutes
    spans = (Span(began, adopted, 0.01, warm=True), Span(adopted, ended, cores, user, f"claim-{name}"))
    return Pod(name, f"{name}-first", node, spans)


def _again(name: str, node: str, minutes: tuple[int, int], user: str, cores: float) -> Pod:
    """Return the pod of a resumed sandbox."""
    return Pod(name, f"{name}-again", node, (Span(*minutes, cores, user, f"claim-{name}"),))


PODS = (
    _slot("slot-1", "spot-1", (0, 480, 720), "u-amy", 0.4),
    _again("slot-1", "spot-2", (780, 1020), "u-amy", 0.25),
    Pod("bob-1", "bob-1-first", "spot-1", (Span(540, MINUTES, 0.05, "u-bob", "claim-bob"),), "sandbox-reviewer"),
    _slot("slot-2", "spot-lost", (60, 600, 900), "u-cat", 0.8),
    _again("slot-2", "spot-2", (901, 1300), "u-cat", 0.8),
    *(_slot(f"swarm-{number}", "spot-2", (700, 840, 960), "u-dan", 0.2 + number / 10) for number in range(5)),
    Pod("fay-1", "fay-1-first", "fargate-1", (Span(600, 720, 1.5, "u-fay", "claim-fay"),), "sandbox-batch", 1.0),
    Pod("slot-3", "slot-3-first", "spot-1", (Span(0, MINUTES, 0.01, warm=True),)),
    Pod("slot-4", "slot-4-first", "spot-1", (Span(0, MINUTES, 0.01, warm=True),), "sandbox-reviewer"),
    Pod("stray", "stray-first", "spot-1", (Span(700, 760, 0.3),)),
)
HOMES = {"u-amy": 3 * GIB, "u-bob": GIB, "u-cat": 5 * GIB, "u-dan": 2 * GIB, "u-eve": 7 * GIB}
NODES: Mapping[str, tuple[str, str, str, str, int, int]] = {
    # type, zone, way of buying, tier, first and last minute
    "spot-1": ("m8g.large", "us-east-1a", "spot", "standard", 0, MINUTES),
    "spot-lost": ("m8g.large", "us-east-1b", "spot", "standard", 0, 900),
    "spot-2": ("m8g.large", "us-east-1b", "spot", "standard", 690, MINUTES),
    "system-1": ("t4g.large", "us-east-1a", "on-demand", "", 0, MINUTES),
    "fargate-1": ("", "us-east-1a", "", "", 600, 720),
}
PRICES = {
    ("m8g.large", "us-east-1a", "spot"): 0.0301,
    ("m8g.large", "us-east-1b", "spot"): 0.0274,
    ("m8g.large", "us-east-1a", "on-demand"): 0.08976,
    ("m8g.large", "us-east-1b", "on-demand"): 0.08976,
    ("t4g.large", "us-east-1a", "on-demand"): 0.0672,
    ("x99.large", "us-east-1a", "on-demand"): 99.0,
}
OPENCOST = {"spot-1": 0.035, "spot-lost": 0.035, "spot-2": 0.035, "system-1": 0.0672, "fargate-1": 0.0494}


def truth() -> dict[str, float]:
    """Return the CPU-seconds of each user, and under the empty name those of warm sandboxes."""
    found: defaultdict[str, float] = defaultdict(float)
    for pod in PODS:
        for span in pod.spans:
            if span.user or span.warm:
                found[span.user] += span.cores * 60 * (span.ended - span.began)
    return dict(found)


@dataclass
class Samples:
    """Samples, by metric and series."""

    kinds: dict[str, str] = field(default_factory=dict[str, str])
    samples: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, name: str, labels: Labels, values: Iterator[tuple[int, float]]) -> None:
        inside = ",".join(f'{label}="{value}"' for label, value in labels.items() if value)
        self.samples[name] += [f"{name}{{{inside}}} {value:.10g} {BEGAN + at}" for at, value in values]

    def text(self) -> str:
        """Return the samples as OpenMetrics, without types, which backfilling does not need."""
        return "\n".join(line for lines in self.samples.values() for line in lines) + "\n# EOF\n"


def _steady(value: float, began: int, ended: int, every: int = EVERY) -> Iterator[tuple[int, float]]:
    """Yield a constant value from one minute to another."""
    return ((at, value) for at in range(began * 60, ended * 60, every))


def samples() -> Samples:
    """Return the samples of all exporters."""
    day = Samples()
    for pod in PODS:
        _pod(day, pod)
    for name, (kind, zone, bought, tier, began, ended) in NODES.items():
        about = {"node": name, series_label(TYPE): kind, series_label(ZONE): zone}
        about |= {series_label(CAPACITY_LABEL): bought, series_label(TIER_LABEL): tier}
        day.add("kube_node_labels", about, _steady(1, began, ended))
        for resource, amount in (("cpu", 2), ("memory", 8 * GIB)):
            has = {"node": name, "resource": resource}
            day.add("kube_node_status_capacity", has, _steady(amount, began, ended))
        day.add("node_total_hourly_cost", {"node": name}, _steady(OPENCOST[name], began, ended))
    for (kind, zone, bought), price in PRICES.items():
        offer = {"instance_type": kind, "zone": zone, "capacity_type": bought}
        name = "karpenter_cloudprovider_instance_type_offering_price_estimate"
        day.add(name, offer, _steady(price, 0, MINUTES))
    launched = [(at, float(at // 3600)) for at in range(0, MINUTES * 60, EVERY)]
    for name in ("karpenter_nodeclaims_created_total", "karpenter_nodes_created_total"):
        day.add(name, {"nodepool": "standard"}, iter(launched))
    for user, size in HOMES.items():
        volume = {"persistentvolume": f"pvc-{user}"}
        day.add("kube_persistentvolume_labels", {**volume, series_label(USER): user}, _steady(1, 0, MINUTES))
        day.add("agentenv_volume_bytes", volume, _steady(size, 0, MINUTES))
    _controller(day)
    _service(day)
    day.add("prometheus_rule_evaluation_failures_total", {"rule_group": "attribution"}, _steady(0, 0, MINUTES))
    day.add("prometheus_tsdb_head_series", {"job": "prometheus"}, _steady(4000, 0, MINUTES))
    return day


def _pod(day: Samples, pod: Pod) -> None:
    where = {"namespace": pod.namespace, "pod": pod.name}
    began, ended = pod.spans[0].began, pod.spans[-1].ended
    for span in pod.spans:
        labels = {
            **where,
            "uid": pod.uid,
            series_label(USER): span.user,
            series_label(WORKSPACE): f"w-{pod.name}" if span.user else "",
            series_label(CLAIM): span.claim,
            series_label(WARM): pod.name if span.warm else "",
        }
        day.add("kube_pod_labels", labels, _steady(1, span.began, span.ended))
    day.add("kube_pod_info", {**where, "node": pod.node}, _steady(1, began, ended))
    for resource, amount in (("cpu", pod.requested), ("memory", float(pod.memory))):
        series_labels = {**where, "container": "agent", "node": pod.node, "resource": resource}
        day.add("kube_pod_container_resource_requests", series_labels, _steady(amount, began, ended))
    whole = {**where, "id": f"/pods/{pod.uid}"}
    day.add("container_cpu_usage_seconds_total", whole, _counted(pod, 1))
    day.add("container_memory_working_set_bytes", whole, _steady(pod.memory * 0.7, began, ended))
    pause = {**whole, "image": "pause", "interface": "eth0"}
    day.add("container_network_receive_bytes_total", pause, _counted(pod, 50_000))
    day.add("container_network_transmit_bytes_total", pause, _counted(pod, 5_000))


def _counted(pod: Pod, times: float) -> Iterator[tuple[int, float]]:
    """Return the counter of a pod since its start, in proportion to its cores."""
    total = 0.0
    for span in pod.spans:
        for at in range(span.began * 60, span.ended * 60, EVERY):
            yield at, total * times
            total += span.cores * EVERY


def _controller(day: Samples) -> None:
    """Add the metrics of the agent-sandbox controller: two replicas count sandboxes, and one fills claims."""
    for replica in ("0", "1"):
        pool = {"namespace": "sandbox-standard", "ready_condition": "true", "owned_by": "SandboxWarmPool"}
        day.add("agent_sandboxes", {**pool, "replica": replica, "instance": replica}, _steady(2, 0, MINUTES))
    claims = {"namespace": "sandbox-standard", "launch_type": "warm", "pod_condition": "ready"}
    grown = [(at, float(at // 600)) for at in range(0, MINUTES * 60, EVERY)]
    day.add("agent_sandbox_claim_creation_total", claims, iter(grown))
    for bound in ("100", "250", "+Inf"):
        name = "agent_sandbox_claim_controller_startup_latency_ms_bucket"
        day.add(name, {"launch_type": "warm", "le": bound}, iter(grown))


def _service(day: Samples) -> None:
    """Add the metrics of the workspace service: its own registry, scraped each minute."""
    metrics = Metrics()
    series: defaultdict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[int, float]]] = defaultdict(list)
    for minute in range(MINUTES):
        if minute % 3 == 0:
            metrics.claimed("standard", "warm", 0.06)
            metrics.pool_hit("standard")
            metrics.request("/v1/workspaces", "POST", 201, 0.07)
        if minute % 45 == 0:
            metrics.claimed("standard", "cold", 9.0)
            metrics.pool_miss("standard", "empty")
            metrics.suspended("standard", "idle")
            metrics.budget("notice")
        metrics.workspaces({("standard", "running"): 8, ("standard", "suspended"): 3})
        metrics.ledger_rows(2)
        with metrics.loop("idle"):
            pass
        if minute == 600:
            _fail(metrics)
        metrics.leader(leads=True)
        metrics.findings("audit", {"orphan": minute // 720})
        for family in metrics.registry.collect():
            for sample in family.samples:
                if sample.name.startswith("agentenv_") and not sample.name.endswith("_created"):
                    series[sample.name, tuple(sorted(sample.labels.items()))].append((minute * 60, sample.value))
    for (name, labels), values in series.items():
        day.add(name, dict(labels), iter(values))


def _fail(metrics: Metrics) -> None:
    with contextlib.suppress(ConnectionError), metrics.loop("idle"):
        raise ConnectionError
