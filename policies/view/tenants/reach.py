"""What tenants' pods may reach, and be reached by: all NetworkPolicies that select one together, read rule by rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

from agentenv.core.capabilities.policies.effective_policy import Direction, effective
from agentenv.core.capabilities.policies.policy_rules import read_rule
from agentenv.core.capabilities.sets.reach import Bounds
from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown, as_list, as_mapping
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.resource import KubernetesObject
from agentenv.policies.view.tenants.namespaces import place_of, space_of
from agentenv.policies.view.tenants.tenants import CLAIMED, Tenant, tenants, tenants_in

SIDES: Final[Mapping[Direction, str]] = {"Egress": "to", "Ingress": "from"}
# What the controller writes for a template that says nothing (agent-sandbox v1.0.3, sandboxtemplate_controller.go).
DEFAULT: Final[Mapping[str, object]] = {
    "ingress": [
        {
            "from": [
                {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "agent-sandbox-system"}},
                    "podSelector": {"matchLabels": {"app": "sandbox-router"}},
                }
            ]
        }
    ],
    "egress": [
        {
            "to": [
                {
                    "ipBlock": {
                        "cidr": "0.0.0.0/0",
                        "except": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"],
                    }
                },
                {"ipBlock": {"cidr": "::/0", "except": ["fc00::/7", "fe80::/10"]}},
            ]
        }
    ],
}


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy as it will stand in the cluster: a NetworkPolicy, or the one that a template is given."""

    owner: KubernetesObject
    spec: Field
    namespace: str | Unknown
    plain: Mapping[str, object]
    # The policy that the controller makes, and whether it had to think of the rules itself
    managed: bool = False
    default: bool = False

    def selects(self, tenant: Tenant) -> bool | None:
        """Whether it selects a tenant's pod, as the pod is once somebody has claimed it, or before."""
        if self.managed:
            return tenant.owner is self.owner
        if UNKNOWN in (self.namespace, tenant.namespace):
            return None
        if self.namespace != tenant.namespace:
            return False
        if self.spec.unknown:
            return None
        return tenant.selected_by((as_mapping(self.plain.get("spec")) or {}).get("podSelector"))

    def may_select_claimed(self, tenant: Tenant) -> bool:
        """Whether it selects, or may select, the pod with the labels that a claim brings."""
        if tenant.labels is UNKNOWN:
            return self.selects(tenant) is not False
        claimed: dict[str, str | Unknown] = {**dict.fromkeys(CLAIMED, UNKNOWN), **tenant.labels}
        return self.selects(Tenant(tenant.pod, tenant.namespace, claimed)) is not False

    def governs(self, direction: Direction) -> bool | None:
        """Whether it speaks of a direction: without types of ingress, and of egress where it has rules for it."""
        return self._governed[direction]

    @cached_property
    def _governed(self) -> Mapping[Direction, bool | None]:
        if self.managed:
            return {"Egress": True, "Ingress": True}
        types = self.spec.at("policyTypes")
        if types.unknown or any(one.unknown for one in types.elements()):
            return {"Egress": None, "Ingress": None}
        named = [one.raw for one in types.elements()]
        egress = self.spec.at("egress")
        spoken = None if egress.unknown else bool(egress.elements())
        return {
            "Egress": "Egress" in named if named else spoken,
            "Ingress": "Ingress" in named if named else True,
        }

    @cached_property
    def ways_out(self) -> tuple[tuple[Field, Bounds], ...]:
        """Each rule of egress with what it allows."""
        return tuple(self._rules("Egress"))

    def _rules(self, direction: Direction) -> Iterator[tuple[Field, Bounds]]:
        if self.governs(direction) is False:
            return
        if self.spec.unknown:
            yield self.spec, read_rule(UNKNOWN, direction, self.namespace, self.spec.path)
            return
        listed = as_list((as_mapping(self.plain.get("spec")) or {}).get(direction.lower()))
        field = self.spec.at(direction.lower())
        if listed is None:
            yield field, read_rule(UNKNOWN, direction, self.namespace, field.path)
            return
        for index, rule in enumerate(listed):
            path = f"{field.path}[{index}]"
            place = self.spec if self.default else Field(field.urn, path, rule)
            yield place, read_rule(rule, direction, self.namespace, path)


@once_per_graph
def policies(graph: Graph) -> list[Policy]:
    """All policies of the stack."""
    made = [
        _policy(graph, thing)
        for group in ("networking.k8s.io", "extensions")
        for thing in graph.objects(group, "NetworkPolicy")
        if not thing.patch
    ]
    return [*made, *(found for tenant in tenants(graph) if (found := _managed(tenant)) is not None)]


@once_per_graph
def _by_place(graph: Graph) -> dict[str | Unknown, list[Policy]]:
    found: dict[str | Unknown, list[Policy]] = {}
    for policy in policies(graph):
        found.setdefault(policy.namespace, []).append(policy)
    return found


def policies_in(graph: Graph, namespace: str | Unknown) -> list[Policy]:
    """Those that are, or may be, in that namespace."""
    if namespace is UNKNOWN:
        return policies(graph)
    return [*_by_place(graph).get(namespace, []), *_by_place(graph).get(UNKNOWN, [])]


def about_tenants(graph: Graph, policy: Policy) -> bool | None:
    """Whether a policy is about tenants; None where it stands alone, in a namespace of which nothing says what it is.

    One that names no namespace is for whoever applies it, wherever that is, and counts as being about them.
    """
    if policy.managed:
        return True
    space = space_of(graph, policy.namespace)
    if space is None or space.tenants or (space.name == "default" and space.made_by is None and not space.pods):
        return True
    if any(policy.selects(tenant) for tenant in tenants_in(graph, policy.namespace)):
        return True
    return False if space.platform else None


def covered(graph: Graph, tenant: Tenant, direction: Direction) -> tuple[bool | None, Field | None]:
    """Whether any policy binds a pod in that direction; None where it depends on the field."""
    doubt: Field | None = None
    for policy in policies_in(graph, tenant.namespace):
        selected = policy.selects(tenant)
        answer = False if selected is False else _both(selected, policy.governs(direction))
        if answer:
            return True, None
        if answer is None:
            doubt = doubt or policy.spec.at("podSelector")
    return (False, None) if doubt is None else (None, doubt)


def reach(graph: Graph, tenant: Tenant, direction: Direction) -> Bounds:
    """What a pod may reach under all policies together, or be reached by."""
    here = policies_in(graph, tenant.namespace)
    plain = [policy.plain for policy in here if policy.selects(tenant) is not False]
    if isinstance(tenant.namespace, str):
        return effective(plain, tenant.namespace, tenant.labels, direction)
    return effective([{**one, "metadata": {"namespace": "?"}} for one in plain], "?", tenant.labels, direction)


@once_per_graph
def foreign(graph: Graph) -> list[KubernetesObject]:
    """Policies in another language than Kubernetes's own, which nothing here can read."""
    return [
        *graph.objects("cilium.io", "CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy"),
        *graph.objects("projectcalico.org", "NetworkPolicy", "GlobalNetworkPolicy"),
        *graph.objects("crd.projectcalico.org", "NetworkPolicy", "GlobalNetworkPolicy"),
        *graph.objects("policy.networking.k8s.io", "AdminNetworkPolicy", "ClusterNetworkPolicy"),
        *graph.objects("networking.k8s.aws", "ApplicationNetworkPolicy", "ClusterNetworkPolicy"),
    ]


def _policy(graph: Graph, thing: KubernetesObject) -> Policy:
    namespace = place_of(graph, thing)
    metadata = {"name": thing.name.raw, "namespace": namespace}
    # As `effective` reads it: no selector, or an empty one, selects every pod
    plain: dict[str, object] = {"metadata": metadata, "spec": thing.at("spec").raw}
    return Policy(thing, thing.at("spec"), namespace, plain)


def _managed(tenant: Tenant) -> Policy | None:
    owner = tenant.owner
    if owner.kind != "SandboxTemplate":
        return None
    management = owner.at("spec", "networkPolicyManagement")
    if management.raw == "Unmanaged" or management.unknown:
        return None
    given = owner.at("spec", "networkPolicy")
    rules: Any = DEFAULT if given.missing else given.raw
    spec: object = UNKNOWN
    if not given.unknown:
        own = cast("Mapping[str, object]", as_mapping(rules) or {})
        spec = {"policyTypes": ["Ingress", "Egress"], "ingress": own.get("ingress"), "egress": own.get("egress")}
    plain: dict[str, object] = {"metadata": {"namespace": tenant.namespace}, "spec": spec}
    return Policy(owner, given, tenant.namespace, plain, managed=True, default=given.missing)


def _both(one: bool | None, other: bool | None) -> bool | None:
    if False in (one, other):
        return False
    return None if None in (one, other) else True
