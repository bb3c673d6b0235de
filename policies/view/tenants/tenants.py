"""The pods of tenants: sandboxes, and all other pods in their namespaces.

A pod belongs to a tenant if a Sandbox or SandboxTemplate creates it. It also does if it has the label of a class, or
runs in a namespace of sandboxes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.capabilities.policies.selectors import matches
from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown
from agentenv.core.classes.names import MODE_LABEL, PARENT, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL
from agentenv.core.nodes.tiers import TIER_LABEL
from agentenv.policies.view.cluster.pods import PodSpec
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.resource import KubernetesObject
from agentenv.policies.view.tenants.namespaces import Labels, find_namespace, labels_of, namespace_of, namespaces

# Set by the controller on its pods (agent-sandbox v1.0.3, controllers and extensions/controllers).
NAME_HASH: Final = "agents.x-k8s.io/sandbox-name-hash"
TEMPLATE_HASH: Final = "agents.x-k8s.io/sandbox-template-ref-hash"
# Set by a claim at run time.
CLAIM_LABELS: Final = (USER_LABEL, WORKSPACE_LABEL, MODE_LABEL, TASK_LABEL)
TIER_STRENGTH: Final = {"verified": 0, "standard": 1, "untrusted": 2}


@dataclass(frozen=True, eq=False)
class Tenant:
    """A pod of a tenant, with its namespace and all labels that it will have."""

    pod: PodSpec
    namespace: str | Unknown
    labels: Labels

    @property
    def root(self) -> Field:
        """Return the field of the pod."""
        return self.pod.root

    @property
    def owner(self) -> KubernetesObject:
        """Return the object that creates it."""
        return self.pod.owner

    @property
    def class_name(self) -> str | Unknown | None:
        """Return its class, by its label or its namespace's name; None if it has neither."""
        if self.labels is UNKNOWN:
            return UNKNOWN
        if (label := self.labels.get(CLASS_LABEL)) is not None:
            return label
        if isinstance(self.namespace, str) and self.namespace.startswith("sandbox-"):
            return self.namespace.removeprefix("sandbox-")
        return None

    def selected_by(self, selector: object) -> bool | None:
        """Return whether a selector matches it; None if that is not known. A missing selector matches everything."""
        return matches(selector, self.labels)


@once_per_graph
def tenants(graph: Graph) -> list[Tenant]:
    """Return the pods of tenants in the stack."""
    pods: list[Tenant] = []
    for pod in graph.pods:
        if pod.patch:
            continue
        name = namespace_of(graph, pod.owner)
        space = namespaces(graph).get(name) if isinstance(name, str) else None
        if pod.sandbox or pod.labels.has(CLASS_LABEL) or (space is not None and space.has_tenants):
            pods.append(Tenant(pod, name, _labels(pod)))
    return pods


@once_per_graph
def _by_namespace(graph: Graph) -> dict[str | Unknown, list[Tenant]]:
    by_namespace: dict[str | Unknown, list[Tenant]] = {}
    for tenant in tenants(graph):
        by_namespace.setdefault(tenant.namespace, []).append(tenant)
    return by_namespace


def tenants_in(graph: Graph, namespace: str | Unknown) -> list[Tenant]:
    """Return the pods that are, or may be, in a namespace."""
    if namespace is UNKNOWN:
        return tenants(graph)
    return [*_by_namespace(graph).get(namespace, []), *_by_namespace(graph).get(UNKNOWN, [])]


def tier_of(graph: Graph, tenant: Tenant) -> Field:
    """Return the field with its tier: of the pod, its node selector, its object or its namespace.

    The strongest value counts, so that a single pod cannot weaken its class.
    """
    pod = tenant.pod
    fields = [pod.labels.at(TIER_LABEL), pod.at("nodeSelector", TIER_LABEL), tenant.owner.labels.at(TIER_LABEL)]
    space = find_namespace(graph, tenant.namespace)
    if space is not None and space.declaration is not None:
        fields.append(space.declaration.labels.at(TIER_LABEL))
    known = [field for field in fields if field.known]
    strongest = any(field.raw == "untrusted" for field in known)
    if known and (strongest or not any(field.unknown for field in fields)):
        return max(known, key=lambda field: TIER_STRENGTH.get(field.raw, -1) if isinstance(field.raw, str) else -1)
    return next(iter([field for field in fields if field.unknown] or fields))


def parent_of(graph: Graph, tenant: Tenant) -> Field:
    """Return the field with its parent class: of the pod, its object or its namespace."""
    metadata = [tenant.root.at("metadata"), tenant.owner.at("metadata")]
    space = find_namespace(graph, tenant.namespace)
    if space is not None and space.declaration is not None:
        metadata.append(space.declaration.at("metadata"))
    fields = [each.at(kind, PARENT) for each in metadata for kind in ("labels", "annotations")]
    unknown = next((field for field in fields if field.unknown), fields[0])
    return next((field for field in fields if field.known), unknown)


def service_account_of(pod: PodSpec) -> str | Unknown:
    """Return the service account of a pod. The deprecated field still counts (Kubernetes API reference)."""
    for key in ("serviceAccountName", "serviceAccount"):
        field = pod.at(key)
        if field.unknown:
            return UNKNOWN
        if isinstance(field.raw, str) and field.raw:
            return field.raw
    return "default"


def _labels(pod: PodSpec) -> Labels:
    own = labels_of(pod.labels)
    if own is UNKNOWN or not pod.sandbox:
        return own
    return {**own, **_controller_labels(pod.owner)}


def _controller_labels(owner: KubernetesObject) -> Mapping[str, str | Unknown]:
    """Return the labels that the controller adds. The sandbox of a template's pod is not known yet."""
    name = owner.name.raw
    hashed: str | Unknown = name_hash(name) if isinstance(name, str) else UNKNOWN
    if owner.kind == "SandboxTemplate":
        return {NAME_HASH: UNKNOWN, TEMPLATE_HASH: hashed}
    return {NAME_HASH: hashed}


def name_hash(name: str) -> str:
    """Return the controller's hash of a name: 32 bits of FNV-1a, in hexadecimal."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 % 2**32
    return f"{value:08x}"
