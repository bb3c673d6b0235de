"""The NetworkPolicy of the workspace service, and the Services in front of it.

Pods use a Service of type ClusterIP, which costs nothing and preserves their address: the credential exchange only
accepts a sandbox's own address. The gateway knows every replica by a headless Service, and leaves out one that does not
answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL, DAEMON_PORT
from agentenv.core.gateway.envoy import AUTHORIZER_PORT
from agentenv.core.gateway.envoy import NAMESPACE as GATEWAY_NAMESPACE
from agentenv.core.service.deployment import (
    AUTHORIZATION,
    HTTP,
    LABELS,
    METRICS,
    METRICS_PORT,
    object_metadata,
)
from agentenv.core.service.rbac import NAME

Plain = dict[str, Any]

AUTHORIZER = f"{NAME}-authorizer"


def cluster_service(port: int) -> Plain:
    """Return the Service for pods, and for Prometheus."""
    ports = [
        {"name": HTTP, "port": port, "targetPort": HTTP, "protocol": "TCP"},
        {"name": METRICS, "port": METRICS_PORT, "targetPort": METRICS, "protocol": "TCP"},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": object_metadata(),
        "spec": {"selector": LABELS, "ports": ports},
    }


def authorizer_service() -> Plain:
    """Return the headless Service for the gateway, which spreads its requests over the pods by itself."""
    ports = [
        {
            "name": AUTHORIZATION,
            "port": AUTHORIZER_PORT,
            "targetPort": AUTHORIZATION,
            "protocol": "TCP",
            "appProtocol": "grpc",
        }
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**object_metadata(), "name": AUTHORIZER},
        "spec": {"clusterIP": "None", "selector": LABELS, "ports": ports},
    }


def service_network_policy(
    port: int, reached: Sequence[str | None] = (), *, controls_sandboxes: bool = False, authorizes: bool = False
) -> Plain:
    """Return the NetworkPolicy for all pods in the service's namespace.

    The addresses of the API server and of AWS endpoints are not known in advance, so egress is limited by port. The
    same holds for the URLs in `reached`: the callers' issuer, Prometheus and the collector of traces.
    """
    pods: Plain = {"namespaceSelector": {}}
    ingress: list[Plain] = [
        {"from": [pods], "ports": [_port(port), _port(METRICS_PORT)]},
    ]
    if authorizes:
        gateway: Plain = {"namespaceSelector": _in_namespace(GATEWAY_NAMESPACE)}
        ingress.append({"from": [gateway], "ports": [_port(AUTHORIZER_PORT)]})
    dns = {"namespaceSelector": _in_namespace("kube-system"), "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    anywhere = {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}}
    egress: list[Plain] = [
        {"to": [dns], "ports": [_port(53, "UDP"), _port(53)]},
        {"to": [anywhere], "ports": [_port(443)]},
    ]
    other_ports = sorted({(_is_within(url), port) for url in reached if url and (port := _port_of(url)) != 443})
    egress += [{"to": [pods if within else anywhere], "ports": [_port(port)]} for within, port in other_ports]
    if controls_sandboxes:
        classes: Plain = {"namespaceSelector": {"matchExpressions": [{"key": CLASS_LABEL, "operator": "Exists"}]}}
        egress.append({"to": [classes], "ports": [_port(DAEMON_PORT)]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": object_metadata(),
        "spec": {
            "podSelector": {},  # all pods of its namespace
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    }


def _port(number: int, protocol: str = "TCP") -> Plain:
    return {"protocol": protocol, "port": number}


def _port_of(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def _is_within(url: str) -> bool:
    """Return whether a URL is that of a Service in the cluster."""
    host = urlsplit(url).hostname or ""
    return "." not in host or host.endswith((".svc", ".svc.cluster.local"))


def _in_namespace(namespace: str) -> Plain:
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
