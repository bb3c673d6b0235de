"""Checks of what a request grants a workspace: less than its class gives and its parent has, never more."""

from __future__ import annotations

from datetime import timedelta

from agentenv.config.sections.classes import SizeName
from agentenv.core.capabilities.cluster_facts import DAEMON_PORT
from agentenv.core.workspaces.grants import EVERYTHING, Grants
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.catalog import Class
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.problems import Problem
from agentenv.service.http.schemas import GrantsRequest, WorkspaceCreate


def granted(dependencies: Dependencies, of_class: Class, body: WorkspaceCreate, parent: Workspace | None) -> Grants:
    """Return the grants of a new workspace; raise a `Problem` where they name more than its class or parent has."""
    own = _requested(dependencies, of_class, body.grants)
    above = parent.grants if parent is not None else EVERYTHING
    if parent is not None and (beyond := own.beyond(above)):
        detail = f"the grants name more than the parent {parent.id} has: {', '.join(beyond)}"
        raise Problem(
            "capability-beyond-parent", detail, "name no more, or leave them out: a child has what both allow"
        )
    grants = own.meet(above)
    check_size(grants, body.size)
    dependencies.catalog.refuse_beyond_grants(of_class.name, grants.capabilities)
    return grants


def check_size(grants: Grants, size: SizeName) -> None:
    """Raise a `Problem` for a size above the largest that is granted."""
    if not grants.allows_size(size):
        detail = f"size {size} is larger than {grants.size}, which it was granted"
        raise Problem("size-not-offered", detail, f"choose {grants.size} or a smaller one, or create another workspace")


def check_port(workspace: Workspace, port: int) -> None:
    """Raise a `Problem` for a port that a workspace was not granted."""
    if not workspace.grants.allows_port(port):
        ports = ", ".join(str(each) for each in sorted(workspace.grants.ports or ())) or "none"
        detail = f"port {port} was not granted to {workspace.id}; it was granted: {ports}"
        raise Problem("not-allowed", detail, "serve on one of these, or create a workspace with other grants")


def _requested(dependencies: Dependencies, of_class: Class, body: GrantsRequest) -> Grants:
    if body.ports is not None and DAEMON_PORT in body.ports:
        raise Problem("malformed", f"port {DAEMON_PORT} is workspaced's own, and is always open", "leave it out")
    if body.size is not None:
        of_class.require_size(body.size)
    life = None if body.life is None else timedelta(seconds=body.life)
    if life is not None and of_class.max_lifetime is not None and life > of_class.max_lifetime:
        longest = int(of_class.max_lifetime.total_seconds())
        detail = f"life: more than the {longest} s of class {of_class.name}"
        raise Problem("not-allowed", detail, f"choose {longest} or less")
    return Grants(
        None if body.ports is None else frozenset(body.ports),
        None if body.capabilities is None else frozenset(body.capabilities),
        body.size,
        None if life is None else dependencies.now() + life,
    )
