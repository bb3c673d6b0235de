"""Admission checks of the API server: admission policies with their bindings, and webhooks.

Claims are created at run time and not by a deployment, so only these checks apply to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agentenv.core.capabilities.policies.selectors import matches
from agentenv.core.capabilities.unknown_values import UNKNOWN, as_mapping
from agentenv.core.classes.names import EXTENSIONS
from agentenv.policies.view.fields import MISSING, Field, scalar
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import KubernetesObject

GROUP = "admissionregistration.k8s.io"
POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
WEBHOOKS = "ValidatingWebhookConfiguration"
MUTATING_WEBHOOKS = "MutatingWebhookConfiguration"
# The version in which claims and sandboxes are created (agent-sandbox v1.0.3)
VERSION = EXTENSIONS.rpartition("/")[2]
NAME_LABEL = "kubernetes.io/metadata.name"
# What an expression reads (Kubernetes documents, Validating Admission Policy). At a creation there is no former object.
_INPUT = re.compile(r"(?<![.\w])(object|request|params|namespaceObject|authorizer)\b")
_SAME_AT_CREATION = re.compile(r"(?<![.\w])request\s*\.\s*operation\b")
_VARIABLE = re.compile(r"(?<![.\w])variables\b(?:\s*\.\s*(\w+))?")
_STRING = re.compile(
    r"""'{3}.*?'{3}|"{3}.*?"{3}|[rR]'[^']*'|[rR]"[^"]*"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""", re.DOTALL
)
_COMMENT = re.compile(r"//[^\n]*")
MUTATING_POLICY, MUTATING_BINDING = "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"


@dataclass(frozen=True, eq=False)
class AdmissionCheck:
    """A policy with one of its bindings, or a webhook: the conditions under which it rejects an object."""

    # What must match, such as `matchConstraints` or a webhook: rules and selectors; a missing one matches all
    constraints: tuple[Field, ...]
    rules_key: str
    conditions: Field
    failure_policy: Field
    denies: bool | None  # None if that is not known yet

    def fails_closed(self) -> bool | None:
        """Return whether it rejects violations, and every request if it cannot be evaluated."""
        if self.denies is False or (self.failure_policy.known and self.failure_policy.raw != "Fail"):
            return False
        return None if self.denies is None or self.failure_policy.unknown else True

    def matches_create(self, group: str, resource: str) -> bool | None:
        """Return whether it matches every creation of a namespaced resource, in any namespace."""
        return _all(self._matches_create(group, resource))

    def matches_namespace(self, name: object, labels: Field) -> bool | None:
        """Return whether it matches a namespace with this name and these labels."""
        return _all(_selects(each.at("namespaceSelector"), name, labels) for each in self.constraints)

    def _matches_create(self, group: str, resource: str) -> Iterator[bool | None]:
        for number, each in enumerate(self.constraints):
            rules = each.at(self.rules_key)
            # A binding without rules narrows nothing; a policy or a webhook without them matches nothing.
            yield (
                _matches_create(rules, group, resource, each.at("matchPolicy"))
                if number or not rules.missing
                else False
            )
            excluded = each.at("excludeResourceRules")
            yield _not(False if excluded.missing else _matches_create(excluded, group, resource))
            # An owner may create an object without the label
            yield _selects_everything(each.at("objectSelector"))
        for condition in self.conditions.elements():
            yield _is_constant(condition.at("expression"))


def admission_checks(graph: Graph) -> Iterator[AdmissionCheck]:
    """Yield the admission checks of a stack. A policy without a binding has no effect."""
    by_policy, unnamed = _by_policy(graph.objects(GROUP, BINDING))
    for policy in graph.objects(GROUP, POLICY):
        name = scalar(policy.name)
        named = (
            by_policy.get(name, []) if name is not None else [item for items in by_policy.values() for item in items]
        )
        validates = _validates(policy.at("spec"))
        for binding in [*named, *unnamed]:
            binds = _binds(binding, policy, graph)
            if binds is False:
                continue
            actions = binding.at("spec", "validationActions")
            denies = None if actions.holds_unknown() else "Deny" in [action.raw for action in actions.elements()]
            yield AdmissionCheck(
                (policy.at("spec", "matchConstraints"), binding.at("spec", "matchResources")),
                "resourceRules",
                policy.at("spec", "matchConditions"),
                policy.at("spec", "failurePolicy"),
                None if binds is None else _all((denies, validates)),
            )
    for configuration in graph.objects(GROUP, WEBHOOKS):
        for hook in configuration.at("webhooks").elements():
            yield AdmissionCheck((hook,), "rules", hook.at("matchConditions"), hook.at("failurePolicy"), True)


@dataclass(frozen=True, eq=False)
class Mutation:
    """A webhook, or a policy with a binding, that changes objects."""

    field: Field
    constraints: tuple[Field, ...]
    rules_key: str

    def may_change(self, resources: Iterable[tuple[str, str]], name: object, labels: Field) -> bool | None:
        """Return whether it changes new objects of one of these resources in a namespace with this name and labels."""
        answers = [
            _all(_matches_create(each.at(self.rules_key), group, resource) for each in self.constraints)
            for group, resource in resources
        ]
        here = _all(_selects(each.at("namespaceSelector"), name, labels) for each in self.constraints)
        return _all((True if True in answers else None if None in answers else False, here))


def mutations(graph: Graph) -> Iterator[Mutation]:
    """Yield what changes objects at admission. A policy without a binding has no effect."""
    for configuration in graph.objects(GROUP, MUTATING_WEBHOOKS):
        for hook in configuration.at("webhooks").elements():
            yield Mutation(hook, (hook,), "rules")
    for policy in graph.objects(GROUP, MUTATING_POLICY):
        for binding in graph.objects(GROUP, MUTATING_BINDING):
            if _binds(binding, policy, graph) is not False:
                constraints = policy.at("spec", "matchConstraints"), binding.at("spec", "matchResources")
                yield Mutation(policy.at("spec"), constraints, "resourceRules")


def _validates(policy: Field) -> bool | None:
    """Return whether any validation can fail: not all of them are true whatever the created object is."""
    validations, variables = policy.at("validations"), _dependent_variables(policy.at("variables"))
    answers = [_never_fails(validation.at("expression"), variables) for validation in validations.elements()]
    if all(answer is True for answer in answers):
        return False
    return (
        None
        if all(
            answer is True or each.holds_unknown() for answer, each in zip(answers, validations.elements(), strict=True)
        )
        else True
    )


def _never_fails(expression: Field, variables: frozenset[str]) -> bool | None:
    constant = _is_constant(expression)
    if constant is None and isinstance(expression.raw, str) and not _depends(expression.raw, variables):
        return True
    return constant


def _dependent_variables(variables: Field) -> frozenset[str]:
    """Return the variables of a policy that depend on the request, by themselves or by former ones."""
    names: frozenset[str] = frozenset()
    for variable in variables.elements():
        name, expression = variable.at("name").raw, variable.at("expression").raw
        if isinstance(name, str) and not (isinstance(expression, str) and not _depends(expression, names)):
            names |= {name}
    return names


def _depends(expression: str, variables: frozenset[str]) -> bool:
    """Return whether an expression uses anything that differs between two creations, such as the object."""
    text = _COMMENT.sub("", _STRING.sub("''", expression))
    if _INPUT.search(_SAME_AT_CREATION.sub("", text)):
        return True
    return any(name is None or name in variables for name in (match[1] for match in _VARIABLE.finditer(text)))


def _is_constant(expression: Field) -> bool | None:
    """Return whether an expression is certainly true or certainly false; None if it depends on the request."""
    if not isinstance(expression.raw, str):
        return None
    text = re.sub(r"[\s()]", "", expression.raw)
    if text == "true" or text.startswith("true||") or text.endswith("||true"):
        return True
    return False if text == "false" else None


def _selects_everything(selector: Field) -> bool | None:
    if selector.missing or selector.raw == {}:
        return True
    return (
        None
        if selector.unknown
        else not [
            *selector.at("matchLabels").entries(),
            *selector.at("matchExpressions").elements(),
        ]
    )


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


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


def _matches_create(rules: Field, group: str, resource: str, match_policy: Field | None = None) -> bool | None:
    """Return whether resource rules match a creation of a namespaced resource; by a match policy, every one."""
    if rules.missing:
        return True
    verdict: bool | None = False
    for rule in rules.elements():
        required = (("apiGroups", group), ("resources", resource), ("operations", "CREATE"))
        answers = [_lists(rule.at(key), value) for key, value in required]
        scope, names = rule.at("scope"), rule.at("resourceNames")
        answers.append(None if scope.unknown else scope.raw != "Cluster")
        if match_policy is not None:
            answers.append(None if names.unknown else not names.elements())
            answers.append(_matches_version(rule.at("apiVersions"), match_policy))
        if all(answer is True for answer in answers):
            return True
        if False not in answers:
            verdict = None
    return verdict


def _matches_version(versions: Field, match_policy: Field) -> bool | None:
    """Return whether a rule matches requests in the version in use: others match it where they convert to it."""
    if versions.missing or (listed := _lists(versions, VERSION)):
        return True
    return False if listed is False and match_policy.raw == "Exact" else None


def _lists(field: Field, value: str) -> bool | None:
    values = [element.raw for element in field.elements()]
    if value in values or "*" in values or (field.path.endswith("resources") and "*/*" in values):
        return True
    return None if UNKNOWN in values else False


def _selects(selector: Field, name: object, labels: Field) -> bool | None:
    if selector.raw is MISSING:
        return True
    values: Mapping[str, object] = as_mapping(None if labels.missing else labels.raw) or {}
    if labels.unknown or selector.unknown:
        return True if selector.raw == {} else None
    plain = {key: value if isinstance(value, str) else UNKNOWN for key, value in values.items()}
    # The API server sets this label.
    return matches(selector.raw, {**plain, NAME_LABEL: name if isinstance(name, str) else UNKNOWN})
