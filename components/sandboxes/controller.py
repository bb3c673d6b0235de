"""The controller that turns claims into sandboxes: its flags, and the Deployment that runs it on Fargate."""

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
    """How the controller works; each is its own default unless told."""

    claim_workers: NotRequired[int]
    """How many claims it works on at once."""

    sandbox_workers: NotRequired[int]
    """How many sandboxes it works on at once."""

    refill_rate: NotRequired[int]
    """The most sandboxes a second with which one pool is filled again; 0 for as many as are missing."""

    replenish_seconds: NotRequired[int]
    """How long it waits before it fills a pool again, so that claims come first."""

    readiness_seconds: NotRequired[int]
    """How long a warm sandbox may take to become ready, before another takes its place."""

    api_connections: NotRequired[int]
    """How many connections to the API it works over."""

    tracing: NotRequired[bool]
    """Whether it sends traces by OTLP, to where the usual variables say."""


@dataclass(frozen=True)
class Running:
    """How the controller is run."""

    image: str
    replicas: int
    cpu: str
    memory: str
    flags: tuple[str, ...]
    domains: tuple[str, ...]


def command_line_flags(reader: ArgumentReader) -> tuple[str, ...]:
    """The command line."""
    numbers = {
        "claim_workers": ("sandbox-claim-concurrent-workers", 1, 1000, ""),
        "sandbox_workers": ("sandbox-concurrent-workers", 1, 1000, ""),
        "refill_rate": ("sandbox-warm-pool-max-refill-rate", 0, 1000, ""),
        "replenish_seconds": ("sandbox-warm-pool-replenish-delay", 0, 3600, "s"),
        "readiness_seconds": ("sandbox-warm-pool-readiness-grace-period", 1, 24 * 3600, "s"),
        "api_connections": ("api-connections", 1, 64, ""),
    }
    told = [
        f"--{flag}={reader.whole(key, least, most)}{unit}"
        for key, (flag, least, most, unit) in numbers.items()
        if reader.has(key)
    ]
    if reader.flag("tracing", default=False):
        told.append("--enable-tracing=true")
    # It looks only for what it has marked itself, which keeps a busy cluster out of its memory.
    return ("--leader-elect=true", "--extensions", "--cache-label-selectors=true", *told)


def read_label_domains(reader: ArgumentReader, key: str) -> tuple[str, ...]:
    """The domains of labels that a claim may set; ours is always among them."""
    asked = reader.texts(key)
    for domain in asked:
        if "/" in domain or "." not in domain or domain.endswith(("kubernetes.io", "k8s.io")):
            raise ArgumentError(f"{reader.path}.{key}", f"'{domain}'", "domains of your own, such as team.example.com")
    return tuple(sorted({"sandbox.users.io", *asked}))


def deployment(running: Running) -> dict[str, Any]:
    """The Deployment's specification, which the restricted standard allows."""
    marks = {"app": NAME}
    amounts = {"cpu": running.cpu, "memory": running.memory}
    # The domains are read once, when it starts: others make it start again.
    domains = hashlib.sha256(joined_domains(running.domains).encode()).hexdigest()[:16]
    return {
        "replicas": running.replicas,
        "selector": {"matchLabels": marks},
        "template": {
            "metadata": {
                "labels": marks,
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
                        "image": running.image,
                        "args": list(running.flags),
                        "ports": [
                            {"name": "metrics", "containerPort": METRICS, "protocol": "TCP"},
                            {"name": "healthz", "containerPort": HEALTH, "protocol": "TCP"},
                        ],
                        "livenessProbe": _probe("/healthz", 15, 20),
                        "readinessProbe": _probe("/readyz", 2, 5),
                        "resources": {"requests": amounts, "limits": amounts},
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
    """The domains as the controller reads them."""
    return ",".join(domains)


def _probe(path: str, delay: int, period: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "healthz"},
        "initialDelaySeconds": delay,
        "periodSeconds": period,
    }
