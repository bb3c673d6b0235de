"""What Prometheus scrapes, and what it keeps of it: as plain data, as its configuration has it.

Each exporter's pods are found in their own namespace, and of what they say only what is asked for here is kept
(exporters.py). Usage and labels are scraped four times a minute, so that a minute's rate has four samples and the
minute in which a slot is adopted is known to a quarter; everything else once.
"""

from __future__ import annotations

from typing import Any

from agentenv.core.metering import locations as places
from agentenv.core.metering.exporters import (
    CADVISOR,
    KARPENTER,
    OBJECTS,
    OPENCOST,
    PROMETHEUS,
    SANDBOXES,
    SERVICE,
    Exporter,
)

Plain = dict[str, Any]

OFTEN, EACH_MINUTE, RARELY = "15s", "1m", "2m"  # what is older than five minutes counts as gone
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def scrape_configs(*, service: bool = True) -> list[Plain]:
    """The jobs; `service` is whether there is a workspace service."""
    return [
        _kubelets(),
        # What it says of pods has their labels, not its own.
        _pods(OBJECTS, places.MEASURES, places.MEASURES_PORT, OFTEN, honor_labels=True),
        {
            **_job(OPENCOST, EACH_MINUTE, honor_labels=True),
            "static_configs": [{"targets": [f"{places.OPENCOST}.{places.NAMESPACE}.svc:{places.OPENCOST_PORT}"]}],
        },
        _pods(KARPENTER, places.KARPENTER, places.KARPENTER_PORT, RARELY),
        _pods(SANDBOXES, places.SANDBOX_CONTROLLER, places.SANDBOX_CONTROLLER_PORT, EACH_MINUTE),
        *([_pods(SERVICE, places.SERVICE, places.SERVICE_PORT, EACH_MINUTE)] if service else []),
        {
            **_job(PROMETHEUS, EACH_MINUTE),
            "static_configs": [{"targets": [f"localhost:{places.PROMETHEUS_PORT}"]}],
        },
    ]


def _job(exporter: Exporter, every: str, *, honor_labels: bool = False) -> Plain:
    return {
        "job_name": exporter.job,
        "scrape_interval": every,
        "scrape_timeout": "10s",
        **({"honor_labels": True} if honor_labels else {}),
        "metric_relabel_configs": [
            {"source_labels": ["__name__"], "action": "keep", "regex": "|".join(exporter.series())}
        ],
    }


def _kubelets() -> Plain:
    """The kubelets of all nodes, known by the certificates that the cluster signed for them."""
    job = _job(CADVISOR, OFTEN)
    return {
        **job,
        "metrics_path": "/metrics/cadvisor",
        "scheme": "https",
        "tls_config": {"ca_file": f"{_ACCOUNT}/ca.crt"},
        "authorization": {"credentials_file": f"{_ACCOUNT}/token"},
        "kubernetes_sd_configs": [{"role": "node"}],
        "relabel_configs": [{"source_labels": ["__meta_kubernetes_node_name"], "target_label": "node"}],
        "metric_relabel_configs": [
            *job["metric_relabel_configs"],
            # Of the node's own slices nothing is asked.
            {"source_labels": ["pod"], "action": "keep", "regex": ".+"},
        ],
    }


def _pods(exporter: Exporter, namespace: str, port: int, every: str, *, honor_labels: bool = False) -> Plain:
    """All pods of a namespace that have this port: of two replicas each says something else."""
    return {
        **_job(exporter, every, honor_labels=honor_labels),
        "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": [namespace]}}],
        "relabel_configs": [
            {
                "source_labels": ["__meta_kubernetes_pod_container_port_number"],
                "action": "keep",
                "regex": str(port),
            },
            {"source_labels": ["__meta_kubernetes_pod_phase"], "action": "keep", "regex": "Running"},
            {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "replica"},
        ],
    }
