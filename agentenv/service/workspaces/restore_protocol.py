"""The interface between the backend and the restore of workspaces on existing data."""

from __future__ import annotations

from typing import Literal, Protocol

from agentenv.core.lifecycle.restore import being_destroyed, seconds_until_gone
from agentenv.core.lifecycle.retention import HOLD
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.catalog import Class
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import Document, section
from agentenv.service.workspaces.pool_selection import Choice


class Restorer(Protocol):
    """Restores deleted workspaces, and moves existing ones to another class."""

    async def restore(self, volume: Document, workspace: Workspace) -> Workspace:
        """Return the restored workspace of a retained volume."""
        ...

    async def change_class(self, claim: Document, to: Class) -> Workspace:
        """Return the workspace of a claim after it was moved to another class on the same data."""
        ...

    def choice(self, why: Literal["returned", "moved"]) -> Choice:
        """Return the reason for the cold start of a restore, which selects no pool."""
        ...


def refuse_destroyed(volume: Document, id_: str) -> None:
    """Raise a `Problem` if the data is being destroyed, with the seconds until it is gone."""
    if not being_destroyed(volume):
        return
    if HOLD in section(section(volume, "metadata"), "annotations"):
        raise Problem(
            "wrong-state",
            f"the data of {id_} is to be destroyed, but a hold prevents it",
            "use another key, or ask the platform team",
            workspace=id_,
        )
    seconds = seconds_until_gone(volume)
    raise Problem(
        "wrong-state",
        f"{id_} was deleted, and its data is being destroyed: it is gone in about {seconds} seconds",
        "repeat the request when it is gone: the new workspace has an empty home",
        retry_after=seconds,
        workspace=id_,
        gone_in=seconds,
    )
