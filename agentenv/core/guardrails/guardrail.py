"""What a guardrail is: rules on requests to the API server, and the documents that make the server hold them.

A policy is what the server looks at together: some kinds of request, and the rules that each of them has to keep. Where
its rules read the ConfigMap of a class it is bound twice. A request that makes something is refused while the class's
ConfigMap is missing; one that changes something is then let through, because a namespace that goes loses its ConfigMap
before its other objects, and finalizers have to come off those.
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
# Whoever reads the audit log finds what was refused, to whom and where, whatever the request itself was.
_AUDITED = {
    "who": "request.userInfo.username",
    "what": "request.operation + ' ' + request.resource.resource + '/' + request.?subResource.orValue('') + ' of '"
    " + request.?namespace.orValue('') + '/' + request.?name.orValue('')",
}
# What a request lacks is absent and not empty, and an expression that trips over it refuses the request. A collection
# that is deleted has no name, for one.
SUBRESOURCE = "request.?subResource.orValue('')"


@dataclass(frozen=True)
class Rule:
    """One thing that a request has to keep."""

    id: str
    why: str
    holds: str  # CEL, true for a request that keeps it
    message: str  # what whoever asked is told: how it has to be


@dataclass(frozen=True)
class Watch:
    """Requests that are looked at."""

    group: str
    resources: tuple[str, ...]
    operations: tuple[Operation, ...] = ("CREATE", "UPDATE")
    version: str = "*"


@dataclass(frozen=True)
class Policy:
    """Rules that are looked at together."""

    name: str
    about: str
    watches: tuple[Watch, ...]
    rules: tuple[Rule, ...]
    in_classes: bool = True  # whether only in the namespaces of classes
    elsewhere: bool = False  # or only in others
    within: str = ""  # or only in one, by its name
    by_class: bool = False  # whether its rules read the class's ConfigMap
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    when: Mapping[str, str] = field(default_factory=dict[str, str])  # further conditions, all of which have to hold

    @property
    def full_name(self) -> str:
        """Its name in the cluster."""
        return f"{PREFIX}-{self.name}"

    @property
    def operations(self) -> frozenset[Operation]:
        """What it looks at being done."""
        return frozenset(operation for watch in self.watches for operation in watch.operations)

    def document(self) -> Plain:
        """The ValidatingAdmissionPolicy."""
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
        """What puts it into force."""
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
            # Kubernetes gives every namespace this label, and lets nobody change it.
            where = {"matchLabels": {"kubernetes.io/metadata.name": self.within}}
        elif self.in_classes or self.elsewhere:
            operator = "DoesNotExist" if self.elsewhere else "Exists"
            where = {"matchExpressions": [{"key": CLASS_LABEL, "operator": operator}]}
        # Said in full, with what the server would fill in: what is read back is then what was written.
        return {"resourceRules": rules, "matchPolicy": "Equivalent", "objectSelector": {}, "namespaceSelector": where}


def one_line(cel: str) -> str:
    """An expression without the line breaks that it is easier read with; the API server would show them as `\\n`."""
    return " ".join(cel.split())


def all_of(*conditions: str) -> str:
    """All of them."""
    return " && ".join(f"({condition.strip()})" for condition in conditions)


def unless(excused: str, holds: str) -> str:
    """A rule that some requests need not keep."""
    return f"({excused.strip()}) || ({holds.strip()})"


def key_below(*starts: str) -> str:
    """Whether a `key` begins so."""
    return f"({' || '.join(f'key.startsWith({quoted(start)})' for start in starts)})"


def unchanged_marks(owned: str, parts: tuple[str, ...] = ("labels", "annotations")) -> str:
    """Whether no label and no annotation is added, changed or taken away of whose `key` this is true."""
    conditions: list[str] = []
    for part in parts:
        now, before = f"object.metadata.?{part}", f"oldObject.metadata.?{part}"
        conditions += [
            f"{now}.orValue({{}}).all(key, !{owned} || (oldObject != null && {now}[?key] == {before}[?key]))",
            f"oldObject == null || {before}.orValue({{}}).all(key, !{owned} || {now}[?key] == {before}[?key])",
        ]
    return all_of(*conditions)


def quoted_list(values: tuple[str, ...] | list[str]) -> str:
    """A list of texts in CEL."""
    return "[" + ", ".join(quoted(value) for value in values) + "]"


def quoted(value: str) -> str:
    """A text in CEL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _only(watches: tuple[Watch, ...], operation: Operation) -> tuple[Watch, ...]:
    return tuple(
        Watch(watch.group, watch.resources, (operation,), watch.version)
        for watch in watches
        if operation in watch.operations
    )


def _object(kind: str, name: str, spec: Plain) -> Plain:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": spec}
