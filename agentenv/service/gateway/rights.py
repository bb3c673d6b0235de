"""The rights of a visitor to a port of a workspace: a program's port, or workspaced's own API. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from agentenv.core.workspaces.workspace import TEAM, Sharing, Workspace
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.auth.permissions import is_allowed

# The scope of the token for workspaced.
Scope = Literal["api", "look", "port"]
# `read` and `write` are signed links to a file.
Credential = Literal["caller", "access-token", "traffic-token", "read", "write", "link", "none"]


@dataclass(frozen=True, slots=True)
class Visitor:
    """The sender of a request: a caller, a bearer of a token of the workspace, or an unknown person."""

    identity: str  # of sessions and limits; says nothing of the credential
    credential: Credential = "none"
    caller: Caller | None = None
    link: tuple[str, int, bool] | None = None  # of a link: its workspace, its port, and whether it wakes
    break_glass: bool = False  # whether an operator may enter, of which the owner is informed
    until: datetime | None = None  # when a person's session ends
    # Whether the credential still is valid, from memory
    is_valid: Callable[[], bool] = field(default=lambda: True, compare=False)


# Records that a visitor opened something in a workspace, from an address.
NoteEntry = Callable[[Workspace, Visitor, str, str], None]


@dataclass(frozen=True, slots=True)
class Right:
    """The right to enter, and whether it includes to wake the workspace."""

    scope: Scope
    wake: bool


def right_to_api(visitor: Visitor, workspace: Workspace) -> Right | None:
    """Return the right to workspaced's own API."""
    if visitor.credential == "access-token":
        return Right("api", wake=True)
    if visitor.credential in {"read", "write"}:
        # An old link is no right to start a computer.
        return Right("look" if visitor.credential == "read" else "api", wake=False)
    caller = visitor.caller
    if caller is None:
        return None
    wake = caller.has_scope("wake") and is_allowed(caller, "wake", workspace)
    if _may_use(visitor, caller, workspace):
        return Right("api", wake)
    if caller.has_scope("read") and not is_foreign(caller, workspace) and is_allowed(caller, "read", workspace):
        return Right("look", wake)
    return None


def right_to_port(visitor: Visitor, workspace: Workspace, port: int, allowed: Collection[Sharing]) -> Right | None:
    """Return the right to a program's port; `allowed` is how the class lets ports be shared."""
    if visitor.credential in {"access-token", "traffic-token"}:
        return Right("port", wake=True)
    caller = visitor.caller
    if caller is not None and _may_use(visitor, caller, workspace):
        return Right("port", caller.has_scope("wake") and is_allowed(caller, "wake", workspace))
    shared = workspace.ports.get(port)
    if shared is None or shared.sharing not in allowed:
        return None
    if shared.sharing == "link":
        opens = visitor.link is not None and visitor.link[:2] == (workspace.id, port)
        return Right("port", shared.wake and visitor.link[2]) if opens and visitor.link else None
    is_member = caller is not None and caller.has_scope("use") and bool(caller.teams & set(shared.teams))
    return Right("port", shared.wake) if shared.sharing == "public" or is_member else None


def may_use(caller: Caller, workspace: Workspace) -> bool:
    """Return whether a caller may run programs in a workspace, without break-glass."""
    return caller.has_scope("use") and not is_foreign(caller, workspace) and is_allowed(caller, "write", workspace)


def _may_use(visitor: Visitor, caller: Caller, workspace: Workspace) -> bool:
    breaks_glass = visitor.break_glass and caller.is_operator and caller.has_scope("use")
    return may_use(caller, workspace) or (breaks_glass and is_foreign(caller, workspace))


def is_foreign(caller: Caller, workspace: Workspace) -> bool:
    """Return whether a caller has only the rights of the platform team, which enters by break-glass alone."""
    return not (
        workspace.owner == caller.owner
        or caller.owner in workspace.shared
        or any(f"{TEAM}{team}" in workspace.shared for team in caller.teams)
    )
