"""What the API server asks before it takes an object: admission policies with their bindings, and webhooks.

Claims are made at run time and never pass through a deployment, so these are the only rules that they meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agentenv.core.capabilities.policies.selectors import matches
from agentenv.core.capabilities.unknown_values import UNKNOWN, as_mapping
from agentenv.policies.view.fields import MISSING, Field, scalar
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import KubernetesObject

GROUP = "admissionregistration.k8s.io"
POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
WEBHOOKS = "ValidatingWebhookConfiguration"


@dataclass(frozen=True, eq=False)
class Guard:
    """A policy with one of its bindings, or a webhook: all that has to be so for it to refuse something."""

    scopes: tuple[Field, ...]  # every `resourceRules` or `rules` that has to match; one that is missing matches all
    spaces: tuple[Field, ...]  # every `namespaceSelector`, likewise
    failure: Field
    refuses: bool | None  # None where that is not known yet

    def closed(self) -> bool | None:
        """Whether it refuses what it does not like, and all while it cannot judge."""
        if self.refuses is False or (self.failure.known and self.failure.raw != "Fail"):
            return False
        return None if self.refuses is None or self.failure.unknown else True

    def hears(self, group: str, resource: str) -> bool | None:
        """Whether it hears of such a thing being made, in whatever namespace."""
        return _all(_hears(scope, group, resource) for scope in self.scopes)

    def holds_in(self, labels: Field) -> bool | None:
        """Whether it holds in a namespace with those labels."""
        return _all(_selects(space, labels) for space in self.spaces)


def guards_of(graph: Graph) -> Iterator[Guard]:
    """All in a stack; a policy without a binding guards nothing."""
    named, unsure = _by_policy(graph.objects(GROUP, BINDING))
    for policy in graph.objects(GROUP, POLICY):
        name = scalar(policy.name)
        candidates = unsure if name is not None else [*unsure, *(one for many in named.values() for one in many)]
        for binding in [*named.get(name, []), *candidates]:
            names = _names(binding, policy, graph)
            if names is False:
                continue
            refuses = "Deny" in [one.raw for one in binding.at("spec", "validationActions").elements()]
            said = None if binding.at("spec", "validationActions").holds_unknown() else refuses
            yield Guard(
                (
                    policy.at("spec", "matchConstraints", "resourceRules"),
                    binding.at("spec", "matchResources", "resourceRules"),
                ),
                (
                    policy.at("spec", "matchConstraints", "namespaceSelector"),
                    binding.at("spec", "matchResources", "namespaceSelector"),
                ),
                policy.at("spec", "failurePolicy"),
                None if names is None else said,
            )
    for configuration in graph.objects(GROUP, WEBHOOKS):
        for hook in configuration.at("webhooks").elements():
            yield Guard((hook.at("rules"),), (hook.at("namespaceSelector"),), hook.at("failurePolicy"), True)


def _all(answers: Iterable[bool | None]) -> bool | None:
    """No is stronger than not known yet."""
    verdict: bool | None = True
    for answer in answers:
        if answer is False:
            return False
        verdict = verdict and answer
    return verdict


def touches(rules: Field, groups: frozenset[str]) -> bool:
    """Whether rows of resources speak of one of those API groups, or of all."""
    rows = rules.elements()
    return any(scalar(one) in groups or one.raw == "*" for row in rows for one in row.at("apiGroups").elements())


def _by_policy(bindings: list[KubernetesObject]) -> tuple[dict[object, list[KubernetesObject]], list[KubernetesObject]]:
    """Bindings by the policy that they name, and those of which that is not known: of many, few belong together."""
    named: dict[object, list[KubernetesObject]] = {}
    unsure: list[KubernetesObject] = []
    for binding in bindings:
        name = scalar(binding.at("spec", "policyName"))
        if name is not None:
            named.setdefault(name, []).append(binding)
        else:
            unsure.append(binding)
    return named, unsure


def _names(binding: KubernetesObject, policy: KubernetesObject, graph: Graph) -> bool | None:
    named, name = binding.at("spec", "policyName"), policy.name
    if named.known and name.known:
        return named.raw == name.raw
    targets = graph.targets(binding.resource, "spec", policy.resource.type)
    return policy.resource in targets if targets else None


def _hears(rules: Field, group: str, resource: str) -> bool | None:
    """Whether rows of resources speak of that being made."""
    if rules.missing:
        return True
    verdict: bool | None = False
    for row in rules.elements():
        wanted = (("apiGroups", group), ("resources", resource), ("operations", "CREATE"))
        answers = [_lists(row.at(key), value) for key, value in wanted]
        if all(answer is True for answer in answers):
            return True
        if False not in answers:
            verdict = None
    return verdict


def _lists(field: Field, value: str) -> bool | None:
    values = [one.raw for one in field.elements()]
    if value in values or "*" in values or (field.path.endswith("resources") and "*/*" in values):
        return True
    return None if UNKNOWN in values else False


def _selects(selector: Field, labels: Field) -> bool | None:
    if selector.raw is MISSING:
        return True
    found: Mapping[str, object] = as_mapping(None if labels.missing else labels.raw) or {}
    if labels.unknown or selector.unknown:
        return True if selector.raw == {} else None
    plain = {key: value if isinstance(value, str) else UNKNOWN for key, value in found.items()}
    return matches(selector.raw, plain)
