"""What makes a workspace anew on data that is there already: the seam to whoever does it."""

from __future__ import annotations

from typing import Literal, Protocol

from model.lifecycle.returning import MOVING_TO
from model.workspaces import Workspace
from service.backend.choosing import Choice
from service.backend.wire import Document, section
from service.catalog import Class


class Returning(Protocol):
    """Brings back what was deleted, and moves what stands to another class."""

    async def bring_back(self, volume: Document, kept: Workspace) -> Workspace:
        """The workspace of a volume that was kept, with a claim again."""
        ...

    async def move(self, claim: Document, to: Class) -> Workspace:
        """The workspace of a claim, of another class on the same data."""
        ...

    def choice(self, why: Literal["returned", "moved"]) -> Choice:
        """How such a start is told: no pool was chosen for it."""
        ...


def arrives_in(volume: Document, kept: Workspace) -> str:
    """The class that a deleted workspace comes back in: one that was on its way to another arrives there."""
    return str(section(volume["metadata"], "annotations").get(MOVING_TO) or kept.class_name)
