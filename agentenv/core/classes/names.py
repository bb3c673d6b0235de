"""What the objects of a class are called, and the labels and annotations by which others find them.

Whatever is one of a class has the same name in every class: its namespace tells them apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.core.values.names import KINDS, fit

if TYPE_CHECKING:
    from agentenv.core.classes.plan import ClassPlan

EXTENSIONS = "extensions.agents.x-k8s.io/v1beta1"
SANDBOXES = "agents.x-k8s.io/v1beta1"

# The account, quota and limits of every class, the container of every sandbox, and the priority of all of them.
SANDBOX = "sandbox"
CONSTRAINTS = "sandbox-class"
HOME = "home"
# Where the sandboxes of a task find what they have in common.
SHARED_PATH = "/shared"
SCHEDULES = "sandbox-schedules"

RELEASE_LABEL = "sandbox.users.io/release"
CHANNEL_LABEL = "sandbox.users.io/channel"
SHARD_LABEL = "sandbox.users.io/shard"
USER_LABEL = "sandbox.users.io/user"
WORKSPACE_LABEL = "sandbox.users.io/workspace"
MODE_LABEL = "sandbox.users.io/mode"
TASK_LABEL = "sandbox.users.io/task"
# By upstream, on sandboxes and pods that a claim has.
CLAIM_UID_LABEL = "agents.x-k8s.io/claim-uid"
# With whose ids the files of a home were written, where that is another class than the one it is used in.
HOME_CLASS_LABEL = "sandbox.users.io/home-class"
ENVIRONMENT_LABEL = "sandbox.users.io/environment"
OWNER_LABEL = "sandbox.users.io/owner"
COST_CENTER_LABEL = "sandbox.users.io/cost-center"
KEPT = "sandbox.users.io/kept"
CLAIMABLE_BY = "sandbox.users.io/claimable-by"
# The class whose reach and tier a class stays within: policies hold what was really made against it.
PARENT = "sandbox.users.io/parent"


def namespace(class_name: str) -> str:
    """The namespace of a class."""
    return f"sandbox-{class_name}"


def release_name(class_name: str, release: str, shard: int = 0) -> str:
    """The template and the pool of a release; the first shard has no number, so that a second renames nothing."""
    return f"{class_name}-{release}" if shard == 0 else f"{class_name}-{release}-{shard}"


def cold_pool(template: str) -> str:
    """The pool of a template that is always empty: a claim of it gets a sandbox of its own, and so may bring a home."""
    return f"{template}-cold"


def storage_class(class_name: str, shard: int = 0) -> str:
    """The StorageClass of a class; the first shard has no number, so that a second renames nothing."""
    return f"efs-{class_name}" if shard == 0 else f"efs-{class_name}-{shard}"


def base_path(class_name: str) -> str:
    """The folder on a file system below which the homes of a class are."""
    return f"/classes/{class_name}"


def owner_labels(plan: ClassPlan) -> dict[str, str]:
    """Whose a class is and who pays for it, on everything of it that costs."""
    return {
        ENVIRONMENT_LABEL: label_value(plan.environment),
        OWNER_LABEL: label_value(plan.owner),
        COST_CENTER_LABEL: label_value(plan.cost_center),
    }


def label_value(text: str) -> str:
    """A text as a label takes it: a tag of AWS may have spaces and more, and twice the length."""
    cleaned = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in text).strip(
        "._-"
    )
    return fit(cleaned, KINDS["kubernetes-label-value"].limit).strip("._-") or "none"
