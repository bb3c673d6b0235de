"""Parts of the cases: fully hardened pods, and the objects around them."""

from typing import Any

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.core.v1 import Namespace
from pulumi_kubernetes.networking.v1 import NetworkPolicy

IMAGE = "registry.example.com/sandbox@sha256:" + "a" * 64
TAGS = {"environment": "prod", "component": "sample", "owner": "platform", "cost-center": "1"}
LABELS = {"owner": "platform", "environment": "prod", "component": "sample", "cost-center": "1"}
# The internet: everywhere but metadata first of all, and whatever else is somebody's own
WEB: dict[str, Any] = {
    "cidr": "0.0.0.0/0",
    "except": ["169.254.0.0/16", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15"],
}
OPEN = [{"to": [{"ipBlock": WEB}], "ports": [{"port": 443, "protocol": "TCP"}]}]


def labels(name: str, tier: str) -> dict[str, str]:
    """The labels of a class."""
    return {**LABELS, "sandbox.users.io/class": name, "sandbox.users.io/tier": tier}


def pod(*, privileged: bool = False) -> dict[str, Any]:
    """A pod spec."""
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "serviceAccountName": "sandbox",
        "hostUsers": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 20_001,
            "runAsGroup": 20_001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "sandbox",
                "image": IMAGE,
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "privileged": privileged,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "resources": {
                    "requests": {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "1Gi"},
                    "limits": {"cpu": "1", "memory": "256Mi", "ephemeral-storage": "1Gi"},
                },
            }
        ],
    }


def namespace(name: str, api: pulumi.ResourceOptions, tier: str = "verified") -> None:
    """The namespace of a class."""
    enforced = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    Namespace(
        f"{name}-namespace",
        metadata={"name": f"sandbox-{name}", "labels": {**labels(name, tier), **enforced}},
        opts=api,
    )


def policy(
    name: str,
    api: pulumi.ResourceOptions,
    egress: list[dict[str, Any]] | None = None,
    selector: dict[str, Any] | None = None,
) -> None:
    """The one network policy of a class's namespace."""
    spec: Any = {
        "pod_selector": selector or {},
        "policy_types": ["Ingress", "Egress"],
        "ingress": [],
        "egress": egress or [],
    }
    place: Any = {"name": "sandboxes", "namespace": f"sandbox-{name}"}
    NetworkPolicy(f"{name}-policy", metadata=place, spec=spec, opts=api)


def sandbox(name: str, of: str, api: pulumi.ResourceOptions, spec: dict[str, Any]) -> None:
    """One sandbox."""
    CustomResource(
        name,
        api_version="agents.x-k8s.io/v1beta1",
        kind="Sandbox",
        metadata={"name": name, "namespace": f"sandbox-{of}", "labels": labels(of, "verified")},
        spec={"podTemplate": {"metadata": {"labels": labels(of, "verified")}, "spec": spec}},
        opts=api,
    )


def template(
    name: str,
    of: str,
    api: pulumi.ResourceOptions,
    spec: dict[str, Any],
    *,
    tier: str = "verified",
    parent: str | None = None,
) -> None:
    """Return the template of a class's sandboxes."""
    more = {"sandbox.users.io/parent": parent} if parent else {}
    CustomResource(
        name,
        api_version="extensions.agents.x-k8s.io/v1beta1",
        kind="SandboxTemplate",
        metadata={"name": name, "namespace": f"sandbox-{of}", "labels": {**labels(of, tier), **more}},
        spec={
            "networkPolicyManagement": "Unmanaged",
            "podTemplate": {"metadata": {"labels": {**labels(of, tier), **more}}, "spec": spec},
        },
        opts=api,
    )
