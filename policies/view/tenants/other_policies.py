"""Network policies of other kinds than NetworkPolicy: which pods they may select, and what their rules allow.

Their languages are read only as far as it takes to find out that they are about other pods. Whatever else they say may
isolate a pod, so a rule that needs to know is indeterminate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from agentenv.core.capabilities.policies.effective_policy import Direction
from agentenv.core.capabilities.policies.policy_rules import read_rule
from agentenv.core.capabilities.policies.selectors import matches
from agentenv.core.capabilities.sets.reach import Bounds
from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown, as_list, as_mapping
from agentenv.policies.view.fields import Field, is_one_of
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.resource import KubernetesObject
from agentenv.policies.view.tenants.namespaces import Labels, find_namespace, namespace_of

ALLOWS: Final = frozenset({"Allow", "Accept"})
_ADMIN: Final = {
    "policy.networking.k8s.io": ("AdminNetworkPolicy", "BaselineAdminNetworkPolicy", "ClusterNetworkPolicy"),
    "networking.k8s.aws": ("ClusterNetworkPolicy",),
}
_CILIUM: Final = ("CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy")
_CALICO: Final = ("projectcalico.org", "crd.projectcalico.org")
_CILIUM_NAMESPACE: Final = "io.kubernetes.pod.namespace"
# The terms of Calico's selectors that are read; any other may match
_TERM: Final = re.compile(
    r"""all\(\)|has\((?P<present>[^)]+)\)|(?P<key>[\w./-]+)\s*==\s*(?P<q>['"])(?P<value>.*?)(?P=q)"""
)


@dataclass(frozen=True, eq=False)
class OtherPolicy:
    """A network policy of another kind."""

    owner: KubernetesObject
    namespace: str | Unknown | None  # None if it is for the whole cluster

    @property
    def spec(self) -> Field:
        """Return its specification."""
        return self.owner.at("spec")

    @property
    def is_admin(self) -> bool:
        """Return whether it is a policy of an administrator, with actions, which isolates nothing by itself."""
        return self.owner.kind in _ADMIN.get(self.owner.group, ())

    def may_isolate(self, graph: Graph, namespace: str | Unknown, labels: Labels, direction: Direction) -> bool:
        """Return whether it may deny traffic of a pod that it does not allow."""
        return self._may_restrict(direction) and self.may_select(graph, namespace, labels)

    def may_select(self, graph: Graph, namespace: str | Unknown, labels: Labels) -> bool:
        """Return whether it may select a pod."""
        if self.namespace is not None and UNKNOWN not in (self.namespace, namespace) and self.namespace != namespace:
            return False
        return all(answer is not False for answer in self._answers(graph, namespace, labels))

    def allowed_egress(self) -> Iterator[tuple[Field, Bounds | None]]:
        """Yield the egress rules of an administrator that allow, each with what it allows; None for nodes."""
        for rule in self.spec.at("egress").elements() if self.is_admin else ():
            if not (rule.at("action").unknown or is_one_of(rule.at("action"), ALLOWS)):
                continue
            peers = rule.at("to").elements()
            if any(not peer.at("nodes").missing for peer in peers):
                yield rule, None
                continue
            blocks = [{"ipBlock": {"cidr": each.raw}} for peer in peers for each in peer.at("networks").elements()]
            # Selectors of pods lead to no addresses, and names to none that are known
            unknown = any(peer.unknown for peer in peers) or rule.at("action").unknown
            if blocks or unknown:
                raw: object = UNKNOWN if unknown else {"to": blocks, "ports": _ports(rule)}
                yield rule, read_rule(raw, "Egress", UNKNOWN, rule.path)

    def _answers(self, graph: Graph, namespace: str | Unknown, labels: Labels) -> Iterator[bool | None]:
        space = find_namespace(graph, namespace)
        of_namespace: Labels = UNKNOWN if space is None else space.labels
        if self.is_admin:
            subject = self.spec.at("subject")
            pods = subject.at("pods")
            selector = pods.at("namespaceSelector") if pods.known else subject.at("namespaces")
            yield _matches(selector, of_namespace)
            yield _matches(pods.at("podSelector"), labels)
        elif self.owner.kind in _CILIUM:
            selector = _without_sources(self.spec.at("endpointSelector").raw)
            yield None if labels is UNKNOWN else matches(selector, {**labels, _CILIUM_NAMESPACE: namespace})
        elif self.owner.group in _CALICO:
            yield _calico(self.spec.at("selector"), labels)
            yield _calico(self.spec.at("namespaceSelector"), of_namespace)
        else:
            yield _matches(self.spec.at("podSelector"), labels)

    def _may_restrict(self, direction: Direction) -> bool:
        """Return whether it has rules for a direction that deny what they do not allow."""
        spec, side = self.spec, direction.lower()
        if spec.unknown:
            return True
        if self.is_admin:
            actions = [rule.at("action") for rule in spec.at(side).elements()]
            return any(action.unknown or is_one_of(action, {"Deny"}) for action in actions)
        if self.owner.kind in _CILIUM:
            plain = not spec.at(side).missing or not spec.at(f"{side}Deny").missing
            return plain or not self.owner.at("specs").missing or spec.missing
        types = spec.at("types" if self.owner.group in _CALICO else "policyTypes").elements()
        return not types or any(kind.unknown or kind.raw == direction for kind in types)


@once_per_graph
def other_policies(graph: Graph) -> list[OtherPolicy]:
    """Return the network policies of other kinds."""
    found = [
        *(item for group, kinds in _ADMIN.items() for item in graph.objects(group, *kinds)),
        *graph.objects("cilium.io", *_CILIUM),
        *(item for group in _CALICO for item in graph.objects(group, "NetworkPolicy", "GlobalNetworkPolicy")),
        *graph.objects("networking.k8s.aws", "ApplicationNetworkPolicy"),
    ]
    return [
        OtherPolicy(item, namespace_of(graph, item) if _is_namespaced(item) else None)
        for item in found
        if not item.patch
    ]


def _is_namespaced(item: KubernetesObject) -> bool:
    return item.kind in {"NetworkPolicy", "CiliumNetworkPolicy", "ApplicationNetworkPolicy"}


def _matches(selector: Field, labels: Labels) -> bool | None:
    return True if selector.missing else matches(selector.raw, labels)


def _without_sources(selector: object) -> object:
    """Return a selector of Cilium with plain keys; a label of another source than Kubernetes stays."""
    raw = as_mapping(selector)
    if raw is None:
        return {} if selector is None else selector
    labels = as_mapping(raw.get("matchLabels")) or {}
    expressions = [as_mapping(row) or {} for row in as_list(raw.get("matchExpressions")) or []]
    return {
        "matchLabels": {_plain_key(key): value for key, value in labels.items()},
        "matchExpressions": [{**row, "key": _plain_key(str(row.get("key")))} for row in expressions],
    }


def _plain_key(key: str) -> str:
    return key.removeprefix("k8s:").removeprefix("any:")


def _calico(selector: Field, labels: Labels) -> bool | None:
    """Evaluate a selector of Calico: terms that are joined by `&&`. None if it has others."""
    if selector.missing:
        return True
    if not isinstance(selector.raw, str) or labels is UNKNOWN:
        return None
    answers = [_term(term.strip(), labels) for term in selector.raw.split("&&")]
    return False if False in answers else None if None in answers else True


def _term(term: str, labels: Mapping[str, str | Unknown]) -> bool | None:
    match = _TERM.fullmatch(term)
    if match is None:
        return None
    if match["present"]:
        return match["present"].strip() in labels
    if match["key"] is None:
        return True
    value = labels.get(match["key"])
    return None if value is UNKNOWN else value == match["value"]


def _ports(rule: Field) -> object:
    """Return the ports of an administrator's rule as those of a NetworkPolicy; what else it has is unknown."""
    if not rule.at("protocols").missing:
        return UNKNOWN
    ports: list[object] = []
    for port in rule.at("ports").elements():
        single, several = as_mapping(port.at("portNumber").raw), as_mapping(port.at("portRange").raw)
        if single is not None:
            ports.append(single)
        elif several is not None:
            first, last = several.get("start"), several.get("end")
            ports.append({"protocol": several.get("protocol"), "port": first, "endPort": last})
        else:
            return UNKNOWN
    return ports
