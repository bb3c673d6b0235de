"""The workspace service as it runs: its Deployment, disruption budget and settings file, as plain documents.

Its pods are for the system's nodes, which are never those of sandboxes. One goes at a time, and none while another is
not back: the service is asked whenever somebody wants a computer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentenv.core.service.rbac import NAME

Plain = dict[str, Any]

HTTP, METRICS = "http", "metrics"
METRICS_PORT = 9090
LABELS = {"app.kubernetes.io/name": NAME}
PLACE = "/etc/workspace-service"
FILE = "settings.json"
# Endpoints are told of a pod's end a moment after it; until then it answers.
_LINGER_SECONDS = 5
_GRACE_SECONDS = 60
USER = 65532


@dataclass(frozen=True)
class ServiceSettings:
    """How it is run."""

    image: str
    replicas: int
    port: int
    cpu: str
    memory: str
    flags: Sequence[Any] = ()  # beside those that are always there; values may be known later


def object_metadata(name: str = NAME) -> Plain:
    """What an object of it is called and labelled."""
    return {"name": name, "namespace": NAME, "labels": LABELS}


def configuration(settings: str) -> Plain:
    """The ConfigMap with the settings file."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": object_metadata(), "data": {FILE: settings}}


def disruption_budget() -> Plain:
    """How many of its pods may be away at once by somebody's will: one, and a single one may go."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": object_metadata(),
        "spec": spec,
    }


def deployment(running: ServiceSettings, settings: str) -> Plain:
    """The Deployment; other settings make its pods start again, because they are read once."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": object_metadata(),
        "spec": {
            "replicas": running.replicas,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": LABELS},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {
                    "labels": LABELS,
                    "annotations": {
                        "sandbox.users.io/settings": hashlib.sha256(settings.encode()).hexdigest()[:16],
                        "prometheus.io/scrape": "true",
                        "prometheus.io/port": str(METRICS_PORT),
                        "prometheus.io/path": "/metrics",
                    },
                },
                "spec": _pod(running),
            },
        },
    }


def _pod(running: ServiceSettings) -> Plain:
    return {
        "serviceAccountName": NAME,
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,  # the token that is traded for AWS's keys is for the group
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [_spread("topology.kubernetes.io/zone"), _spread("kubernetes.io/hostname")],
        "containers": [_container(running)],
        "volumes": [
            {"name": "settings", "configMap": {"name": NAME}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "64Mi"}},
        ],
    }


def _container(running: ServiceSettings) -> Plain:
    amounts = {"cpu": running.cpu, "memory": running.memory}
    return {
        "name": NAME,
        "image": running.image,
        "args": [
            f"--settings={PLACE}/{FILE}",
            f"--port={running.port}",
            f"--metrics-port={METRICS_PORT}",
            *running.flags,
        ],
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [
            {"name": HTTP, "containerPort": running.port, "protocol": "TCP"},
            {"name": METRICS, "containerPort": METRICS_PORT, "protocol": "TCP"},
        ],
        "startupProbe": _probe("/healthz", period=2, failures=60),
        "livenessProbe": _probe("/healthz", period=20, failures=3),
        "readinessProbe": _probe("/readyz", period=5, failures=2),
        "lifecycle": {"preStop": {"sleep": {"seconds": _LINGER_SECONDS}}},
        # A core that is free may be used: what is asked for is what it takes at rest.
        "resources": {"requests": amounts, "limits": {"cpu": "1", "memory": running.memory}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "settings", "mountPath": PLACE, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - in the container
        ],
    }


def _probe(path: str, *, period: int, failures: int) -> Plain:
    return {
        "httpGet": {"path": path, "port": HTTP},
        "periodSeconds": period,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    }


def _spread(over: str) -> Plain:
    # Where there is one zone or node only, it runs there rather than not at all.
    return {
        "maxSkew": 1,
        "topologyKey": over,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": LABELS},
    }


def service_account(annotations: Mapping[str, Any]) -> Plain:
    """Who it is in the cluster, and by an annotation to AWS."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {**object_metadata(), "annotations": dict(annotations)},
    }
