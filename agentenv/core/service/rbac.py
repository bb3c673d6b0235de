"""What the workspace service may do in the cluster, and nothing beyond: each right with what it is for.

It reads what it gives away everywhere, for classes come and go; it changes things in the namespaces of classes alone,
by a binding in each. It sees no secret but its own, no node and no other controller's work, and hands out no right:
whoever takes it over has what is written here, within the guardrails, which hold it like everybody else.
"""

from __future__ import annotations

from typing import Any

from agentenv.core.classes.names import CONSTRAINTS, EXTENSIONS, SANDBOXES
from agentenv.core.classes.pods.daemon import KEYS

NAME = "workspace-service"
IN_CLASSES = f"{NAME}-classes"
OWN = f"{NAME}-own"
SIGNING_KEYS = "workspaced-signing-keys"

Plain = dict[str, Any]

LOOK = ("get", "list", "watch")
_CLAIMED, _SANDBOXED = EXTENSIONS.partition("/")[0], SANDBOXES.partition("/")[0]


def cluster_rules() -> list[Plain]:
    """By a ClusterRole that is bound for the whole cluster."""
    return [
        # Workspaces are these, wherever their class is.
        _rule(_CLAIMED, ("sandboxclaims", "sandboxtemplates", "sandboxwarmpools"), LOOK),
        _rule(_SANDBOXED, ("sandboxes",), LOOK),
        # Classes are namespaces; pods say where a sandbox runs, and who asks for its identity.
        _rule("", ("namespaces", "pods", "persistentvolumeclaims"), LOOK),
        # What outlives a sandbox is its volume: kept, marked with its owner, bound to the next claim, and at last said
        # to be kept no longer. The driver makes and deletes it: whoever could make one could lead it anywhere.
        _rule("", ("persistentvolumes",), (*LOOK, "patch")),
        # What a class says of itself, in the one object of that name in each class's namespace.
        {**_rule("", ("configmaps",), LOOK), "resourceNames": [CONSTRAINTS]},
        _rule("storage.k8s.io", ("storageclasses",), LOOK),
        # Whose token it is.
        _rule("authentication.k8s.io", ("tokenreviews",), ("create",)),
    ]


def class_namespace_rules() -> list[Plain]:
    """By a ClusterRole that is bound in the namespace of each class."""
    return [
        _rule(_CLAIMED, ("sandboxclaims",), ("create", "delete", "patch")),
        # To sleep, and to wake.
        _rule(_SANDBOXED, ("sandboxes",), ("patch",)),
        # Swarms have a template and a pool of their own; old releases of both go when nobody has a sandbox of them.
        _rule(_CLAIMED, ("sandboxtemplates", "sandboxwarmpools"), ("create", "delete", "patch")),
        # Of those who come back to their files: made beforehand, and taken away where nobody came.
        _rule("", ("persistentvolumeclaims",), ("create", "delete")),
        # Whether there is room for one more.
        _rule("", ("resourcequotas",), LOOK),
        # The parameters of its guardrails, by which a class says what its sandboxes may be.
        _rule("", ("configmaps",), LOOK),
        # The public keys by which workspaced knows whom the service lets in.
        {**_rule("", ("configmaps",), ("patch",)), "resourceNames": [KEYS]},
        _rule("", ("events",), ("create", "get", "list")),
    ]


def own_namespace_rules() -> list[Plain]:
    """By a Role in its own namespace: who leads, records of destroyed data, and its signing keys."""
    return [
        _rule("coordination.k8s.io", ("leases",), ("create", "get", "list", "patch", "watch")),
        _rule("", ("configmaps",), ("create", "delete", "get", "list", "patch")),
        # The private keys that it signs tokens for sandboxes with. Others of its namespace it cannot read.
        _rule("", ("secrets",), ("create",)),
        {**_rule("", ("secrets",), ("get", "patch")), "resourceNames": [SIGNING_KEYS]},
    ]


def _rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...]) -> Plain:
    return {"apiGroups": [group], "resources": list(resources), "verbs": sorted(verbs)}


def role(kind: str, name: str, rules: list[Plain], namespace: str | None = None) -> Plain:
    """A Role or a ClusterRole."""
    about = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": about, "rules": rules}


def binding(kind: str, name: str, of: str, of_kind: str, namespace: str | None = None) -> Plain:
    """A RoleBinding or a ClusterRoleBinding to the service's account."""
    about = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": about,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": of_kind, "name": of},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAME}],
    }
