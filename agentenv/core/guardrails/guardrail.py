"""Rules on requests to the API server, and the ValidatingAdmissionPolicies that enforce them.

A policy has the requests that it matches and the rules that these must satisfy. If its rules read the ConfigMap of a
class, it has two bindings. Creates are refused while the ConfigMap is missing. Updates are then allowed, because a
namespace that is deleted loses its ConfigMap before its other objects, whose finalizers must still be removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import CONSTRAINTS

Plain = dict[str, Any]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]

PREFIX = "sandbox-guardrail"
_API = "admissionregistration.k8s.io/v1"
# The audit log names the user, the operation and the object of every refused request.
_AUDITED = {
    "who": "request.userInfo.username",
    "what": "request.operation + ' ' + request.resource.resource + '/' + request.?subResource.orValue('') + ' of '"
    " + request.?namespace.orValue('') + '/' + request.?name.orValue('')",
}
# A field that a request does not have is absent, not empty, and an expression that reads it fails, which refuses the
# request. For example, the deletion of a collection has no name.
SUBRESOURCE = "request.?subResource.orValue('')"


@dataclass(frozen=True)
class Rule:
    """A rule that requests must satisfy."""

    id: str
    why: str
    holds: str  # CEL, true for a request that satisfies it
    message: str  # for the caller: what the rule requires


@dataclass(frozen=True)
class Watch:
    """A kind of request that a policy matches."""

    group: str
    resources: tuple[str, ...]
    operations: tuple[Operation, ...] = ("CREATE", "UPDATE")
    version: str = "*"


@dataclass(frozen=True)
class Policy:
    """A ValidatingAdmissionPolicy: the requests that it matches and its rules."""

    name: str
    about: str
    watches: tuple[Watch, ...]
    rules: tuple[Rule, ...]
    in_classes: bool = True  # whether it matches requests in the namespaces of classes only
    elsewhere: bool = False  # or in all other namespaces only
    within: str = ""  # or in the namespace of this name only
    by_class: bool = False  # whether its rules read the class's ConfigMap
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    when: Mapping[str, str] = field(default_factory=dict[str, str])  # match conditions, all of which must hold

    @property
    def full_name(self) -> str:
        """Return the name of the policy in the cluster."""
        return f"{PREFIX}-{self.name}"

    @property
    def operations(self) -> frozenset[Operation]:
        """Return the operations that it matches."""
        return frozenset(operation for watch in self.watches for operation in watch.operations)

    def document(self) -> Plain:
        """Return the ValidatingAdmissionPolicy."""
        spec: Plain = {
            "failurePolicy": "Fail",
            "matchConstraints": self._matching(self.watches),
            "validations": [
                {"expression": one_line(rule.holds), "message": f"[{rule.id}] {rule.message}", "reason": "Forbidden"}
                for rule in self.rules
            ],
            "auditAnnotations": [{"key": key, "valueExpression": value} for key, value in _AUDITED.items()],
        }
        if self.by_class:
            spec["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
        if self.variables:
            spec["variables"] = [{"name": name, "expression": one_line(cel)} for name, cel in self.variables.items()]
        if self.when:
            spec["matchConditions"] = [{"name": name, "expression": one_line(cel)} for name, cel in self.when.items()]
        return _object("ValidatingAdmissionPolicy", self.full_name, spec)

    def bindings(self) -> list[Plain]:
        """Return its bindings: one, or one each for creates and updates if it reads a class's ConfigMap."""
        spec: Plain = {"policyName": self.full_name, "validationActions": ["Deny", "Audit"]}
        if not self.by_class:
            return [_object("ValidatingAdmissionPolicyBinding", self.full_name, spec)]
        return [
            _object(
                "ValidatingAdmissionPolicyBinding",
                f"{self.full_name}-{word}",
                {
                    **spec,
                    "paramRef": {"name": CONSTRAINTS, "parameterNotFoundAction": missing},
                    "matchResources": self._matching(_only(self.watches, operation)),
                },
            )
            for word, operation, missing in (("made", "CREATE", "Deny"), ("changed", "UPDATE", "Allow"))
            if operation in self.operations
        ]

    def _matching(self, watches: tuple[Watch, ...]) -> Plain:
        rules = [
            {
                "apiGroups": [watch.group],
                "apiVersions": [watch.version],
                "resources": list(watch.resources),
                "operations": list(watch.operations),
                "scope": "*",
            }
            for watch in watches
        ]
        where: Plain = {}
        if self.within:
            # The API server sets this label on every namespace.
            where = {"matchLabels": {"kubernetes.io/metadata.name": self.within}}
        elif self.in_classes or self.elsewhere:
            operator = "DoesNotExist" if self.elsewhere else "Exists"
            where = {"matchExpressions": [{"key": CLASS_LABEL, "operator": operator}]}
        # With the server's defaults, so that a refresh finds no drift.
        return {"resourceRules": rules, "matchPolicy": "Equivalent", "objectSelector": {}, "namespaceSelector": where}


def one_line(cel: str) -> str:
    """Return an expression without line breaks, which the API server would show as `\\n`."""
    return " ".join(cel.split())


def all_of(*conditions: str) -> str:
    """Return a CEL expression that is true if all conditions are."""
    return " && ".join(f"({condition.strip()})" for condition in conditions)


def unless(excused: str, holds: str) -> str:
    """Return a CEL expression that is true if a request is excused or satisfies a rule."""
    return f"({excused.strip()}) || ({holds.strip()})"


def key_below(*starts: str) -> str:
    """Return a CEL expression: whether `key` starts with one of these prefixes."""
    return f"({' || '.join(f'key.startsWith({quoted(start)})' for start in starts)})"


def unchanged_marks(owned: str, parts: tuple[str, ...] = ("labels", "annotations")) -> str:
    """Return a CEL expression: whether no label or annotation with an owned `key` is added, changed or removed."""
    conditions: list[str] = []
    for part in parts:
        now, before = f"object.metadata.?{part}", f"oldObject.metadata.?{part}"
        conditions += [
            f"{now}.orValue({{}}).all(key, !{owned} || (oldObject != null && {now}[?key] == {before}[?key]))",
            f"oldObject == null || {before}.orValue({{}}).all(key, !{owned} || {now}[?key] == {before}[?key])",
        ]
    return all_of(*conditions)


def quoted_list(values: tuple[str, ...] | list[str]) -> str:
    """Return a CEL list of strings."""
    return "[" + ", ".join(quoted(value) for value in values) + "]"


def quoted(value: str) -> str:
    """Return a CEL string."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def parameter(key: str) -> str:
    """Return a CEL expression for a value of the class's ConfigMap; empty if it has none."""
    return f"params.?data[?{quoted(key)}].orValue('')"


def list_parameter(key: str) -> str:
    """Return a CEL expression for the items of a comma-separated value of the class's ConfigMap."""
    return f"{parameter(key)}.split(',').filter(item, item != '')"


def _only(watches: tuple[Watch, ...], operation: Operation) -> tuple[Watch, ...]:
    return tuple(
        Watch(watch.group, watch.resources, (operation,), watch.version)
        for watch in watches
        if operation in watch.operations
    )


def _object(kind: str, name: str, spec: Plain) -> Plain:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": spec}
