"""The namespace of a class and what it is fenced with: declared by a deployment, and changed by nobody else."""

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
# Finalizers come and go with whoever needs them: the network's own controller has one on every policy.
_BOTH_OBJECTS = "object != null && oldObject != null"
# A namespace that goes takes everything with it, whoever does the work.
_TERMINATING = "has(namespaceObject.metadata.deletionTimestamp)"


def policies(principals: Principals) -> tuple[Policy, ...]:
    """The namespaces themselves, and the objects in them that are a class's own."""
    return (_namespaces(), _namespace_objects(principals))


def _namespaces() -> Policy:
    label = f"[?{quoted(CLASS_LABEL)}]"
    mine = f"object.metadata.?labels{label}"
    return Policy(
        name="namespaces",
        about="Namespaces of classes, by the ordinary way, with their status and while they are finalized.",
        watches=(Watch("", ("namespaces", "namespaces/status", "namespaces/finalize")),),
        in_classes=False,
        when={
            "a-class": f"{mine}.hasValue() || (oldObject != null && oldObject.metadata.?labels{label}.hasValue())",
        },
        variables={
            # Only these decide anything; others may have labels of their own.
            "fences": "object.metadata.?labels.orValue({}).map(key, key + '=' + object.metadata.labels[key])"
            ".filter(pair, pair.startsWith('sandbox.users.io/') || pair.startsWith('pod-security.kubernetes.io/'))",
            "before": "oldObject == null ? [] : oldObject.metadata.?labels.orValue({}).map(key,"
            " key + '=' + oldObject.metadata.labels[key]).filter(pair, pair.startsWith('sandbox.users.io/')"
            " || pair.startsWith('pod-security.kubernetes.io/'))",
        },
        rules=(
            Rule(
                "space-walls",
                "Pod security is the wall that holds where a guardrail does not look.",
                unless(
                    "has(object.metadata.deletionTimestamp)",
                    unless(
                        f"!{mine}.hasValue()",
                        f"object.metadata.labels[?{quoted(_LEVEL)}].orValue('') == 'restricted'",
                    ),
                ),
                f"the namespace of a class has {_LEVEL}: restricted",
            ),
            Rule(
                "space-name",
                "Which class a namespace belongs to is read from both.",
                unless(
                    "has(object.metadata.deletionTimestamp)",
                    unless(f"!{mine}.hasValue()", f"object.metadata.name == 'sandbox-' + {mine}.orValue('')"),
                ),
                f"the namespace of class X is sandbox-X, with {CLASS_LABEL}: X",
            ),
            Rule(
                "space-by",
                "Without its labels a namespace has no guardrails, and with other ones weaker walls.",
                unless(
                    all_of(
                        "oldObject != null",
                        "variables.fences.all(pair, pair in variables.before)",
                        "variables.before.all(pair, pair in variables.fences)",
                    ),
                    requested_by(),
                ),
                "namespaces of classes are made by deployers, who alone change their sandbox.users.io and pod-security"
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
        about="The objects in a class's namespace that hold its sandboxes in.",
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
                "Policies only ever add: a second one beside the class's is more reach, and without one there is no"
                " saying what holds.",
                "request.resource.resource in ['networkpolicies', 'securitygrouppolicies']",
                "object.spec == oldObject.spec",
                "network and security group policies of a class are declared by deployers",
            ),
            rule(
                "fence-limits",
                "A quota is what keeps one class from taking the whole cluster, and its bill.",
                "request.resource.resource in ['resourcequotas', 'limitranges']",
                "object.spec == oldObject.spec",
                "quotas and limits of a class are declared by deployers",
            ),
            rule(
                "fence-account",
                "The role of a sandbox is an annotation of its account.",
                "request.resource.resource in ['serviceaccounts']",
                "object.metadata.?annotations == oldObject.metadata.?annotations",
                "accounts of a class are declared by deployers",
                *principals.accounts,
            ),
            rule(
                "fence-constraints",
                "What every other guardrail compares with.",
                _configmap(CONSTRAINTS),
                "object.?data == oldObject.?data",
                f"the ConfigMap {CONSTRAINTS} is written by deployers",
            ),
            rule(
                "fence-keys",
                "By these keys sandboxes tell who may come in: with a key of their own, anybody signs a way into all.",
                _configmap(KEYS),
                "object.?data == oldObject.?data && object.?binaryData == oldObject.?binaryData",
                f"the ConfigMap {KEYS} is written by the workspace service and deployers",
                principals.service,
            ),
        ),
    )
