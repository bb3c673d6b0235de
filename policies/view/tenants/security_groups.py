"""Security groups: the rules of each, inline or as resources, and the groups of pods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from agentenv.core.capabilities.policies.selectors import matches
from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.policies.view.fields import Field, is_one_of
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.references import reference, with_listed
from agentenv.policies.view.resource import KubernetesObject, Resource
from agentenv.policies.view.tenants.namespaces import namespace_of
from agentenv.policies.view.tenants.tenants import Tenant

RuleDirection = Literal["egress", "ingress"]
GROUP: Final = "aws:ec2/securityGroup:SecurityGroup"
DEFAULT_GROUP: Final = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
GROUPS: Final = (GROUP, DEFAULT_GROUP)
COMBINED_RULE: Final = "aws:ec2/securityGroupRule:SecurityGroupRule"
SEPARATE_RULES: Final[dict[RuleDirection, str]] = {
    "egress": "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
    "ingress": "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
}


@dataclass(frozen=True)
class GroupRule:
    """A rule of a security group: its ports, its protocol, and the ranges of the peers."""

    field: Field
    protocol: Field
    first: Field
    last: Field
    ranges: tuple[Field, ...]

    @property
    def all_ports(self) -> bool | None:
        """Return whether it allows all protocols, or all ports of one; None if that is not known."""
        if is_one_of(self.protocol, {"-1", -1, "all"}):
            return True
        fields = (self.protocol, self.first, self.last)
        if any(field.unknown for field in fields):
            return None
        return is_one_of(self.protocol, {"tcp", "udp", "6", "17", 6, 17}) and self.port_range == (0, 65535)

    @property
    def port_range(self) -> tuple[int, int] | None:
        """Return the range of ports, all if none is given; None if it is not known."""
        try:
            first = 0 if self.first.missing else int(str(self.first.raw).removesuffix(".0"))
            last = 65535 if self.last.missing else int(str(self.last.raw).removesuffix(".0"))
        except ValueError:
            return None
        return (0, 65535) if (first, last) == (-1, -1) else (first, last)


def group_rules(graph: Graph, group: Resource, direction: RuleDirection) -> Iterator[GroupRule]:
    """Yield the rules of a group: inline ones, and those of other resources."""
    yield from map(_inline_rule, group.at(direction).elements())
    for rule in _rules_by_group(graph).get((group.urn, direction), []):
        yield _inline_rule(rule.root) if rule.type == COMBINED_RULE else _separate_rule(rule)


def rules_declared_in(resource: Resource, direction: RuleDirection) -> Iterator[GroupRule]:
    """Yield the rules that a resource declares, for any group."""
    if resource.type in GROUPS:
        yield from map(_inline_rule, resource.at(direction).elements())
    elif resource.type == SEPARATE_RULES[direction]:
        yield _separate_rule(resource)
    elif resource.type == COMBINED_RULE and resource.at("type").raw in (direction, UNKNOWN):
        yield _inline_rule(resource.root)


def rule_of_unknown_group(graph: Graph, direction: RuleDirection) -> Field | None:
    """Return the group field of a rule whose group is not known; None if there is none."""
    return _rules_without_group(graph).get(direction)


@dataclass(frozen=True)
class PodGroups:
    """A SecurityGroupPolicy, which assigns pods to groups."""

    owner: KubernetesObject
    namespace: object

    @property
    def ids(self) -> Field:
        """Return the ids of the groups."""
        return self.owner.at("spec", "securityGroups", "groupIds")

    def selects(self, tenant: Tenant) -> bool | None:
        """Return whether it selects a pod, by the labels of the pod, of its service account, or both."""
        if self.namespace is UNKNOWN or tenant.namespace is UNKNOWN:
            return None
        if self.namespace != tenant.namespace:
            return False
        pods, accounts = self.owner.at("spec", "podSelector"), self.owner.at("spec", "serviceAccountSelector")
        if pods.missing and accounts.missing:
            return False
        answer = True if pods.missing else matches(pods.raw, tenant.labels)
        # The labels of the service account are not looked up
        return answer if accounts.missing or answer is False else None

    def groups(self, graph: Graph) -> list[Resource]:
        """Return its groups in the stack, by their ids or, while these are unknown, by its dependencies."""
        targets = graph.targets(self.owner.resource, "spec", *GROUPS)
        return with_listed(graph, targets, self.ids, *GROUPS)


@once_per_graph
def pod_groups(graph: Graph) -> list[PodGroups]:
    """Return the SecurityGroupPolicies of the stack."""
    return [
        PodGroups(item, namespace_of(graph, item))
        for item in graph.objects("vpcresources.k8s.aws", "SecurityGroupPolicy")
        if not item.patch
    ]


@once_per_graph
def _rules_by_group(graph: Graph) -> dict[tuple[str, str], list[Resource]]:
    by_group: dict[tuple[str, str], list[Resource]] = {}
    for rule, direction in _rule_resources(graph):
        key = reference(graph, rule, ("securityGroupId",), *GROUPS).key
        if key is not None:
            by_group.setdefault((key, direction), []).append(rule)
    return by_group


@once_per_graph
def _rules_without_group(graph: Graph) -> dict[str, Field]:
    return {
        direction: rule.at("securityGroupId")
        for rule, direction in _rule_resources(graph)
        # A rule that depends on a cluster or a component is for a group that those created
        if reference(graph, rule, ("securityGroupId",), *GROUPS).key is None
        and not graph.targets(rule, "securityGroupId")
    }


def _rule_resources(graph: Graph) -> Iterator[tuple[Resource, str]]:
    for direction, kind in SEPARATE_RULES.items():
        yield from ((rule, direction) for rule in graph.of_type(kind))
    for rule in graph.of_type(COMBINED_RULE):
        kind = rule.at("type").raw
        yield from ((rule, direction) for direction in ("egress", "ingress") if kind in (direction, UNKNOWN))


def _inline_rule(field: Field) -> GroupRule:
    ranges = (*field.at("cidrBlocks").elements(), *field.at("ipv6CidrBlocks").elements())
    return GroupRule(field, _lower_case(field.at("protocol")), field.at("fromPort"), field.at("toPort"), ranges)


def _separate_rule(rule: Resource) -> GroupRule:
    ranges = tuple(field for key in ("cidrIpv4", "cidrIpv6") if not (field := rule.at(key)).missing)
    return GroupRule(rule.root, _lower_case(rule.at("ipProtocol")), rule.at("fromPort"), rule.at("toPort"), ranges)


def _lower_case(protocol: Field) -> Field:
    """Return the protocol in lower case, as the provider reads it."""
    raw = protocol.raw
    return Field(protocol.urn, protocol.path, raw.lower()) if isinstance(raw, str) else protocol
