"""What a sandbox is to Kubernetes: nobody. No role is bound to its account, and nobody takes its token."""

from __future__ import annotations

from agentenv.core.classes.names import SCHEDULES
from agentenv.core.guardrails.guardrail import SUBRESOURCE, Policy, Rule, Watch, all_of, quoted, quoted_list, unless
from agentenv.core.guardrails.principals import API_SERVER, NODES, requested_by

_RBAC = "rbac.authorization.k8s.io"
# All of a cluster's service accounts are in these groups, or everybody is.
_EVERYBODY = ("system:serviceaccounts", "system:authenticated", "system:unauthenticated")
# In it are pools' schedules, which may scale pools; it is no class's.


def policies() -> tuple[Policy, ...]:
    """Bindings in the whole cluster, tokens and secrets in the namespaces of classes."""
    subject = all_of(
        f"!(subject.kind == 'ServiceAccount' && subject.?namespace.orValue('').startsWith('sandbox-')"
        f" && subject.namespace != {quoted(SCHEDULES)})",
        "!(subject.kind == 'User' && subject.name.startsWith('system:serviceaccount:sandbox-')"
        f" && !subject.name.startsWith('system:serviceaccount:{SCHEDULES}:'))",
        "!(subject.kind == 'Group' && subject.name.startsWith('system:serviceaccounts:sandbox-')"
        f" && subject.name != 'system:serviceaccounts:{SCHEDULES}')",
        f"!(subject.kind == 'Group' && subject.name in {quoted_list(_EVERYBODY)})",
    )
    return (
        Policy(
            name="bindings",
            about="RoleBindings and ClusterRoleBindings.",
            watches=(Watch(_RBAC, ("rolebindings", "clusterrolebindings")),),
            in_classes=False,
            rules=(
                Rule(
                    "binding-subject",
                    "Whatever is bound to a sandbox's account, or to all accounts, is handed to whoever sits in a"
                    " sandbox. The API server itself keeps the few that Kubernetes comes with.",
                    unless(
                        "oldObject != null && object.?subjects == oldObject.?subjects",
                        unless(
                            f"request.userInfo.username == {quoted(API_SERVER)}",
                            f"object.?subjects.orValue([]).all(subject, {subject})",
                        ),
                    ),
                    "no role for the accounts of sandboxes (in namespaces sandbox-*), nor for all accounts or"
                    " everybody; name the accounts that need it",
                ),
            ),
        ),
        Policy(
            name="tokens",
            about="Tokens of accounts of classes.",
            watches=(
                Watch("", ("serviceaccounts/token",), ("CREATE",)),
                Watch("", ("secrets",), ("CREATE", "UPDATE")),
            ),
            rules=(
                Rule(
                    "token-by",
                    "With a sandbox's token somebody else has its role in AWS.",
                    unless(
                        f"{SUBRESOURCE} != 'token'",
                        requested_by(groups=[NODES]),
                    ),
                    "tokens of sandboxes are asked for by their nodes and by deployers",
                ),
                Rule(
                    "token-lasting",
                    "Such a secret is filled with a token that never ends.",
                    unless(
                        "request.resource.resource != 'secrets'",
                        "object.?type.orValue('Opaque') != 'kubernetes.io/service-account-token'",
                    ),
                    "no secrets with lasting tokens in the namespace of a class",
                ),
            ),
        ),
    )
