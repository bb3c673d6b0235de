"""The Kubernetes objects of the gateway: Envoy's Deployment with its configuration, budget, network policy and RBAC.

A pod is ready only when the load balancer regards it as healthy: the service's loops register its address as a target
and then set its readiness gate. So a rollout ends no pod before another one gets requests.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL, DAEMON_PORT
from agentenv.core.gateway.envoy import (
    ADMIN_SOCKET,
    AUTHORIZER_PORT,
    HTTP_PORT,
    METRICS_PATH,
    NAMESPACE,
    READY_PATH,
    STATUS_PORT,
    EnvoyPlan,
    bootstrap,
)
from agentenv.core.service.deployment import DNS_CONFIG, USER, spread
from agentenv.core.service.rbac import LOOK
from agentenv.core.service.rbac import NAME as SERVICE

Plain = dict[str, Any]

NAME = "envoy"
LABELS = {"app.kubernetes.io/name": NAME}
REGISTERED = "sandbox.users.io/registered"  # the readiness gate of a pod
TARGETS = f"{NAME}-targets"
CONFIG_FOLDER, CONFIG_FILE = "/etc/envoy", "envoy.json"
_SOCKETS = ADMIN_SOCKET.rpartition("/")[0]
# The balancer sends new connections for so long after a target was deregistered.
DRAIN_SECONDS = 90
HTTP, STATUS = "http", "status"


@dataclass(frozen=True)
class GatewaySettings:
    """The settings of the Deployment."""

    image: str
    replicas: int
    cpu: str
    memory: str
    envoy: EnvoyPlan


def _metadata(name: str = NAME) -> Plain:
    return {"name": name, "namespace": NAMESPACE, "labels": LABELS}


def _config(settings: GatewaySettings) -> str:
    return json.dumps(bootstrap(settings.envoy), indent=1, sort_keys=True)


def config_map(settings: GatewaySettings) -> Plain:
    """Return the ConfigMap with Envoy's configuration."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(), "data": {CONFIG_FILE: _config(settings)}}


def disruption_budget() -> Plain:
    """Return the PodDisruptionBudget: one pod may be evicted at a time, even if it is the only one."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _metadata(), "spec": spec}


def service_account() -> Plain:
    """Return the service account, which has no rights and whose token is not mounted."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(),
        "automountServiceAccountToken": False,
    }


def network_policy(service_port: int, balancer_ranges: Sequence[str]) -> Plain:
    """Return the NetworkPolicy: from the load balancer, to sandboxes' workspaced and to the service, and to DNS."""
    resolvers: Plain = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    classes: Plain = {"namespaceSelector": {"matchExpressions": [{"key": CLASS_LABEL, "operator": "Exists"}]}}
    service: Plain = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": SERVICE}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": SERVICE}},
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(),
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {
                    "from": [{"ipBlock": {"cidr": cidr}} for cidr in balancer_ranges],
                    "ports": [_tcp(HTTP_PORT), _tcp(STATUS_PORT)],
                },
                # Prometheus.
                {"from": [{"namespaceSelector": {}}], "ports": [_tcp(STATUS_PORT)]},
            ],
            "egress": [
                {"to": [resolvers], "ports": [{"protocol": "UDP", "port": 53}, _tcp(53)]},
                {"to": [classes], "ports": [_tcp(DAEMON_PORT)]},
                {"to": [service], "ports": [_tcp(service_port), _tcp(AUTHORIZER_PORT)]},
            ],
        },
    }


def target_role() -> Plain:
    """Return the Role by which the service's loops register the pods as targets of the load balancer."""
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": sorted(LOOK)},
        {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
    ]
    metadata = {"name": TARGETS, "namespace": NAMESPACE}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules}


def target_role_binding() -> Plain:
    """Return the RoleBinding of that Role to the service's account."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": TARGETS, "namespace": NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": TARGETS},
        "subjects": [{"kind": "ServiceAccount", "name": SERVICE, "namespace": SERVICE}],
    }


def deployment(settings: GatewaySettings) -> Plain:
    """Return the Deployment. It is rolled out when the configuration changes, because Envoy reads it at its start."""
    digest = hashlib.sha256(_config(settings).encode()).hexdigest()[:16]
    annotations = {
        "sandbox.users.io/settings": digest,
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(STATUS_PORT),
        "prometheus.io/path": METRICS_PATH,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(),
        "spec": {
            "replicas": settings.replicas,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": LABELS},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": LABELS, "annotations": annotations}, "spec": _pod(settings)},
        },
    }


def _pod(settings: GatewaySettings) -> Plain:
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "dnsConfig": DNS_CONFIG,
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": DRAIN_SECONDS + 30,
        "readinessGates": [{"conditionType": REGISTERED}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            spread("topology.kubernetes.io/zone", LABELS),
            spread("kubernetes.io/hostname", LABELS),
        ],
        "containers": [_container(settings)],
        "volumes": [
            {"name": "configuration", "configMap": {"name": NAME}},
            {"name": "sockets", "emptyDir": {"sizeLimit": "1Mi"}},
        ],
    }


def _container(settings: GatewaySettings) -> Plain:
    probe = {"httpGet": {"path": READY_PATH, "port": STATUS}, "timeoutSeconds": 3}
    return {
        "name": NAME,
        "image": settings.image,
        "args": ["-c", f"{CONFIG_FOLDER}/{CONFIG_FILE}", "--disable-hot-restart", "--concurrency", "2"],
        "ports": [
            {"name": HTTP, "containerPort": HTTP_PORT, "protocol": "TCP"},
            {"name": STATUS, "containerPort": STATUS_PORT, "protocol": "TCP"},
        ],
        "startupProbe": {**probe, "periodSeconds": 1, "failureThreshold": 60},
        "livenessProbe": {**probe, "periodSeconds": 20, "failureThreshold": 3},
        "readinessProbe": {**probe, "periodSeconds": 5, "failureThreshold": 2},
        "lifecycle": {"preStop": {"sleep": {"seconds": DRAIN_SECONDS}}},
        "resources": {
            "requests": {"cpu": settings.cpu, "memory": settings.memory},
            "limits": {"cpu": "2", "memory": settings.memory},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "configuration", "mountPath": CONFIG_FOLDER, "readOnly": True},
            {"name": "sockets", "mountPath": _SOCKETS},
        ],
    }


def _tcp(port: int) -> Plain:
    return {"protocol": "TCP", "port": port}
