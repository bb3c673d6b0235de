"""When a workspace moves to another node, because its own goes away.

Karpenter taints a node that it takes away. It evicts no pods that may not be disrupted, which those of claims are: they
run until the instance ends. For Spot that is two minutes after the warning. An on-demand node that expired or drifted
waits for them, for `capacity.terminationGrace`. A node does not say which it is, so its capacity type decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from agentenv.core.lifecycle.clock_skew import is_ahead
from agentenv.core.nodes.tiers import CAPACITY_LABEL
from agentenv.core.values.object_fields import Document, required, rows, section, strings
from agentenv.core.workspaces.workspace import Workspace

DISRUPTED: Final = "karpenter.sh/disrupted"
MoveAction = Literal["move", "warn", "nothing"]


@dataclass(frozen=True, slots=True)
class LeavingNode:
    """A node that goes away, or is gone."""

    name: str
    spot: bool
    gone: bool = False

    @property
    def why(self) -> str:
        """Return why it goes away, as far as it is known."""
        if self.gone:
            return f"its node {self.name} is gone"
        return f"its Spot node {self.name} is taken back" if self.spot else f"its node {self.name} is being replaced"


def leaving_node(node: Document) -> LeavingNode | None:
    """Return a node that goes away; None for one that stays."""
    disrupted = any(row.get("key") == DISRUPTED for row in rows(section(node, "spec"), "taints"))
    if not disrupted and not section(node, "metadata").get("deletionTimestamp"):
        return None
    labels = strings(section(node, "metadata"), "labels")
    return LeavingNode(required(node, "metadata", "name"), spot=labels.get(CAPACITY_LABEL) == "spot")


def move_action(workspace: Workspace, node: LeavingNode, now: datetime) -> MoveAction:
    """Return what to do for a workspace on a node that goes away.

    One that is in use on a node that waits for it is not interrupted; its holders are warned.
    """
    if workspace.state not in {"creating", "running", "restarting"}:
        return "nothing"
    if node.gone or node.spot:
        return "move"
    in_use = is_ahead(workspace.busy_until, now) or any(is_ahead(lease.until, now) for lease in workspace.leases)
    return "warn" if in_use else "move"
