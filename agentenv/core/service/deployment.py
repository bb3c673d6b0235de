"""The Deployment, PodDisruptionBudget, ConfigMap and ServiceAccount of the workspace service, as plain documents.

Its pods run on system nodes, never on those of sandboxes. One pod is disrupted at a time, and only while all others are
ready, because every request for a workspace needs the service.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentenv.core.gateway.envoy import AUTHORIZER_PORT
from agentenv.core.service.rbac import NAME
from agentenv.core.values.quantities import Quantity

Plain = dict[str, Any]

HTTP, METRICS, AUTHORIZATION = "http", "metrics", "authz"
METRICS_PORT = 9090
LABELS = {"app.kubernetes.io/name": NAME}
# The loops are a Deployment of their own, which the Services do not select.
LOOPS = f"{NAME}-loops"
LOOPS_LABELS = {"app.kubernetes.io/name": LOOPS}
# At rest with a thousand workspaces. With ten thousand a pass takes up to the limit, which is that of the API.
LOOPS_CPU, LOOPS_MEMORY = "50m", "128Mi"
# One replica: a pass may be a minute late. Its pod is replaced after so many seconds when its node is lost.
_LOST_NODE_SECONDS = 30
PLACE = "/etc/workspace-service"
FILE = "settings.json"
# Endpoints are updated some time after a pod's deletion; until then it still serves requests.
_LINGER_SECONDS = 5
_GRACE_SECONDS = 60
USER = 65532
# Names of AWS have three dots and more, and full names of Services four: they are found by the first query. By default
# names with fewer than five dots are queried in each search domain first, as shorter names of Services still are.
DNS_CONFIG: Plain = {"options": [{"name": "ndots", "value": "3"}]}


@dataclass(frozen=True)
class ServiceSettings:
    """The settings of the Deployment."""

    image: str
    replicas: int
    port: int
    cpu: str
    memory: str
    flags: Sequence[Any] = ()  # additional arguments; they may be outputs that are not known yet
    authorizes: bool = False  # whether it answers for the gateway


def object_metadata(name: str = NAME) -> Plain:
    """Return the metadata of an object of the service."""
    return {"name": name, "namespace": NAME, "labels": LOOPS_LABELS if name == LOOPS else LABELS}


def configuration(settings: str) -> Plain:
    """Return the ConfigMap with the settings file."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": object_metadata(), "data": {FILE: settings}}


def disruption_budget() -> Plain:
    """Return the PodDisruptionBudget: one pod may be evicted at a time, even if it is the only one."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": object_metadata(),
        "spec": spec,
    }


def loops_deployment(running: ServiceSettings, settings: str) -> Plain:
    """Return the Deployment of the loops, which serves no requests but probes."""
    document = deployment(
        replace(running, replicas=1, authorizes=False, flags=["--loops", *running.flags]), settings, LOOPS
    )
    pod: Plain = document["spec"]["template"]["spec"]
    lost = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _LOST_NODE_SECONDS}
    pod["tolerations"] = [
        {"key": f"node.kubernetes.io/{condition}", **lost} for condition in ("not-ready", "unreachable")
    ]
    # A single pod needs no spread.
    del pod["topologySpreadConstraints"]
    (container,) = pod["containers"]
    # No endpoint leads to it, so nothing has to be removed before it ends.
    del container["lifecycle"]
    memory = min(LOOPS_MEMORY, running.memory, key=lambda quantity: Quantity.parse(quantity).value)
    container["resources"]["requests"] = {"cpu": LOOPS_CPU, "memory": memory}
    return document


def deployment(running: ServiceSettings, settings: str, name: str = NAME) -> Plain:
    """Return a Deployment. It is rolled out when the settings change, because pods read them only at their start."""
    metadata = object_metadata(name)
    labels: Plain = metadata["labels"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": running.replicas,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {
                        "sandbox.users.io/settings": hashlib.sha256(settings.encode()).hexdigest()[:16],
                        "prometheus.io/scrape": "true",
                        "prometheus.io/port": str(METRICS_PORT),
                        "prometheus.io/path": "/metrics",
                    },
                },
                "spec": _pod(running, labels),
            },
        },
    }


def _pod(running: ServiceSettings, labels: Plain) -> Plain:
    return {
        "serviceAccountName": NAME,
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "enableServiceLinks": False,
        "dnsConfig": DNS_CONFIG,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,  # the token for AWS credentials is readable by the group
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            spread("topology.kubernetes.io/zone", labels),
            spread("kubernetes.io/hostname", labels),
        ],
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
            *([f"--authorizer-port={AUTHORIZER_PORT}"] if running.authorizes else []),
            *running.flags,
        ],
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [
            {"name": HTTP, "containerPort": running.port, "protocol": "TCP"},
            {"name": METRICS, "containerPort": METRICS_PORT, "protocol": "TCP"},
            *(
                [{"name": AUTHORIZATION, "containerPort": AUTHORIZER_PORT, "protocol": "TCP"}]
                if running.authorizes
                else []
            ),
        ],
        "startupProbe": _probe("/healthz", period=2, failures=60),
        "livenessProbe": _probe("/healthz", period=20, failures=3),
        "readinessProbe": _probe("/readyz", period=5, failures=2),
        "lifecycle": {"preStop": {"sleep": {"seconds": _LINGER_SECONDS}}},
        # The request is its usage at rest; it may use a free core.
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


def spread(over: str, labels: Mapping[str, str]) -> Plain:
    """Return a preference for pods of these labels in different zones or on different nodes."""
    # With a single zone or node, all pods run there.
    return {
        "maxSkew": 1,
        "topologyKey": over,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(labels)},
    }


def service_account(annotations: Mapping[str, Any]) -> Plain:
    """Return the service account; an annotation may bind its IAM role."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {**object_metadata(), "annotations": dict(annotations)},
    }
