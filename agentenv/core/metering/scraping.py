"""The scrape configuration of Prometheus, as plain data.

Pods of exporters are discovered in their namespaces, and only metrics in use are kept (exporters.py). Usage and labels
are scraped every 15 seconds, so that a rate over a minute has four samples. Other metrics are scraped less often.
"""

from __future__ import annotations

from typing import Any

from agentenv.core.metering import locations
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
    """Return the scrape jobs; `service` is whether the workspace service is deployed."""
    return [
        _kubelets(),
        # What it says of pods has their labels, not its own.
        _pods(OBJECTS, locations.MEASURES, locations.MEASURES_PORT, OFTEN, honor_labels=True),
        {
            **_job(OPENCOST, EACH_MINUTE, honor_labels=True),
            "static_configs": [
                {"targets": [f"{locations.OPENCOST}.{locations.NAMESPACE}.svc:{locations.OPENCOST_PORT}"]}
            ],
        },
        _pods(KARPENTER, locations.KARPENTER, locations.KARPENTER_PORT, RARELY),
        _pods(SANDBOXES, locations.SANDBOX_CONTROLLER, locations.SANDBOX_CONTROLLER_PORT, EACH_MINUTE),
        *([_pods(SERVICE, locations.SERVICE, locations.SERVICE_PORT, EACH_MINUTE)] if service else []),
        {
            **_job(PROMETHEUS, EACH_MINUTE),
            "static_configs": [{"targets": [f"localhost:{locations.PROMETHEUS_PORT}"]}],
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
    """Return the job of all kubelets, verified with the CA of the cluster."""
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
    """Return the job of all pods of a namespace with a port; each replica is scraped."""
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
