"""Claims: the one thing that people and programs make at run time, so what one may ask for is said in full."""

from __future__ import annotations

from agentenv.config.values import OWNER_ID
from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import USER_LABEL
from agentenv.core.guardrails.class_parameters import list_parameter, parameter
from agentenv.core.guardrails.guardrail import (
    Policy,
    Rule,
    Watch,
    all_of,
    key_below,
    quoted,
    quoted_list,
    unchanged_marks,
    unless,
)
from agentenv.core.guardrails.principals import Principals, requested_by
from agentenv.core.workspaces.claims import DO_NOT_DISRUPT
from agentenv.core.workspaces.workspace import DOMAIN, OWN_LABEL

CLAIMS = Watch("extensions.agents.x-k8s.io", ("sandboxclaims",))
# What the class says of its sandboxes; upstream refuses another value, and lets a claim add one that is missing.
_WORDS = "class tier wall release channel shard environment owner cost-center home-class"
OF_CLASS = tuple(f"sandbox.users.io/{word}" for word in _WORDS.split())
ANNOTATIONS = (DO_NOT_DISRUPT,)

_LABELS = "object.spec.?additionalPodMetadata.?labels"
_FURTHER = f"({key_below(DOMAIN)} && !(key in {quoted_list((USER_LABEL, CLASS_LABEL))}))"
_SAME = "oldObject != null && object.spec == oldObject.spec"


def policies(principals: Principals) -> tuple[Policy, ...]:
    """What a claim may be, and who writes what the service keeps on it."""
    return (
        _records(principals),
        Policy(
            name="claims",
            about="Claims of sandboxes, when they are made and when their specification changes.",
            watches=(CLAIMS,),
            by_class=True,
            variables={"user": f"{_LABELS}[?'{USER_LABEL}'].orValue('')"},
            rules=(
                Rule(
                    "claim-owner",
                    "What nobody owns is accounted to nobody and given back by nobody; an address would stand in logs,"
                    " metrics and bills.",
                    unless(
                        f"{_SAME} && {_same_label(USER_LABEL)}",
                        all_of(
                            f"variables.user.matches({quoted(OWNER_ID)})",
                            f"object.metadata.?labels[?'{USER_LABEL}'].orValue(variables.user) == variables.user",
                        ),
                    ),
                    f"a claim names its owner in spec.additionalPodMetadata.labels['{USER_LABEL}'], by an opaque id and"
                    " no address, the same as in its own label if it has one",
                ),
                Rule(
                    "claim-class",
                    "By its label a workspace is taken for one of that class, with the limits and the namespace of it.",
                    unless(
                        f"oldObject != null && {_same_label(CLASS_LABEL)}",
                        f"object.metadata.?labels[?'{CLASS_LABEL}'].orValue({parameter('class')})"
                        f" == {parameter('class')}",
                    ),
                    f"the label {CLASS_LABEL} of a claim is the class in whose namespace it is",
                ),
                _rule(
                    "claim-shutdown",
                    "Without one a sandbox that nobody uses any more is paid for until somebody finds it.",
                    "has(object.spec.lifecycle) && has(object.spec.lifecycle.shutdownPolicy)",
                    "a claim says in spec.lifecycle how its sandbox ends",
                ),
                _rule(
                    "claim-env",
                    "Variables make every such claim start cold, and they stand readable in the claim.",
                    f"object.spec.?env.orValue([]).size() == 0 || {parameter('claimEnv')} == 'true'",
                    "claims of this class bring no variables of their own",
                ),
                _rule(
                    "claim-volumes",
                    "A sandbox's home comes with it from the pool; a volume of the claim's own makes it start cold,"
                    " on storage that the class did not choose.",
                    "object.spec.?volumeClaimTemplates.orValue([]).size() == 0",
                    "a claim brings no volumes; its sandbox has what its class gives it",
                ),
                _rule(
                    "claim-pool",
                    "A pool of another name has not been looked at when the class was declared.",
                    f"{list_parameter('pools')}.exists(pool, object.spec.warmPoolRef.name == pool"
                    " || object.spec.warmPoolRef.name.startsWith(pool + '-'))",
                    "spec.warmPoolRef.name is a pool of the class",
                ),
                _rule(
                    "claim-labels",
                    "The class's labels decide which network policy covers a pod and who pays for it; annotations of"
                    " runtimes can open the wall around it.",
                    all_of(
                        f"{_LABELS}.orValue({{}}).all(key, !(key in {quoted_list(OF_CLASS)}))",
                        "object.spec.?additionalPodMetadata.?annotations.orValue({}).all(key,"
                        f" key.startsWith('sandbox.users.io/') || key in {quoted_list(ANNOTATIONS)})",
                    ),
                    "a claim adds labels that its class does not set itself, and annotations below sandbox.users.io/"
                    " and karpenter.sh/do-not-disrupt",
                ),
                _rule(
                    "claim-stays",
                    "Nodes are packed anew to save money, and what does not ask to be left alone is ended for it.",
                    f"object.spec.?additionalPodMetadata.?annotations[?'{DO_NOT_DISRUPT}'].orValue('') == 'true'",
                    f"a claim sets spec.additionalPodMetadata.annotations['{DO_NOT_DISRUPT}'] to 'true'",
                ),
                _rule(
                    "claim-seat",
                    "A cold start has its claim's name, and with the name of a declared workspace it would look for"
                    " that one's home.",
                    f"!{list_parameter('seats')}.exists(seat, seat.startsWith(object.metadata.name + ':'))",
                    "a claim has another name than the declared workspaces of its class",
                ),
            ),
        ),
    )


def _records(principals: Principals) -> Policy:
    return Policy(
        name="claim-records",
        about="What a claim says of the workspace that it is, in its annotations and its owner's own labels.",
        watches=(CLAIMS,),
        rules=(
            Rule(
                "claim-record",
                "It says with whom a workspace is shared, what it may cost, and when it sleeps and ends; the service"
                " asks who may change that, and believes what it reads.",
                unless(
                    all_of(
                        unchanged_marks(key_below(DOMAIN), ("annotations",)),
                        unchanged_marks(key_below(OWN_LABEL), ("labels",)),
                        # Its owner and its class have rules of their own.
                        unless("oldObject == null", unchanged_marks(_FURTHER, ("labels",))),
                    ),
                    requested_by(principals.service),
                ),
                "annotations of a claim below sandbox.users.io/ and labels below label.sandbox.users.io/ are written by"
                " the workspace service and deployers, who alone change its labels below sandbox.users.io/ later",
            ),
        ),
    )


def _same_label(key: str) -> str:
    return f"object.metadata.?labels[?{quoted(key)}] == oldObject.metadata.?labels[?{quoted(key)}]"


def _rule(identity: str, why: str, holds: str, message: str) -> Rule:
    return Rule(identity, why, unless(_SAME, holds), message)
