"""The RBAC rules of the workspace service, each with its purpose.

It reads in all namespaces, because classes are added and removed, and writes in the namespaces of classes only, through
a RoleBinding in each. It may read no Secrets but its own, and may not grant permissions. The guardrails apply to it,
too.
"""

from __future__ import annotations

from typing import Any

from agentenv.core.classes.names import CONSTRAINTS, EXTENSIONS, SANDBOXES
from agentenv.core.classes.pods.daemon import KEYS

NAME = "workspace-service"
IN_CLASSES = f"{NAME}-classes"
OWN = f"{NAME}-own"
IN_CONTROLLERS = f"{NAME}-controllers"
SIGNING_KEYS = "workspaced-signing-keys"
GATEWAY_SECRETS = "gateway-secrets"

Plain = dict[str, Any]

LOOK = ("get", "list", "watch")
_CLAIMED, _SANDBOXED = EXTENSIONS.partition("/")[0], SANDBOXES.partition("/")[0]


def cluster_rules() -> list[Plain]:
    """Return the rules of the ClusterRole that is bound in all namespaces."""
    return [
        # Workspaces, in the namespaces of all classes.
        _rule(_CLAIMED, ("sandboxclaims", "sandboxtemplates", "sandboxwarmpools"), LOOK),
        _rule(_SANDBOXED, ("sandboxes",), LOOK),
        # Classes are namespaces. Pods have the address of a sandbox, with which its credential requests are verified.
        _rule("", ("namespaces", "pods", "persistentvolumeclaims"), LOOK),
        # Workspaces leave nodes that go away in time.
        _rule("", ("nodes",), LOOK),
        # Volumes are retained, labelled with their owner, bound to the next claim and at last released for deletion.
        # Only the driver creates them: a created volume could name any access point.
        _rule("", ("persistentvolumes",), (*LOOK, "patch")),
        # The ConfigMap of each class.
        {**_rule("", ("configmaps",), LOOK), "resourceNames": [CONSTRAINTS]},
        _rule("storage.k8s.io", ("storageclasses",), LOOK),
        # The events of workspaces, which their owners follow: one watch, so that every replica has them in one order.
        _rule("", ("events",), LOOK),
        # Verifies the tokens of sandboxes.
        _rule("authentication.k8s.io", ("tokenreviews",), ("create",)),
    ]


def class_namespace_rules() -> list[Plain]:
    """Return the rules of the ClusterRole that is bound in the namespace of each class."""
    return [
        _rule(_CLAIMED, ("sandboxclaims",), ("create", "delete", "patch")),
        # Suspend and resume, and the resources of the next pod of a resized workspace.
        _rule(_SANDBOXED, ("sandboxes",), ("patch",)),
        _rule("", ("pods/resize",), ("patch",)),
        # The pods of a node that is gone: nobody else reports their end for a minute.
        _rule("", ("pods",), ("delete",)),
        # Swarms have their own template and pool; those of old releases are deleted when no claim names them.
        _rule(_CLAIMED, ("sandboxtemplates", "sandboxwarmpools"), ("create", "delete", "patch")),
        # Volume claims of restored workspaces, which are created first, and deleted if the restore does not finish.
        _rule("", ("persistentvolumeclaims",), ("create", "delete")),
        # Whether the quota has capacity for another sandbox.
        _rule("", ("resourcequotas",), LOOK),
        # The parameters of the class.
        _rule("", ("configmaps",), LOOK),
        # The public keys with which workspaced verifies tokens of the service.
        {**_rule("", ("configmaps",), ("patch",)), "resourceNames": [KEYS]},
        _rule("", ("events",), ("create",)),
    ]


def controller_namespace_rules() -> list[Plain]:
    """Return the rules of the Role in each namespace of controllers on Fargate.

    A guardrail narrows the deletion to pods that no scheduler has placed.
    """
    return [_rule("", ("pods",), ("delete",)), _rule("", ("events",), ("create",))]


def own_namespace_rules() -> list[Plain]:
    """Return the rules of the Role in its own namespace: leader election, destruction records, budgets and keys."""
    return [
        _rule("coordination.k8s.io", ("leases",), ("create", "get", "list", "patch", "watch")),
        _rule("", ("configmaps",), ("create", "delete", "get", "list", "patch", "watch")),
        # The private keys with which it signs tokens for sandboxes, and those of cookies and access tokens. It cannot
        # read other Secrets of its namespace.
        _rule("", ("secrets",), ("create",)),
        {**_rule("", ("secrets",), ("get", "patch")), "resourceNames": [SIGNING_KEYS, GATEWAY_SECRETS]},
    ]


def _rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...]) -> Plain:
    return {"apiGroups": [group], "resources": list(resources), "verbs": sorted(verbs)}


def role(kind: str, name: str, rules: list[Plain], namespace: str | None = None) -> Plain:
    """Return a Role or a ClusterRole."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": rules}


def binding(kind: str, name: str, of: str, of_kind: str, namespace: str | None = None) -> Plain:
    """Return a RoleBinding or a ClusterRoleBinding of the service's account."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": of_kind, "name": of},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAME}],
    }
