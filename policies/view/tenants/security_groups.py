"""Security groups: the rules in each, wherever they are written, and the groups that pods are put into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from agentenv.core.capabilities.policies.selectors import matches
from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.policies.view.fields import Field, is_one_of
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.references import among, reference
from agentenv.policies.view.resource import KubernetesObject, Resource
from agentenv.policies.view.tenants.namespaces import place_of
from agentenv.policies.view.tenants.tenants import Tenant

Way = Literal["egress", "ingress"]
GROUP: Final = "aws:ec2/securityGroup:SecurityGroup"
DEFAULT_GROUP: Final = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
GROUPS: Final = (GROUP, DEFAULT_GROUP)
OLD: Final = "aws:ec2/securityGroupRule:SecurityGroupRule"
NEW: Final[dict[Way, str]] = {
    "egress": "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
    "ingress": "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
}


@dataclass(frozen=True)
class Passing:
    """One rule of a group: its ports, its protocol, and the ranges at the other end."""

    field: Field
    protocol: Field
    first: Field
    last: Field
    ranges: tuple[Field, ...]
    # Whether the other end is a group, or a list that AWS keeps
    named: bool

    @property
    def every_port(self) -> bool | None:
        """Whether it is for all protocols, or all ports of one; None where that is not known."""
        if is_one_of(self.protocol, {"-1", -1, "all"}):
            return True
        fields = (self.protocol, self.first, self.last)
        if any(one.unknown for one in fields):
            return None
        return is_one_of(self.protocol, {"tcp", "udp", "6", "17", 6, 17}) and self.span == (0, 65535)

    @property
    def span(self) -> tuple[int, int] | None:
        """The ports, where they are known; all of them where none are given."""
        try:
            first = 0 if self.first.missing else int(str(self.first.raw).removesuffix(".0"))
            last = 65535 if self.last.missing else int(str(self.last.raw).removesuffix(".0"))
        except ValueError:
            return None
        return (0, 65535) if (first, last) == (-1, -1) else (first, last)


def passing(graph: Graph, group: Resource, way: Way) -> Iterator[Passing]:
    """The rules of a group: in itself, and those that others add to it."""
    for one in group.at(way).elements():
        yield _inline(one)
    for one in _rules(graph).get((group.urn, way), []):
        yield _old(one) if one.type == OLD else _new(one)


def written_in(resource: Resource, way: Way) -> Iterator[Passing]:
    """The rules that a resource itself writes: a group its own, whosever group another's are for."""
    if resource.type in GROUPS:
        yield from map(_inline, resource.at(way).elements())
    elif resource.type == NEW[way]:
        yield _new(resource)
    elif resource.type == OLD and resource.at("type").raw in (way, UNKNOWN):
        yield _old(resource)


def may_have_more(graph: Graph, way: Way) -> Field | None:
    """A rule of which nobody can say whose it is."""
    return _rules_of_nobody(graph).get(way)


@dataclass(frozen=True)
class PodGroups:
    """An object that puts pods into groups."""

    owner: KubernetesObject
    namespace: object

    @property
    def ids(self) -> Field:
        """The groups."""
        return self.owner.at("spec", "securityGroups", "groupIds")

    def selects(self, tenant: Tenant) -> bool | None:
        """Whether it is for a pod; by its labels, by its account's, or by both."""
        if self.namespace is UNKNOWN or tenant.namespace is UNKNOWN:
            return None
        if self.namespace != tenant.namespace:
            return False
        pods, accounts = self.owner.at("spec", "podSelector"), self.owner.at("spec", "serviceAccountSelector")
        if pods.missing and accounts.missing:
            return False
        answer = True if pods.missing else matches(pods.raw, tenant.labels)
        # The labels of the account are its object's, which may stand anywhere
        return answer if accounts.missing or answer is False else None

    def groups(self, graph: Graph) -> list[Resource]:
        """The groups of the stack that it names; while ids are not known, those that it hangs on."""
        targets = graph.targets(self.owner.resource, "spec", *GROUPS)
        return among(graph, targets, self.ids, *GROUPS)


@once_per_graph
def pod_groups(graph: Graph) -> list[PodGroups]:
    """All such objects of the stack."""
    return [
        PodGroups(thing, place_of(graph, thing))
        for thing in graph.objects("vpcresources.k8s.aws", "SecurityGroupPolicy")
        if not thing.patch
    ]


@once_per_graph
def _rules(graph: Graph) -> dict[tuple[str, str], list[Resource]]:
    found: dict[tuple[str, str], list[Resource]] = {}
    for one, way in _loose(graph):
        key = reference(graph, one, ("securityGroupId",), *GROUPS).key
        if key is not None:
            found.setdefault((key, way), []).append(one)
    return found


@once_per_graph
def _rules_of_nobody(graph: Graph) -> dict[str, Field]:
    return {
        way: one.at("securityGroupId")
        for one, way in _loose(graph)
        # What hangs on a cluster, or on a component, is a group that those made
        if reference(graph, one, ("securityGroupId",), *GROUPS).key is None
        and not graph.targets(one, "securityGroupId")
    }


def _loose(graph: Graph) -> Iterator[tuple[Resource, str]]:
    for way, kind in NEW.items():
        yield from ((one, way) for one in graph.of_type(kind))
    for one in graph.of_type(OLD):
        way = one.at("type").raw
        yield from ((one, word) for word in ("egress", "ingress") if way in (word, UNKNOWN))


def _inline(one: Field) -> Passing:
    ranges = (*one.at("cidrBlocks").elements(), *one.at("ipv6CidrBlocks").elements())
    named = not (one.at("securityGroups").missing and one.at("self").missing and one.at("prefixListIds").missing)
    return Passing(one, _small(one.at("protocol")), one.at("fromPort"), one.at("toPort"), ranges, named)


def _old(one: Resource) -> Passing:
    ranges = (*one.at("cidrBlocks").elements(), *one.at("ipv6CidrBlocks").elements())
    named = not (one.at("sourceSecurityGroupId").missing and one.at("self").missing)
    return Passing(one.root, _small(one.at("protocol")), one.at("fromPort"), one.at("toPort"), ranges, named)


def _new(one: Resource) -> Passing:
    ranges = tuple(field for key in ("cidrIpv4", "cidrIpv6") if not (field := one.at(key)).missing)
    named = not one.at("referencedSecurityGroupId").missing
    return Passing(one.root, _small(one.at("ipProtocol")), one.at("fromPort"), one.at("toPort"), ranges, named)


def _small(protocol: Field) -> Field:
    """As the provider reads it, to which TCP is tcp."""
    raw = protocol.raw
    return Field(protocol.urn, protocol.path, raw.lower()) if isinstance(raw, str) else protocol
