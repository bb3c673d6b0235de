"""RBAC for custom resources: EKS access policies cover only the built-in kinds of Kubernetes.

The controller's own ClusterRoles come with its release; here they are only bound to its service account.
"""

from typing import Any

import pulumi
from pulumi_kubernetes.rbac import v1 as rbac

from agentenv.components._lib.options import ChildOptions
from agentenv.components.cluster.access import GROUPS
from agentenv.components.sandboxes.controller import NAME, NAMESPACE

CORE, EXTENSIONS = "agents.x-k8s.io", "extensions.agents.x-k8s.io"
READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "patch", "update"]
# The names of the ClusterRoles in the release.
RELEASE_ROLES = ("agent-sandbox-controller", "agent-sandbox-controller-extensions")

VIEW_RULES: list[dict[str, Any]] = [
    {"apiGroups": [CORE], "resources": ["sandboxes"], "verbs": READ},
    {
        "apiGroups": [EXTENSIONS],
        "resources": ["sandboxclaims", "sandboxtemplates", "sandboxwarmpools"],
        "verbs": READ,
    },
    {"apiGroups": ["karpenter.sh"], "resources": ["nodepools", "nodeclaims"], "verbs": READ},
    {"apiGroups": ["karpenter.k8s.aws"], "resources": ["ec2nodeclasses"], "verbs": READ},
]
# Not templates and pools: the stack declares them, and an update reverts changes by hand.
EDIT_RULES: list[dict[str, Any]] = [
    {"apiGroups": [CORE], "resources": ["sandboxes"], "verbs": WRITE},
    {"apiGroups": [EXTENSIONS], "resources": ["sandboxclaims"], "verbs": WRITE},
]


def bind_controller_roles(base: str, child: ChildOptions) -> list[pulumi.Resource]:
    """Bind the ClusterRoles of the release to the controller's service account."""
    return [
        rbac.ClusterRoleBinding(
            f"{base}-{role}",
            metadata={"name": role},
            role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            subjects=[{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
            opts=child(),
        )
        for role in RELEASE_ROLES
    ]


def create_user_roles(base: str, child: ChildOptions) -> None:
    """Create ClusterRoles for readers, who view sandboxes and nodes, and for operators, who also edit sandboxes."""
    for group, rules in (("readers", VIEW_RULES), ("operators", [*VIEW_RULES, *EDIT_RULES])):
        name = f"agent-environment-{group}"
        role = rbac.ClusterRole(
            f"{base}-{group}",
            metadata={"name": name},
            rules=rules,  # pyright: ignore[reportArgumentType] - plain data of its shape
            opts=child(),
        )
        rbac.ClusterRoleBinding(
            f"{base}-{group}",
            metadata={"name": name},
            # A plain name instead of an output, so that policies can judge the binding at a first preview
            role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            subjects=[{"api_group": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUPS[group]}],
            opts=child(pulumi.ResourceOptions(depends_on=[role])),
        )
