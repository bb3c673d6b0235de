"""Numbers of existing workspaces: of an owner, of an owner in a class, of a team, and those that are being created."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from agentenv.core.workspaces.workspace import Workspace

Group = tuple[Literal["class", "owner", "team", "creating"], str, str]


def of_class(owner: str, class_name: str) -> Group:
    """Return the group of an owner's workspaces in a class."""
    return "class", owner, class_name


def of_owner(owner: str) -> Group:
    """Return the group of an owner's workspaces in all classes, without the members of swarms."""
    return "owner", owner, ""


def of_team(team: str) -> Group:
    """Return the group of the workspaces of a team that has a limit."""
    return "team", team, ""


def being_created(owner: str) -> Group:
    """Return the group of an owner's workspaces that are being created, without the members of swarms."""
    return "creating", owner, ""


def groups_of(workspace: Workspace) -> Iterator[Group]:
    """Yield the groups that a workspace counts in; none where it is deleted, or being deleted."""
    if workspace.state in {"deleting", "deleted"}:
        return
    yield of_class(workspace.owner, workspace.class_name)
    yield from map(of_team, workspace.limited_teams)
    if workspace.task is None:
        yield of_owner(workspace.owner)
        if workspace.state == "creating":
            yield being_created(workspace.owner)


class WorkspaceCounts:
    """The numbers by group."""

    def __init__(self) -> None:
        self._counts: Counter[Group] = Counter()

    def of(self, group: Group) -> int:
        """Return the number of a group."""
        return self._counts.get(group, 0)

    def add(self, workspace: Workspace) -> None:
        """Count a workspace."""
        self._counts.update(groups_of(workspace))

    def remove(self, workspace: Workspace) -> None:
        """Count a workspace no longer."""
        for group in groups_of(workspace):
            self._counts[group] -= 1
            if not self._counts[group]:
                del self._counts[group]

    def around(self, workspace: Workspace) -> WorkspaceCounts:
        """Return a copy of the numbers of a workspace's groups."""
        copy = WorkspaceCounts()
        copy._counts.update({group: self.of(group) for group in groups_of(workspace)})
        return copy
