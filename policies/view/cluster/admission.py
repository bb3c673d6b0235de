"""Admission checks of the API server: admission policies with their bindings, and webhooks.

Claims are created at run time and not by a deployment, so only these checks apply to them.
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
class AdmissionCheck:
    """A policy with one of its bindings, or a webhook: the conditions under which it rejects an object."""

    resource_rules: tuple[Field, ...]  # every `resourceRules` or `rules` that must match; a missing one matches all
    namespace_selectors: tuple[Field, ...]  # likewise
    failure_policy: Field
    denies: bool | None  # None if that is not known yet

    def fails_closed(self) -> bool | None:
        """Return whether it rejects violations, and every request if it cannot be evaluated."""
        if self.denies is False or (self.failure_policy.known and self.failure_policy.raw != "Fail"):
            return False
        return None if self.denies is None or self.failure_policy.unknown else True

    def matches_create(self, group: str, resource: str) -> bool | None:
        """Return whether it matches the creation of a resource, in any namespace."""
        return _all(_matches_create(rules, group, resource) for rules in self.resource_rules)

    def matches_namespace(self, labels: Field) -> bool | None:
        """Return whether it matches a namespace with these labels."""
        return _all(_selects(selector, labels) for selector in self.namespace_selectors)


def admission_checks(graph: Graph) -> Iterator[AdmissionCheck]:
    """Yield the admission checks of a stack. A policy without a binding has no effect."""
    by_policy, unnamed = _by_policy(graph.objects(GROUP, BINDING))
    for policy in graph.objects(GROUP, POLICY):
        name = scalar(policy.name)
        named = (
            by_policy.get(name, []) if name is not None else [item for items in by_policy.values() for item in items]
        )
        for binding in [*named, *unnamed]:
            binds = _binds(binding, policy, graph)
            if binds is False:
                continue
            actions = binding.at("spec", "validationActions")
            denies = None if actions.holds_unknown() else "Deny" in [action.raw for action in actions.elements()]
            yield AdmissionCheck(
                (
                    policy.at("spec", "matchConstraints", "resourceRules"),
                    binding.at("spec", "matchResources", "resourceRules"),
                ),
                (
                    policy.at("spec", "matchConstraints", "namespaceSelector"),
                    binding.at("spec", "matchResources", "namespaceSelector"),
                ),
                policy.at("spec", "failurePolicy"),
                None if binds is None else denies,
            )
    for configuration in graph.objects(GROUP, WEBHOOKS):
        for hook in configuration.at("webhooks").elements():
            yield AdmissionCheck((hook.at("rules"),), (hook.at("namespaceSelector"),), hook.at("failurePolicy"), True)


def _all(answers: Iterable[bool | None]) -> bool | None:
    """Return False if any answer is; else None if any is not known."""
    verdict: bool | None = True
    for answer in answers:
        if answer is False:
            return False
        verdict = verdict and answer
    return verdict


def mentions_groups(rules: Field, groups: frozenset[str]) -> bool:
    """Return whether resource rules name one of these API groups, or all."""
    named = [group for rule in rules.elements() for group in rule.at("apiGroups").elements()]
    return any(scalar(group) in groups or group.raw == "*" for group in named)


def _by_policy(bindings: list[KubernetesObject]) -> tuple[dict[object, list[KubernetesObject]], list[KubernetesObject]]:
    """Return bindings by the name of their policy, and those whose policy is not known."""
    by_policy: dict[object, list[KubernetesObject]] = {}
    unnamed: list[KubernetesObject] = []
    for binding in bindings:
        name = scalar(binding.at("spec", "policyName"))
        if name is not None:
            by_policy.setdefault(name, []).append(binding)
        else:
            unnamed.append(binding)
    return by_policy, unnamed


def _binds(binding: KubernetesObject, policy: KubernetesObject, graph: Graph) -> bool | None:
    named, name = binding.at("spec", "policyName"), policy.name
    if named.known and name.known:
        return named.raw == name.raw
    targets = graph.targets(binding.resource, "spec", policy.resource.type)
    return policy.resource in targets if targets else None


def _matches_create(rules: Field, group: str, resource: str) -> bool | None:
    """Return whether resource rules match the creation of a resource."""
    if rules.missing:
        return True
    verdict: bool | None = False
    for rule in rules.elements():
        required = (("apiGroups", group), ("resources", resource), ("operations", "CREATE"))
        answers = [_lists(rule.at(key), value) for key, value in required]
        if all(answer is True for answer in answers):
            return True
        if False not in answers:
            verdict = None
    return verdict


def _lists(field: Field, value: str) -> bool | None:
    values = [element.raw for element in field.elements()]
    if value in values or "*" in values or (field.path.endswith("resources") and "*/*" in values):
        return True
    return None if UNKNOWN in values else False


def _selects(selector: Field, labels: Field) -> bool | None:
    if selector.raw is MISSING:
        return True
    values: Mapping[str, object] = as_mapping(None if labels.missing else labels.raw) or {}
    if labels.unknown or selector.unknown:
        return True if selector.raw == {} else None
    plain = {key: value if isinstance(value, str) else UNKNOWN for key, value in values.items()}
    return matches(selector.raw, plain)
