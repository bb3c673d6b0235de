"""What people may do with sandboxes: EKS's policies know Kubernetes's own kinds only, so these add the others.

The controller's own roles come with its release; here they are only given to it.
"""

from typing import Any

import pulumi
from pulumi_kubernetes.rbac import v1 as rbac

from agentenv.components._lib.options import ChildOptions
from agentenv.components.cluster.access import GROUPS
from agentenv.components.sandboxes.controller import NAME, NAMESPACE

CORE, EXTENSIONS = "agents.x-k8s.io", "extensions.agents.x-k8s.io"
LOOK = ["get", "list", "watch"]
CHANGE = ["create", "delete", "patch", "update"]
# The roles of the release, by their names.
RELEASED = ("agent-sandbox-controller", "agent-sandbox-controller-extensions")

LOOKING: list[dict[str, Any]] = [
    {"apiGroups": [CORE], "resources": ["sandboxes"], "verbs": LOOK},
    {
        "apiGroups": [EXTENSIONS],
        "resources": ["sandboxclaims", "sandboxtemplates", "sandboxwarmpools"],
        "verbs": LOOK,
    },
    {"apiGroups": ["karpenter.sh"], "resources": ["nodepools", "nodeclaims"], "verbs": LOOK},
    {"apiGroups": ["karpenter.k8s.aws"], "resources": ["ec2nodeclasses"], "verbs": LOOK},
]
# Templates and pools are what a stack declares: changed by hand, they would be put back.
CHANGING: list[dict[str, Any]] = [
    {"apiGroups": [CORE], "resources": ["sandboxes"], "verbs": CHANGE},
    {"apiGroups": [EXTENSIONS], "resources": ["sandboxclaims"], "verbs": CHANGE},
]


def bind_controller_roles(base: str, child: ChildOptions) -> list[pulumi.Resource]:
    """Give the controller's account the roles of its release."""
    return [
        rbac.ClusterRoleBinding(
            f"{base}-{role}",
            metadata={"name": role},
            role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            subjects=[{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
            opts=child(),
        )
        for role in RELEASED
    ]


def create_user_roles(base: str, child: ChildOptions) -> None:
    """Let readers look at sandboxes and nodes, and operators end and mend sandboxes too."""
    for word, rules in (("readers", LOOKING), ("operators", [*LOOKING, *CHANGING])):
        name = f"agent-environment-{word}"
        role = rbac.ClusterRole(
            f"{base}-{word}",
            metadata={"name": name},
            rules=rules,  # pyright: ignore[reportArgumentType] - plain data of its shape
            opts=child(),
        )
        rbac.ClusterRoleBinding(
            f"{base}-{word}",
            metadata={"name": name},
            # By its name, which is known before it is made: policies judge what is bound to whom at a first preview
            role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            subjects=[{"api_group": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUPS[word]}],
            opts=child(pulumi.ResourceOptions(depends_on=[role])),
        )
