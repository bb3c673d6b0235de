"""The exporters, with every metric and label that rules, panels and OpenCost use.

All other metrics are dropped when they are scraped (scraping.py). A test checks that rules and panels use only these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentenv.core.classes.names import CLAIM_UID_LABEL as CLAIM
from agentenv.core.classes.names import USER_LABEL as USER
from agentenv.core.classes.names import WORKSPACE_LABEL as WORKSPACE
from agentenv.core.nodes.tiers import CAPACITY_LABEL, TIER_LABEL

WARM = "agents.x-k8s.io/warm-pool-sandbox"
TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"

# The labels that kube-state-metrics exports. A label that changes often would create many series.
LABELS_BY_KIND: Mapping[str, tuple[str, ...]] = {
    "pods": (USER, WORKSPACE, CLAIM, WARM),
    "persistentvolumes": (USER,),
    "nodes": (TYPE, ZONE, CAPACITY_LABEL, TIER_LABEL),
}


def allowlist() -> list[str]:
    """Return the labels as an argument of kube-state-metrics."""
    return [f"{kind}=[{','.join(labels)}]" for kind, labels in LABELS_BY_KIND.items()]


def series_label(label: str) -> str:
    """Return the name of an object's label in kube-state-metrics."""
    return "label_" + "".join(letter if letter.isalnum() else "_" for letter in label)


@dataclass(frozen=True)
class Exporter:
    """An exporter and its metrics in use."""

    job: str
    metrics: Mapping[str, tuple[str, ...]]  # by name; of a histogram its own, without what is added for buckets
    histograms: frozenset[str] = frozenset()

    def series(self) -> tuple[str, ...]:
        """Return the names of its series."""
        names: list[str] = []
        for name in self.metrics:
            names += [f"{name}_{end}" for end in ("bucket", "count", "sum")] if name in self.histograms else [name]
        return tuple(names)


_POD = ("namespace", "pod")

CADVISOR = Exporter(
    "cadvisor",
    {
        "container_cpu_usage_seconds_total": (*_POD, "container"),
        "container_memory_working_set_bytes": (*_POD, "container"),
        "container_network_receive_bytes_total": _POD,
        "container_network_transmit_bytes_total": _POD,
    },
)
OBJECTS = Exporter(
    "kube-state-metrics",
    {
        "kube_pod_labels": (*_POD, "uid", *map(series_label, LABELS_BY_KIND["pods"])),
        "kube_pod_info": (*_POD, "node"),
        "kube_pod_container_resource_requests": (*_POD, "node", "resource"),
        "kube_persistentvolume_labels": ("persistentvolume", *map(series_label, LABELS_BY_KIND["persistentvolumes"])),
        "kube_node_labels": ("node", *map(series_label, LABELS_BY_KIND["nodes"])),
        "kube_node_status_capacity": ("node", "resource"),
        # These are OpenCost's: it asks Prometheus for them when it is asked for an allocation.
        "kube_node_status_allocatable": ("node", "resource"),
        "kube_pod_container_status_running": _POD,
        "kube_persistentvolume_capacity_bytes": ("persistentvolume",),
        "kube_persistentvolumeclaim_info": ("namespace", "persistentvolumeclaim"),
        "kube_persistentvolumeclaim_resource_requests_storage_bytes": ("namespace", "persistentvolumeclaim"),
        "kube_namespace_labels": ("namespace",),
    },
)
OPENCOST = Exporter(
    "opencost",
    {
        "node_total_hourly_cost": ("node",),
        "node_cpu_hourly_cost": ("node",),
        "node_ram_hourly_cost": ("node",),
        "node_gpu_hourly_cost": ("node",),
        "kubecost_node_is_spot": ("node",),
        "pv_hourly_cost": ("persistentvolume",),
        "container_cpu_allocation": _POD,
        "container_memory_allocation_bytes": _POD,
        "pod_pvc_allocation": _POD,
        "kubecost_cluster_management_cost": (),
    },
)
KARPENTER = Exporter(
    "karpenter",
    {
        "karpenter_cloudprovider_instance_type_offering_price_estimate": ("instance_type", "capacity_type", "zone"),
        "karpenter_nodeclaims_created_total": ("nodepool",),
        "karpenter_nodes_created_total": ("nodepool",),
    },
)
SANDBOXES = Exporter(
    "agent-sandbox",
    {
        "agent_sandboxes": ("namespace", "ready_condition", "owned_by"),
        "agent_sandbox_claim_creation_total": ("namespace", "launch_type", "pod_condition"),
        "agent_sandbox_claim_controller_startup_latency_ms": ("launch_type",),
    },
    frozenset({"agent_sandbox_claim_controller_startup_latency_ms"}),
)
SERVICE = Exporter(
    "workspace-service",
    {
        "agentenv_claim_seconds": ("class", "outcome"),
        "agentenv_pool_hits_total": ("class",),
        "agentenv_pool_misses_total": ("class", "why"),
        "agentenv_workspaces": ("class", "state"),
        "agentenv_suspends_total": ("class", "because"),
        "agentenv_restarts_total": ("class", "why"),
        "agentenv_fargate_pods_replaced_total": ("namespace",),
        "agentenv_budget_actions_total": ("action",),
        "agentenv_requests_total": ("route", "method", "code"),
        "agentenv_request_seconds": ("route", "method"),
        "agentenv_ledger_rows_total": (),
        "agentenv_loop_seconds": ("loop",),
        "agentenv_loop_failures_total": ("loop",),
        "agentenv_leader": (),
        "agentenv_findings": ("loop", "kind"),
        "agentenv_unreadable_objects": ("kind",),
        "agentenv_volume_bytes": ("persistentvolume",),
    },
    frozenset({"agentenv_claim_seconds", "agentenv_request_seconds", "agentenv_loop_seconds"}),
)
PROMETHEUS = Exporter(
    "prometheus",
    {"prometheus_rule_evaluation_failures_total": ("rule_group",), "prometheus_tsdb_head_series": ()},
)

EXPORTERS = (CADVISOR, OBJECTS, OPENCOST, KARPENTER, SANDBOXES, SERVICE, PROMETHEUS)
