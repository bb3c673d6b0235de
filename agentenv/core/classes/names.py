"""The names of a class's objects, and their labels and annotations.

An object of which each class has exactly one has the same name in every class, in the class's namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.core.values.names import KINDS, fit

if TYPE_CHECKING:
    from agentenv.core.classes.plan import ClassPlan

EXTENSIONS = "extensions.agents.x-k8s.io/v1beta1"
SANDBOXES = "agents.x-k8s.io/v1beta1"

# The name of each class's service account, ResourceQuota and LimitRange, of a sandbox's container, and of the
# PriorityClass of all sandboxes.
SANDBOX = "sandbox"
CONSTRAINTS = "sandbox-class"
HOME = "home"
# The mount path of the volume that the sandboxes of a task share.
SHARED_PATH = "/shared"
SCHEDULES = "sandbox-schedules"

RELEASE_LABEL = "sandbox.users.io/release"
CHANNEL_LABEL = "sandbox.users.io/channel"
SHARD_LABEL = "sandbox.users.io/shard"
USER_LABEL = "sandbox.users.io/user"
WORKSPACE_LABEL = "sandbox.users.io/workspace"
MODE_LABEL = "sandbox.users.io/mode"
TASK_LABEL = "sandbox.users.io/task"
# Set by the agent-sandbox controller on claimed sandboxes and their pods.
CLAIM_UID_LABEL = "agents.x-k8s.io/claim-uid"
# The class whose uid and gid own the files of a home, if it is not the class that the home is used in.
HOME_CLASS_LABEL = "sandbox.users.io/home-class"
ENVIRONMENT_LABEL = "sandbox.users.io/environment"
OWNER_LABEL = "sandbox.users.io/owner"
COST_CENTER_LABEL = "sandbox.users.io/cost-center"
VOLUME_RETAINED = "sandbox.users.io/kept"
CLAIMABLE_BY = "sandbox.users.io/claimable-by"
# The class whose network access and tier bound those of this class; policies compare the deployed objects with it.
PARENT = "sandbox.users.io/parent"


def namespace(class_name: str) -> str:
    """Return the namespace of a class."""
    return f"sandbox-{class_name}"


def release_name(class_name: str, release: str, shard: int = 0) -> str:
    """Return the name of a release's template and pool.

    The first shard has no number, so that adding a second one renames nothing.
    """
    return f"{class_name}-{release}" if shard == 0 else f"{class_name}-{release}-{shard}"


def cold_pool(template: str) -> str:
    """Return the name of a template's pool that is always empty.

    A claim on it gets a new sandbox, which may have an existing home.
    """
    return f"{template}-cold"


def storage_class(class_name: str, shard: int = 0) -> str:
    """Return the name of a class's StorageClass; the first shard has no number, as in `release_name`."""
    return f"efs-{class_name}" if shard == 0 else f"efs-{class_name}-{shard}"


def base_path(class_name: str) -> str:
    """Return the folder of a file system that has the homes of a class."""
    return f"/classes/{class_name}"


def owner_labels(plan: ClassPlan) -> dict[str, str]:
    """Return the labels of a class's owner and cost center, for every object that causes cost."""
    return {
        ENVIRONMENT_LABEL: label_value(plan.environment.name),
        OWNER_LABEL: label_value(plan.environment.tags["owner"]),
        COST_CENTER_LABEL: label_value(plan.environment.tags["cost-center"]),
    }


def label_value(text: str) -> str:
    """Return a text as a label value: an AWS tag may have other characters, such as spaces, and twice the length."""
    cleaned = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in text).strip(
        "._-"
    )
    return fit(cleaned, KINDS["kubernetes-label-value"].limit).strip("._-") or "none"
