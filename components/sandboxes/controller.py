"""The flags and the Deployment of the agent-sandbox controller."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader

NAME = "agent-sandbox-controller"
NAMESPACE = "agent-sandbox-system"
CONFIGURATION = "agent-sandbox-config"
DOMAINS_KEY = "allowed-label-domains"
METRICS, HEALTH = 8080, 8081


class ControllerFlags(TypedDict):
    """The flags of the controller. Defaults: those of the controller."""

    claim_workers: NotRequired[int]
    """The number of claims that are reconciled concurrently."""

    sandbox_workers: NotRequired[int]
    """The number of sandboxes that are reconciled concurrently."""

    refill_rate: NotRequired[int]
    """The maximum number of sandboxes per second that refill one warm pool; 0 for no limit."""

    replenish_seconds: NotRequired[int]
    """Seconds before a warm pool is refilled, so that claims are reconciled first."""

    readiness_seconds: NotRequired[int]
    """Seconds before a warm sandbox that is not ready is replaced."""

    api_connections: NotRequired[int]
    """The number of connections to the API server."""

    tracing: NotRequired[bool]
    """Whether it sends OTLP traces, as configured by the standard environment variables."""


@dataclass(frozen=True)
class ControllerConfig:
    """The configuration of the controller's Deployment."""

    image: str
    replicas: int
    cpu: str
    memory: str
    flags: tuple[str, ...]
    domains: tuple[str, ...]


def command_line_flags(reader: ArgumentReader) -> tuple[str, ...]:
    """Return the command line."""
    numbers = {
        "claim_workers": ("sandbox-claim-concurrent-workers", 1, 1000, ""),
        "sandbox_workers": ("sandbox-concurrent-workers", 1, 1000, ""),
        "refill_rate": ("sandbox-warm-pool-max-refill-rate", 0, 1000, ""),
        "replenish_seconds": ("sandbox-warm-pool-replenish-delay", 0, 3600, "s"),
        "readiness_seconds": ("sandbox-warm-pool-readiness-grace-period", 1, 24 * 3600, "s"),
        "api_connections": ("api-connections", 1, 64, ""),
    }
    flags = [
        f"--{flag}={reader.whole(key, least, most)}{unit}"
        for key, (flag, least, most, unit) in numbers.items()
        if reader.has(key)
    ]
    if reader.flag("tracing", default=False):
        flags.append("--enable-tracing=true")
    # The cache holds only objects with the controller's label, which bounds its memory in a busy cluster.
    return ("--leader-elect=true", "--extensions", "--cache-label-selectors=true", *flags)


def read_label_domains(reader: ArgumentReader, key: str) -> tuple[str, ...]:
    """Return the label domains that a claim may set; `sandbox.users.io` is always among them."""
    domains = reader.texts(key)
    for domain in domains:
        if "/" in domain or "." not in domain or domain.endswith(("kubernetes.io", "k8s.io")):
            raise ArgumentError(f"{reader.path}.{key}", f"'{domain}'", "domains of your own, such as team.example.com")
    return tuple(sorted({"sandbox.users.io", *domains}))


def deployment(config: ControllerConfig) -> dict[str, Any]:
    """Return the spec of the Deployment, which meets the `restricted` pod security standard."""
    match_labels = {"app": NAME}
    resources = {"cpu": config.cpu, "memory": config.memory}
    # The controller reads the domains once, when it starts: a change restarts it.
    domains = hashlib.sha256(joined_domains(config.domains).encode()).hexdigest()[:16]
    return {
        "replicas": config.replicas,
        "selector": {"matchLabels": match_labels},
        "template": {
            "metadata": {
                "labels": match_labels,
                "annotations": {
                    "sandbox.users.io/label-domains": domains,
                    "prometheus.io/scrape": "true",
                    "prometheus.io/port": str(METRICS),
                    "prometheus.io/path": "/metrics",
                },
            },
            "spec": {
                "serviceAccountName": NAME,
                "priorityClassName": "system-cluster-critical",
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": NAME,
                        "image": config.image,
                        "args": list(config.flags),
                        "ports": [
                            {"name": "metrics", "containerPort": METRICS, "protocol": "TCP"},
                            {"name": "healthz", "containerPort": HEALTH, "protocol": "TCP"},
                        ],
                        "livenessProbe": _probe("/healthz", 15, 20),
                        "readinessProbe": _probe("/readyz", 2, 5),
                        "resources": {"requests": resources, "limits": resources},
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "readOnlyRootFilesystem": True,
                            "capabilities": {"drop": ["ALL"]},
                        },
                        "volumeMounts": [
                            {"name": "configuration", "mountPath": "/etc/sandbox-config", "readOnly": True}
                        ],
                    }
                ],
                "volumes": [{"name": "configuration", "configMap": {"name": CONFIGURATION}}],
            },
        },
    }


def joined_domains(domains: Sequence[str]) -> str:
    """Return the domains in the controller's format."""
    return ",".join(domains)


def _probe(path: str, delay: int, period: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "healthz"},
        "initialDelaySeconds": delay,
        "periodSeconds": period,
    }
