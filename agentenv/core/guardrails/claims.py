"""Guardrails for SandboxClaims, which callers create at run time: every field that they may set is checked."""

from __future__ import annotations

from agentenv.config.values import OWNER_ID
from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import USER_LABEL
from agentenv.core.guardrails.guardrail import (
    Policy,
    Rule,
    Watch,
    all_of,
    key_below,
    list_parameter,
    parameter,
    quoted,
    quoted_list,
    unchanged_marks,
    unless,
)
from agentenv.core.guardrails.principals import Principals, requested_by
from agentenv.core.workspaces.claims import DO_NOT_DISRUPT
from agentenv.core.workspaces.workspace import DOMAIN, OWN_LABEL

CLAIMS = Watch("extensions.agents.x-k8s.io", ("sandboxclaims",))
# Labels that the class sets on its sandboxes. The controller refuses other values, but a claim may add missing labels.
_WORDS = "class tier wall release channel shard environment owner cost-center home-class"
OF_CLASS = tuple(f"sandbox.users.io/{word}" for word in _WORDS.split())
ANNOTATIONS = (DO_NOT_DISRUPT,)

_LABELS = "object.spec.?additionalPodMetadata.?labels"
_FURTHER = f"({key_below(DOMAIN)} && !(key in {quoted_list((USER_LABEL, CLASS_LABEL))}))"
_SAME = "oldObject != null && object.spec == oldObject.spec"


def policies(principals: Principals) -> tuple[Policy, ...]:
    """Return the policies for claims, and for the records of the workspace service on them."""
    return (
        _records(principals),
        Policy(
            name="claims",
            about="SandboxClaims, on creation and when their spec changes.",
            watches=(CLAIMS,),
            by_class=True,
            variables={"user": f"{_LABELS}[?'{USER_LABEL}'].orValue('')"},
            rules=(
                Rule(
                    "claim-owner",
                    "A workspace without an owner cannot be accounted for or returned to. An email address would appear"
                    " in logs, metrics and bills.",
                    unless(
                        f"{_SAME} && {_same_label(USER_LABEL)}",
                        all_of(
                            f"variables.user.matches({quoted(OWNER_ID)})",
                            f"object.metadata.?labels[?'{USER_LABEL}'].orValue(variables.user) == variables.user",
                        ),
                    ),
                    f"spec.additionalPodMetadata.labels['{USER_LABEL}'] must be the owner's opaque id, not an email"
                    " address, and must equal the claim's own label if it has one",
                ),
                Rule(
                    "claim-class",
                    "The service takes a workspace's class, and with it its limits and namespace, from this label.",
                    unless(
                        f"oldObject != null && {_same_label(CLASS_LABEL)}",
                        f"object.metadata.?labels[?'{CLASS_LABEL}'].orValue({parameter('class')})"
                        f" == {parameter('class')}",
                    ),
                    f"the label {CLASS_LABEL} of a claim must be the class of its namespace",
                ),
                _rule(
                    "claim-shutdown",
                    "Without a shutdown policy an unused sandbox costs money until somebody finds it.",
                    "has(object.spec.lifecycle) && has(object.spec.lifecycle.shutdownPolicy)",
                    "spec.lifecycle.shutdownPolicy must be set",
                ),
                _rule(
                    "claim-env",
                    "A claim with variables always starts cold, and the values are readable in the claim.",
                    f"object.spec.?env.orValue([]).size() == 0 || {parameter('claimEnv')} == 'true'",
                    "spec.env must be empty, because the class does not allow environment variables of claims",
                ),
                _rule(
                    "claim-volumes",
                    "A sandbox from the pool has its home. A volume of the claim makes it start cold, on storage that"
                    " the class did not choose.",
                    "object.spec.?volumeClaimTemplates.orValue([]).size() == 0",
                    "spec.volumeClaimTemplates must be empty; the class defines the volumes of its sandboxes",
                ),
                _rule(
                    "claim-pool",
                    "The pools of a class are declared and reviewed with it; any other pool is not.",
                    f"{list_parameter('pools')}.exists(pool, object.spec.warmPoolRef.name == pool"
                    " || object.spec.warmPoolRef.name.startsWith(pool + '-'))",
                    "spec.warmPoolRef.name must be a pool of the class",
                ),
                _rule(
                    "claim-labels",
                    "The class's labels decide which network policy covers a pod and who pays for it. Annotations of"
                    " runtimes can weaken its isolation.",
                    all_of(
                        f"{_LABELS}.orValue({{}}).all(key, !(key in {quoted_list(OF_CLASS)}))",
                        "object.spec.?additionalPodMetadata.?annotations.orValue({}).all(key,"
                        f" key.startsWith('sandbox.users.io/') || key in {quoted_list(ANNOTATIONS)})",
                    ),
                    "spec.additionalPodMetadata may only have labels that the class does not set, annotations below"
                    " sandbox.users.io/, and karpenter.sh/do-not-disrupt",
                ),
                _rule(
                    "claim-stays",
                    "Karpenter consolidates nodes to save money, and evicts pods without this annotation.",
                    f"object.spec.?additionalPodMetadata.?annotations[?'{DO_NOT_DISRUPT}'].orValue('') == 'true'",
                    f"spec.additionalPodMetadata.annotations['{DO_NOT_DISRUPT}'] must be 'true'",
                ),
                _rule(
                    "claim-seat",
                    "A cold start has the name of its claim. With the name of a declared workspace it would mount that"
                    " workspace's home.",
                    f"!{list_parameter('seats')}.exists(seat, seat.startsWith(object.metadata.name + ':'))",
                    "a claim must not have the name of a declared workspace of its class",
                ),
            ),
        ),
    )


def _records(principals: Principals) -> Policy:
    return Policy(
        name="claim-records",
        about="The records of a workspace on its SandboxClaim: annotations, and the owner's own labels.",
        watches=(CLAIMS,),
        rules=(
            Rule(
                "claim-record",
                "They say with whom a workspace is shared, what it may cost, and when it is suspended and deleted. The"
                " service authorizes changes of them, and trusts what it reads.",
                unless(
                    all_of(
                        unchanged_marks(key_below(DOMAIN), ("annotations",)),
                        unchanged_marks(key_below(OWN_LABEL), ("labels",)),
                        # The labels of owner and class have their own rules.
                        unless("oldObject == null", unchanged_marks(_FURTHER, ("labels",))),
                    ),
                    requested_by(principals.service),
                ),
                "only the workspace service and deployers may set a claim's annotations below sandbox.users.io/ and"
                " labels below label.sandbox.users.io/, and change its labels below sandbox.users.io/",
            ),
        ),
    )


def _same_label(key: str) -> str:
    return f"object.metadata.?labels[?{quoted(key)}] == oldObject.metadata.?labels[?{quoted(key)}]"


def _rule(identity: str, why: str, holds: str, message: str) -> Rule:
    return Rule(identity, why, unless(_SAME, holds), message)
