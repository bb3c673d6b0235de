"""Guardrails for service accounts of sandboxes: no role is bound to them, and only nodes request their tokens."""

from __future__ import annotations

from agentenv.core.classes.names import SCHEDULES
from agentenv.core.guardrails.guardrail import SUBRESOURCE, Policy, Rule, Watch, all_of, quoted, quoted_list, unless
from agentenv.core.guardrails.principals import API_SERVER, NODES, requested_by

_RBAC = "rbac.authorization.k8s.io"

# Groups that include all service accounts, or all users.
_EVERYONE = ("system:serviceaccounts", "system:authenticated", "system:unauthenticated")


def policies() -> tuple[Policy, ...]:
    """Return the policies for bindings in the whole cluster, and for tokens and secrets in namespaces of classes."""

    subject = all_of(
        f"!(subject.kind == 'ServiceAccount' && subject.?namespace.orValue('').startsWith('sandbox-')"
        f" && subject.namespace != {quoted(SCHEDULES)})",
        "!(subject.kind == 'User' && subject.name.startsWith('system:serviceaccount:sandbox-')"
        f" && !subject.name.startsWith('system:serviceaccount:{SCHEDULES}:'))",
        "!(subject.kind == 'Group' && subject.name.startsWith('system:serviceaccounts:sandbox-')"
        f" && subject.name != 'system:serviceaccounts:{SCHEDULES}')",
        f"!(subject.kind == 'Group' && subject.name in {quoted_list(_EVERYONE)})",
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
                    "A role that is bound to a sandbox's service account, or to all accounts, gives its permissions to"
                    " users of sandboxes. The API server maintains the default bindings of Kubernetes.",
                    unless(
                        "oldObject != null && object.?subjects == oldObject.?subjects",
                        unless(
                            f"request.userInfo.username == {quoted(API_SERVER)}",
                            f"object.?subjects.orValue([]).all(subject, {subject})",
                        ),
                    ),
                    "roles must not be bound to service accounts in namespaces sandbox-*, to all service accounts or to"
                    " all users; name the service accounts that need the role",
                ),
            ),
        ),
        Policy(
            name="tokens",
            about="Tokens of service accounts in the namespaces of classes.",
            watches=(
                Watch("", ("serviceaccounts/token",), ("CREATE",)),
                Watch("", ("secrets",), ("CREATE", "UPDATE")),
            ),
            rules=(
                Rule(
                    "token-by",
                    "A sandbox's token gives its holder the sandbox's IAM role.",
                    unless(
                        f"{SUBRESOURCE} != 'token'",
                        requested_by(groups=[NODES]),
                    ),
                    "only nodes and deployers may request tokens of sandboxes",
                ),
                Rule(
                    "token-lasting",
                    "Kubernetes fills such a Secret with a token that does not expire.",
                    unless(
                        "request.resource.resource != 'secrets'",
                        "object.?type.orValue('Opaque') != 'kubernetes.io/service-account-token'",
                    ),
                    "Secrets of type kubernetes.io/service-account-token must not be created in the namespace of a"
                    " class",
                ),
            ),
        ),
    )
