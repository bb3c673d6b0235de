"""Guardrails for the namespace of a class and the objects that restrict its sandboxes: only deployers change them."""

from __future__ import annotations

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.pods.daemon import KEYS
from agentenv.core.guardrails.guardrail import (
    CONSTRAINTS,
    Operation,
    Policy,
    Rule,
    Watch,
    all_of,
    quoted,
    quoted_list,
    unless,
)
from agentenv.core.guardrails.principals import Principals, requested_by

_ALL: tuple[Operation, ...] = ("CREATE", "UPDATE", "DELETE")
_LEVEL = "pod-security.kubernetes.io/enforce"
_EITHER_OBJECT = "(object == null ? oldObject : object)"
# Controllers add and remove finalizers: for example, the network policy controller has one on every policy.
_BOTH_OBJECTS = "object != null && oldObject != null"
# The deletion of a namespace deletes its objects, whichever controller does it.
_TERMINATING = "has(namespaceObject.metadata.deletionTimestamp)"


def policies(principals: Principals) -> tuple[Policy, ...]:
    """Return the policies for namespaces of classes, and for the objects of a class in them."""
    return (_namespaces(), _namespace_objects(principals))


def _namespaces() -> Policy:
    label = f"[?{quoted(CLASS_LABEL)}]"
    mine = f"object.metadata.?labels{label}"
    return Policy(
        name="namespaces",
        about="Namespaces of classes, with their subresources status and finalize.",
        watches=(Watch("", ("namespaces", "namespaces/status", "namespaces/finalize")),),
        in_classes=False,
        when={
            "a-class": f"{mine}.hasValue() || (oldObject != null && oldObject.metadata.?labels{label}.hasValue())",
        },
        variables={
            # Only these labels have an effect; others may be changed freely.
            "fences": "object.metadata.?labels.orValue({}).map(key, key + '=' + object.metadata.labels[key])"
            ".filter(pair, pair.startsWith('sandbox.users.io/') || pair.startsWith('pod-security.kubernetes.io/'))",
            "before": "oldObject == null ? [] : oldObject.metadata.?labels.orValue({}).map(key,"
            " key + '=' + oldObject.metadata.labels[key]).filter(pair, pair.startsWith('sandbox.users.io/')"
            " || pair.startsWith('pod-security.kubernetes.io/'))",
        },
        rules=(
            Rule(
                "space-walls",
                "Pod Security Admission also enforces what no guardrail checks.",
                unless(
                    "has(object.metadata.deletionTimestamp)",
                    unless(
                        f"!{mine}.hasValue()",
                        f"object.metadata.labels[?{quoted(_LEVEL)}].orValue('') == 'restricted'",
                    ),
                ),
                f"the namespace of a class must have the label {_LEVEL}: restricted",
            ),
            Rule(
                "space-name",
                "Both the name and the label of a namespace are used to find its class.",
                unless(
                    "has(object.metadata.deletionTimestamp)",
                    unless(f"!{mine}.hasValue()", f"object.metadata.name == 'sandbox-' + {mine}.orValue('')"),
                ),
                f"the namespace of class X must be named sandbox-X and have the label {CLASS_LABEL}: X",
            ),
            Rule(
                "space-by",
                "Guardrails and Pod Security Admission select namespaces by these labels.",
                unless(
                    all_of(
                        "oldObject != null",
                        "variables.fences.all(pair, pair in variables.before)",
                        "variables.before.all(pair, pair in variables.fences)",
                    ),
                    requested_by(),
                ),
                "only deployers may create namespaces of classes, and change their sandbox.users.io and pod-security"
                " labels",
            ),
        ),
    )


def _configmap(name: str) -> str:
    return f"request.resource.resource == 'configmaps' && {_EITHER_OBJECT}.metadata.name == {quoted(name)}"


def _namespace_objects(principals: Principals) -> Policy:
    deleting = (
        f"request.operation == 'DELETE' && ({_TERMINATING} || {requested_by(*principals.collectors, deployers=False)})"
    )

    def rule(identity: str, why: str, objects: str, same: str, message: str, *users: str) -> Rule:
        return Rule(
            identity,
            why,
            unless(
                f"!({objects})",
                unless(f"{_BOTH_OBJECTS} && {same}", unless(deleting, requested_by(*users))),
            ),
            message,
        )

    return Policy(
        name="fences",
        about="The objects in a class's namespace that restrict its sandboxes.",
        watches=(
            Watch("networking.k8s.io", ("networkpolicies",), _ALL),
            Watch("vpcresources.k8s.aws", ("securitygrouppolicies",), _ALL),
            Watch("", ("resourcequotas", "limitranges", "serviceaccounts", "configmaps"), _ALL),
        ),
        when={
            "own-constraints": "request.resource.resource != 'configmaps' ||"
            f" {_EITHER_OBJECT}.metadata.name in {quoted_list([CONSTRAINTS, KEYS])}",
        },
        rules=(
            rule(
                "fence-network",
                "Network policies are additive: a second one allows more, and without any nothing is restricted.",
                "request.resource.resource in ['networkpolicies', 'securitygrouppolicies']",
                "object.spec == oldObject.spec",
                "only deployers may change network policies and security group policies of a class",
            ),
            rule(
                "fence-limits",
                "The quota keeps one class from using the whole cluster, and bounds its cost.",
                "request.resource.resource in ['resourcequotas', 'limitranges']",
                "object.spec == oldObject.spec",
                "only deployers may change ResourceQuotas and LimitRanges of a class",
            ),
            rule(
                "fence-account",
                "The IAM role of sandboxes is an annotation of their service account.",
                "request.resource.resource in ['serviceaccounts']",
                "object.metadata.?annotations == oldObject.metadata.?annotations",
                "only deployers may change service accounts of a class",
                *principals.accounts,
            ),
            rule(
                "fence-constraints",
                "The other guardrails read their parameters from it.",
                _configmap(CONSTRAINTS),
                "object.?data == oldObject.?data",
                f"only deployers may change the ConfigMap {CONSTRAINTS}",
            ),
            rule(
                "fence-keys",
                "Sandboxes admit callers with tokens signed by these keys: another key would admit its owner to all of"
                " them.",
                _configmap(KEYS),
                "object.?data == oldObject.?data && object.?binaryData == oldObject.?binaryData",
                f"only the workspace service and deployers may change the ConfigMap {KEYS}",
                principals.service,
            ),
        ),
    )
