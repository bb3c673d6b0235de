"""The flags and the Deployment of the agent-sandbox controller."""

import hashlib
from datetime import timedelta
from typing import Any

from agentenv.config.sections.sandbox_controller import ControllerFlags, SandboxController
from agentenv.core.plan import SandboxControllerPlan

NAME = "agent-sandbox-controller"
NAMESPACE = "agent-sandbox-system"
CONFIGURATION = "agent-sandbox-config"
DOMAINS_KEY = "allowed-label-domains"
METRICS, HEALTH = 8080, 8081


def command_line_flags(flags: ControllerFlags) -> tuple[str, ...]:
    """Return the command line; a flag without a value has the default of the controller's release."""
    values = {
        "sandbox-claim-concurrent-workers": flags.claim_workers,
        "sandbox-concurrent-workers": flags.sandbox_workers,
        "sandbox-warm-pool-max-refill-rate": flags.refill_rate,
        "sandbox-warm-pool-replenish-delay": _seconds(flags.replenish_delay),
        "sandbox-warm-pool-readiness-grace-period": _seconds(flags.readiness_grace),
        "api-connections": flags.api_connections,
        "enable-tracing": "true" if flags.tracing else None,
    }
    chosen = [f"--{flag}={value}" for flag, value in values.items() if value is not None]
    # The cache holds only objects with the controller's label, which bounds its memory in a busy cluster.
    return ("--leader-elect=true", "--extensions", "--cache-label-selectors=true", *chosen)


def _seconds(duration: timedelta | None) -> str | None:
    return None if duration is None else f"{int(duration.total_seconds())}s"


def deployment(plan: SandboxControllerPlan) -> dict[str, Any]:
    """Return the spec of the Deployment, which meets the `restricted` pod security standard."""
    settings, match_labels = plan.settings, {"app": NAME}
    resources = {"cpu": str(settings.cpu), "memory": str(settings.memory)}
    # The controller reads the domains once, when it starts: a change restarts it.
    domains = hashlib.sha256(joined_domains(settings).encode()).hexdigest()[:16]
    return {
        "replicas": settings.replicas,
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
                        "image": plan.image,
                        "args": list(command_line_flags(settings.flags)),
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


def joined_domains(settings: SandboxController) -> str:
    """Return the label domains that a claim may set, in the controller's format; `sandbox.users.io` is always one."""
    return ",".join(sorted({"sandbox.users.io", *settings.label_domains}))


def _probe(path: str, delay: int, period: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "healthz"},
        "initialDelaySeconds": delay,
        "periodSeconds": period,
    }
