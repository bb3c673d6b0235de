"""A work tree on the local disk of a sandbox, which workspaced keeps in a store of the home.

A home on EFS takes a network round trip for each file. A local folder takes none, and is gone with its pod: so its
changes are brought to the home at every interval and at suspend, and a new pod starts from there. What came after the
last synchronisation is lost with a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentenv.core.classes.plan import ClassPlan

Plain = dict[str, Any]

NAME, FOLDER = "work", "/work"
# The time for the last synchronisation, after the processes have ended.
FLUSH_SECONDS = 60
# The time for a new pod to fill the folder from the home.
RESTORE_SECONDS = 600


def has_work_tree(plan: ClassPlan) -> bool:
    """Return whether sandboxes of a class have a work tree on their local disk."""
    return plan.settings.work_tree.kind == "local"


def volumes(plan: ClassPlan) -> list[Plain]:
    """Return the volume of the work tree."""
    return [{"name": NAME, "emptyDir": {"sizeLimit": str(plan.settings.work_tree.size)}}] if has_work_tree(plan) else []


def mounts(plan: ClassPlan) -> list[Plain]:
    """Return its mount."""
    return [{"name": NAME, "mountPath": FOLDER}] if has_work_tree(plan) else []


def variables(plan: ClassPlan) -> dict[str, str]:
    """Return the variables of programs, and the flags of workspaced."""
    if not has_work_tree(plan):
        return {}
    return {
        "WORK_TREE": FOLDER,
        "WORKSPACED_WORK_TREE": FOLDER,
        "WORKSPACED_WORK_TREE_INTERVAL": f"{int(plan.settings.work_tree.interval.total_seconds())}s",
        "WORKSPACED_WORK_TREE_FLUSH": f"{FLUSH_SECONDS}s",
    }
