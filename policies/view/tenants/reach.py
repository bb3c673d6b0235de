"""The traffic from and to sandboxes under all NetworkPolicies that select them."""

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
from agentenv.policies.view.tenants.namespaces import Namespace, find_namespace, namespace_of
from agentenv.policies.view.tenants.other_policies import other_policies
from agentenv.policies.view.tenants.tenants import CLAIM_LABELS, Tenant, tenants, tenants_in

DIRECTIONS: Final[tuple[Direction, ...]] = ("Egress", "Ingress")
# The policy of a template without one (agent-sandbox v1.0.3, sandboxtemplate_controller.go).
DEFAULT_RULES: Final[Mapping[str, object]] = {
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
    """A policy in the cluster: a NetworkPolicy, or the policy that the controller creates for a template."""

    owner: KubernetesObject
    spec: Field
    namespace: str | Unknown
    plain: Mapping[str, object]
    # Whether the controller creates it, and whether with its default rules
    managed: bool = False
    default: bool = False

    def selects(self, tenant: Tenant) -> bool | None:
        """Return whether it selects a sandbox's pod, before or after it is claimed."""
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
        """Return whether it may select the pod with the labels of a claim."""
        if tenant.labels is UNKNOWN:
            return self.selects(tenant) is not False
        claimed: dict[str, str | Unknown] = {**dict.fromkeys(CLAIM_LABELS, UNKNOWN), **tenant.labels}
        return self.selects(Tenant(tenant.pod, tenant.namespace, claimed)) is not False

    def governs(self, direction: Direction) -> bool | None:
        """Return whether it applies to a direction: by default to ingress, and to egress if it has egress rules."""
        return self._directions[direction]

    @cached_property
    def _directions(self) -> Mapping[Direction, bool | None]:
        if self.managed:
            return {"Egress": True, "Ingress": True}
        types = self.spec.at("policyTypes")
        if types.unknown or any(element.unknown for element in types.elements()):
            return {"Egress": None, "Ingress": None}
        named = [element.raw for element in types.elements()]
        egress = self.spec.at("egress")
        has_egress = None if egress.unknown else bool(egress.elements())
        return {
            "Egress": "Egress" in named if named else has_egress,
            "Ingress": "Ingress" in named if named else True,
        }

    @cached_property
    def egress_rules(self) -> tuple[tuple[Field, Bounds], ...]:
        """Return each egress rule with the destinations that it allows."""
        return tuple(self._rules("Egress"))

    def _rules(self, direction: Direction) -> Iterator[tuple[Field, Bounds]]:
        if self.governs(direction) is False:
            return
        if self.spec.unknown:
            yield self.spec, read_rule(UNKNOWN, direction, self.namespace, self.spec.path)
            return
        rules = as_list((as_mapping(self.plain.get("spec")) or {}).get(direction.lower()))
        field = self.spec.at(direction.lower())
        if rules is None:
            yield field, read_rule(UNKNOWN, direction, self.namespace, field.path)
            return
        for index, rule in enumerate(rules):
            path = f"{field.path}[{index}]"
            reported = self.spec if self.default else Field(field.urn, path, rule)
            yield reported, read_rule(rule, direction, self.namespace, path)


@once_per_graph
def policies(graph: Graph) -> list[Policy]:
    """Return all policies of the stack."""
    declared = [
        _policy(graph, item)
        for group in ("networking.k8s.io", "extensions")
        for item in graph.objects(group, "NetworkPolicy")
        if not item.patch
    ]
    return [*declared, *(policy for tenant in tenants(graph) if (policy := _managed_policy(tenant)) is not None)]


@once_per_graph
def _by_namespace(graph: Graph) -> dict[str | Unknown, list[Policy]]:
    by_namespace: dict[str | Unknown, list[Policy]] = {}
    for policy in policies(graph):
        by_namespace.setdefault(policy.namespace, []).append(policy)
    return by_namespace


def policies_in(graph: Graph, namespace: str | Unknown) -> list[Policy]:
    """Return the policies that are, or may be, in a namespace."""
    if namespace is UNKNOWN:
        return policies(graph)
    return [*_by_namespace(graph).get(namespace, []), *_by_namespace(graph).get(UNKNOWN, [])]


def applies_to_tenants(graph: Graph, policy: Policy) -> bool | None:
    """Return whether a policy is for sandboxes; None if nothing in the stack describes its namespace.

    A policy without a namespace counts as one for sandboxes, because it is applied to any namespace.
    """
    if policy.managed:
        return True
    space = find_namespace(graph, policy.namespace)
    if space is None or space.has_tenants or is_unspecified(space):
        return True
    if any(policy.selects(tenant) for tenant in tenants_in(graph, policy.namespace)):
        return True
    return False if space.is_platform else None


def is_unspecified(space: Namespace) -> bool:
    """Return whether a namespace is only the default of objects without one."""
    return space.name == "default" and space.declaration is None and not space.has_pods


def is_covered(graph: Graph, tenant: Tenant, direction: Direction) -> tuple[bool | None, Field | None]:
    """Return whether any policy applies to a pod in a direction; None, with the field, if that depends on the field."""
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
    """Return what a pod can reach, or be reached by, under all policies."""
    in_namespace = policies_in(graph, tenant.namespace)
    plain = [policy.plain for policy in in_namespace if policy.selects(tenant) is not False]
    if isinstance(tenant.namespace, str):
        return effective(plain, tenant.namespace, tenant.labels, direction)
    return effective([{**policy, "metadata": {"namespace": "?"}} for policy in plain], "?", tenant.labels, direction)


def other_policy(graph: Graph, tenant: Tenant, direction: Direction) -> Field | None:
    """Return the specification of a policy of another kind that may isolate a pod in a direction."""
    others = (
        other for other in other_policies(graph) if other.may_isolate(graph, tenant.namespace, tenant.labels, direction)
    )
    return next((other.spec for other in others), None)


def _policy(graph: Graph, item: KubernetesObject) -> Policy:
    namespace = namespace_of(graph, item)
    metadata = {"name": item.name.raw, "namespace": namespace}
    # To `effective`, no selector or an empty one selects every pod
    plain: dict[str, object] = {"metadata": metadata, "spec": item.at("spec").raw}
    return Policy(item, item.at("spec"), namespace, plain)


def _managed_policy(tenant: Tenant) -> Policy | None:
    owner = tenant.owner
    if owner.kind != "SandboxTemplate":
        return None
    management = owner.at("spec", "networkPolicyManagement")
    if management.raw == "Unmanaged" or management.unknown:
        return None
    field = owner.at("spec", "networkPolicy")
    raw: Any = DEFAULT_RULES if field.missing else field.raw
    spec: object = UNKNOWN
    if not field.unknown:
        rules = cast("Mapping[str, object]", as_mapping(raw) or {})
        spec = {"policyTypes": ["Ingress", "Egress"], "ingress": rules.get("ingress"), "egress": rules.get("egress")}
    plain: dict[str, object] = {"metadata": {"namespace": tenant.namespace}, "spec": spec}
    return Policy(owner, field, tenant.namespace, plain, managed=True, default=field.missing)


def _both(first: bool | None, second: bool | None) -> bool | None:
    if False in (first, second):
        return False
    return None if None in (first, second) else True
