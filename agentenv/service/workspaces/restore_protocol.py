"""What makes a workspace anew on data that is there already: the seam to whoever does it."""

from __future__ import annotations

from typing import Literal, Protocol

from agentenv.core.lifecycle.restore import MOVING_TO, being_destroyed, seconds_until_gone
from agentenv.core.lifecycle.retention import HOLD
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.catalog import Class
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import Document, section
from agentenv.service.workspaces.pool_selection import Choice


class Restorer(Protocol):
    """Brings back what was deleted, and moves what stands to another class."""

    async def restore(self, volume: Document, workspace: Workspace) -> Workspace:
        """The workspace of a volume that was kept, with a claim again."""
        ...

    async def change_class(self, claim: Document, to: Class) -> Workspace:
        """The workspace of a claim, of another class on the same data."""
        ...

    def choice(self, why: Literal["returned", "moved"]) -> Choice:
        """How such a start is told: no pool was chosen for it."""
        ...


def refuse_destroyed(volume: Document, id_: str) -> None:
    """Refuse a return to data that is being destroyed, with the time until it is gone."""
    if not being_destroyed(volume):
        return
    if HOLD in section(section(volume, "metadata"), "annotations"):
        raise Problem(
            "wrong-state",
            f"the data of {id_} is to be destroyed, and somebody holds it",
            "ask with another key, or ask whoever runs the platform",
            workspace=id_,
        )
    seconds = seconds_until_gone(volume)
    raise Problem(
        "wrong-state",
        f"{id_} was deleted, and its data is being destroyed: it is gone in about {seconds} seconds",
        "ask again when it is gone, for one with an empty home",
        retry_after=seconds,
        workspace=id_,
        gone_in=seconds,
    )


def restored_class(volume: Document, workspace: Workspace) -> str:
    """The class that a deleted workspace comes back in: one that was on its way to another arrives there."""
    return str(section(volume["metadata"], "annotations").get(MOVING_TO) or workspace.class_name)
