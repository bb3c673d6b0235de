"""The pods of tenants: sandboxes wherever they stand, and whatever else runs among them.

A pod is a tenant's where a Sandbox or a SandboxTemplate makes it, where it has the label of a class, or where it runs
in a namespace of sandboxes.
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
from agentenv.policies.view.tenants.namespaces import Labels, labels_of, place_of, space_of, spaces

# Set by the controller on the pods that it makes (agent-sandbox v1.0.3, controllers and extensions/controllers).
NAME_HASH: Final = "agents.x-k8s.io/sandbox-name-hash"
TEMPLATE_HASH: Final = "agents.x-k8s.io/sandbox-template-ref-hash"
# Whose sandbox it is says the claim, at run time.
CLAIMED: Final = (USER_LABEL, WORKSPACE_LABEL, MODE_LABEL, TASK_LABEL)
STRENGTH: Final = {"verified": 0, "standard": 1, "untrusted": 2}


@dataclass(frozen=True, eq=False)
class Tenant:
    """A pod of a tenant's, with its namespace and all labels that it will have."""

    pod: PodSpec
    namespace: str | Unknown
    labels: Labels

    @property
    def root(self) -> Field:
        """Where it stands."""
        return self.pod.root

    @property
    def owner(self) -> KubernetesObject:
        """What makes it."""
        return self.pod.owner

    @property
    def class_name(self) -> str | Unknown | None:
        """The class it is of, by its own label or its namespace's name; None where nothing tells."""
        if self.labels is UNKNOWN:
            return UNKNOWN
        if (said := self.labels.get(CLASS_LABEL)) is not None:
            return said
        if isinstance(self.namespace, str) and self.namespace.startswith("sandbox-"):
            return self.namespace.removeprefix("sandbox-")
        return None

    def selected_by(self, selector: object) -> bool | None:
        """Whether a selector selects it; None where that is not known. No selector at all selects everything."""
        return matches(selector, self.labels)


@once_per_graph
def tenants(graph: Graph) -> list[Tenant]:
    """The tenants' pods of the stack."""
    found: list[Tenant] = []
    for pod in graph.pods:
        if pod.patch:
            continue
        name = place_of(graph, pod.owner)
        space = spaces(graph).get(name) if isinstance(name, str) else None
        if pod.sandbox or pod.labels.has(CLASS_LABEL) or (space is not None and space.tenants):
            found.append(Tenant(pod, name, _labels(pod)))
    return found


@once_per_graph
def _by_place(graph: Graph) -> dict[str | Unknown, list[Tenant]]:
    found: dict[str | Unknown, list[Tenant]] = {}
    for tenant in tenants(graph):
        found.setdefault(tenant.namespace, []).append(tenant)
    return found


def tenants_in(graph: Graph, namespace: str | Unknown) -> list[Tenant]:
    """Those that are, or may be, in that namespace."""
    if namespace is UNKNOWN:
        return tenants(graph)
    return [*_by_place(graph).get(namespace, []), *_by_place(graph).get(UNKNOWN, [])]


def tier_of(graph: Graph, tenant: Tenant) -> Field:
    """What it says of its tier: on the pod, by the nodes it wants, on its object or on its namespace.

    The strongest word of all counts: a class does not become weaker by what one of its pods says.
    """
    pod = tenant.pod
    found = [pod.labels.at(TIER_LABEL), pod.at("nodeSelector", TIER_LABEL), tenant.owner.labels.at(TIER_LABEL)]
    space = space_of(graph, tenant.namespace)
    if space is not None and space.made_by is not None:
        found.append(space.made_by.labels.at(TIER_LABEL))
    known = [field for field in found if field.known]
    strongest = any(field.raw == "untrusted" for field in known)
    if known and (strongest or not any(field.unknown for field in found)):
        return max(known, key=lambda field: STRENGTH.get(field.raw, -1) if isinstance(field.raw, str) else -1)
    return next(iter([field for field in found if field.unknown] or found))


def parent_of(graph: Graph, tenant: Tenant) -> Field:
    """The class that it names as its parent: on the pod, on its object or on its namespace."""
    places = [tenant.root.at("metadata"), tenant.owner.at("metadata")]
    space = space_of(graph, tenant.namespace)
    if space is not None and space.made_by is not None:
        places.append(space.made_by.at("metadata"))
    found = [place.at(kind, PARENT) for place in places for kind in ("labels", "annotations")]
    return next((field for field in found if field.known), next((field for field in found if field.unknown), found[0]))


def account_of(pod: PodSpec) -> str | Unknown:
    """The service account it runs as; the older name of the field still counts (Kubernetes API reference)."""
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
    return {**own, **_added(pod.owner)}


def _added(owner: KubernetesObject) -> Mapping[str, str | Unknown]:
    """Labels of the controller's; of a template's pods nobody knows the sandbox yet."""
    name = owner.name.raw
    hashed: str | Unknown = name_hash(name) if isinstance(name, str) else UNKNOWN
    if owner.kind == "SandboxTemplate":
        return {NAME_HASH: UNKNOWN, TEMPLATE_HASH: hashed}
    return {NAME_HASH: hashed}


def name_hash(name: str) -> str:
    """The controller's short form of a name: 32 bits by FNV-1a, in hexadecimal."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 % 2**32
    return f"{value:08x}"
