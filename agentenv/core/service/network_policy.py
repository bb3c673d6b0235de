"""Who reaches the workspace service and whom it reaches: its network policy, and the services in front of it.

Inside the cluster it is a service of type ClusterIP, which costs nothing and leaves a pod's own address to be seen: a
sandbox is given its identity only from there. Under a domain there is one load balancer of the fourth layer beside it,
made by the cloud's own controller in EKS, with no controller of ours to run.
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
    """The service by which pods find it, and Prometheus its numbers."""
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
    """The service by which it is reached under its domain: a load balancer ends TLS and keeps callers' addresses."""
    said = {
        "type": "nlb",
        "internal": str(internal).lower(),
        "ssl-cert": certificate,
        "ssl-ports": "443",
        "ssl-negotiation-policy": _CIPHERS,
        "backend-protocol": "tcp",
        # Else a caller whose zone has no pod of it would get no answer.
        "cross-zone-load-balancing-enabled": "true",
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            **object_metadata(DOOR),
            "annotations": {f"{_BALANCER}-{key}": value for key, value in said.items()},
        },
        "spec": {
            "type": "LoadBalancer",
            "selector": LABELS,
            "ports": [{"name": "https", "port": 443, "targetPort": HTTP, "protocol": "TCP"}],
            # Callers are limited and recorded by their addresses.
            "externalTrafficPolicy": "Local",
            "loadBalancerSourceRanges": list(ranges),
        },
    }


def service_network_policy(
    port: int, callers: Sequence[str], reached: Sequence[str | None] = (), *, controls_sandboxes: bool = False
) -> Plain:
    """Who comes in and what goes out; nothing else does, for the network is in strict mode.

    The API server and AWS's endpoints have addresses that nobody knows in advance: they are reached at their port. So
    are the URLs that the settings name: callers' issuer, Prometheus, and where traces go.
    """
    pods: Plain = {"namespaceSelector": {}}
    inward: list[Plain] = [
        {"from": [pods, *({"ipBlock": {"cidr": cidr}} for cidr in callers)], "ports": [_port(port)]},
        {"from": [pods], "ports": [_port(METRICS_PORT)]},
    ]
    dns = {"namespaceSelector": _in_namespace("kube-system"), "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    anywhere = {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}}
    outward: list[Plain] = [
        {"to": [dns], "ports": [_port(53, "UDP"), _port(53)]},
        {"to": [anywhere], "ports": [_port(443)]},
    ]
    further = sorted({(_is_within(url), one) for url in reached if url and (one := _port_of(url)) != 443})
    outward += [{"to": [pods if within else anywhere], "ports": [_port(one)]} for within, one in further]
    if controls_sandboxes:
        classes: Plain = {"namespaceSelector": {"matchExpressions": [{"key": CLASS_LABEL, "operator": "Exists"}]}}
        outward.append({"to": [classes], "ports": [_port(DAEMON_PORT)]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": object_metadata(),
        "spec": {
            "podSelector": {},  # all there is in its namespace
            "policyTypes": ["Ingress", "Egress"],
            "ingress": inward,
            "egress": outward,
        },
    }


def _port(number: int, protocol: str = "TCP") -> Plain:
    return {"protocol": protocol, "port": number}


def _port_of(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def _is_within(url: str) -> bool:
    """Whether it is a service of the cluster's own."""
    host = urlsplit(url).hostname or ""
    return "." not in host or host.endswith((".svc", ".svc.cluster.local"))


def _in_namespace(namespace: str) -> Plain:
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
