"""The NetworkPolicy of the workspace service, and the Services in front of it.

Pods use a Service of type ClusterIP, which costs nothing and preserves their address: the credential exchange only
accepts a sandbox's own address. With a domain there is also a Network Load Balancer, which EKS's own controller
creates, so the environment runs no controller for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL, DAEMON_PORT
from agentenv.core.service.deployment import HTTP, LABELS, METRICS, METRICS_PORT, object_metadata
from agentenv.core.service.rbac import NAME

Plain = dict[str, Any]

DOOR = f"{NAME}-door"
_BALANCER = "service.beta.kubernetes.io/aws-load-balancer"
TAGS = f"{_BALANCER}-additional-resource-tags"
_CIPHERS = "ELBSecurityPolicy-TLS13-1-2-2021-06"


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


def load_balancer_service(certificate: str, ranges: Sequence[str], *, internal: bool) -> Plain:
    """Return the Service of the load balancer, which terminates TLS and preserves the addresses of callers."""
    annotations = {
        "type": "nlb",
        "internal": str(internal).lower(),
        "ssl-cert": certificate,
        "ssl-ports": "443",
        "ssl-negotiation-policy": _CIPHERS,
        "backend-protocol": "tcp",
        # Otherwise callers in a zone without a pod of the service would get no response.
        "cross-zone-load-balancing-enabled": "true",
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            **object_metadata(DOOR),
            "annotations": {f"{_BALANCER}-{key}": value for key, value in annotations.items()},
        },
        "spec": {
            "type": "LoadBalancer",
            "selector": LABELS,
            "ports": [{"name": "https", "port": 443, "targetPort": HTTP, "protocol": "TCP"}],
            # Preserves the addresses of callers, for rate limits and logs.
            "externalTrafficPolicy": "Local",
            "loadBalancerSourceRanges": list(ranges),
        },
    }


def service_network_policy(
    port: int, callers: Sequence[str], reached: Sequence[str | None] = (), *, controls_sandboxes: bool = False
) -> Plain:
    """Return the NetworkPolicy for all pods in the service's namespace.

    The addresses of the API server and of AWS endpoints are not known in advance, so egress is limited by port. The
    same holds for the URLs in `reached`: the callers' issuer, Prometheus and the collector of traces.
    """
    pods: Plain = {"namespaceSelector": {}}
    ingress: list[Plain] = [
        {"from": [pods, *({"ipBlock": {"cidr": cidr}} for cidr in callers)], "ports": [_port(port)]},
        {"from": [pods], "ports": [_port(METRICS_PORT)]},
    ]
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
