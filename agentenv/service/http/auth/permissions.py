"""The table of permissions on workspaces. Pure.

A caller who may not see a workspace gets the same answer as for one that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from agentenv.core.workspaces.workspace import TEAM, Mode, Workspace
from agentenv.service.catalog import Catalog, Class
from agentenv.service.http.auth.callers import Caller, has_claim
from agentenv.service.http.problems import Problem, not_found

Action = Literal["see", "read", "write", "sleep", "wake", "change", "delete", "destroy", "raise-budget"]
Relation = Literal["owner", "rw", "ro", "operator", "admin"]

ALLOWED: Mapping[Relation, frozenset[Action]] = {
    "owner": frozenset({"see", "read", "write", "sleep", "wake", "change", "delete", "destroy"}),
    "rw": frozenset({"see", "read", "write", "wake"}),
    "ro": frozenset({"see", "read"}),
    # Operators manage workspaces, and may not read what is in them.
    "operator": frozenset({"see", "sleep", "wake", "delete"}),
    "admin": frozenset({"see", "read", "write", "sleep", "wake", "change", "delete", "destroy", "raise-budget"}),
}
NO_CLAIMS: Mapping[str, Any] = {}
DESCRIPTIONS: Mapping[Action, str] = {
    "see": "see it",
    "read": "attach to it",
    "write": "attach to it for writing",
    "sleep": "suspend it",
    "wake": "resume it",
    "change": "update it",
    "delete": "delete it",
    "destroy": "destroy its data",
    "raise-budget": "raise its budget",
}


def relations(caller: Caller, workspace: Workspace) -> frozenset[Relation]:
    """Return a caller's relations to a workspace."""
    if caller.workspace:
        # A link admits to its workspace alone, as to one that is shared.
        is_bound = caller.workspace == workspace.id and caller.owner == workspace.owner
        shared: Relation = "rw" if caller.has_scope("use") else "ro"
        return frozenset({shared}) if is_bound and workspace.state != "deleted" else frozenset()
    result: set[Relation] = set()
    if workspace.owner == caller.owner:
        result.add("owner")
    # Only its owner restores a deleted workspace.
    elif workspace.state != "deleted":
        readers = (caller.owner, *(f"{TEAM}{team}" for team in caller.teams))
        result |= {access for reader in readers if (access := workspace.shared.get(reader))}
    if caller.is_operator:
        result.add("operator")
    if caller.is_admin:
        result.add("admin")
    return frozenset(result)


def is_allowed(caller: Caller, action: Action, workspace: Workspace) -> bool:
    """Return whether a caller may perform an action on a workspace."""
    return any(action in ALLOWED[relation] for relation in relations(caller, workspace))


def require(caller: Caller, action: Action, workspace: Workspace | None) -> Workspace:
    """Return the workspace if the caller may perform the action; raise a `Problem` otherwise."""
    if workspace is None or not is_allowed(caller, "see", workspace):
        raise not_found("workspace")
    if not is_allowed(caller, action, workspace):
        raise Problem("not-allowed", f"you may not {DESCRIPTIONS[action]}", "ask its owner, or the platform team")
    return workspace


def require_class_access(caller: Caller, of_class: Class) -> None:
    """Raise a `Problem` unless the caller may have a sandbox of a class, by role or by token claim."""
    if not claimable(caller, of_class):
        raise Problem(
            "class-not-claimable",
            f"the `claimableBy` of class {of_class.name} does not include you",
            "choose a class that GET /v1/classes lists, or ask the platform team to extend `claimableBy`",
        )


def classes_for(catalog: Catalog, caller: Caller) -> list[str]:
    """Return the names of the classes that a caller may have a sandbox of."""
    return [of_class.name for of_class in catalog.classes.values() if claimable(caller, of_class)]


def first_class(catalog: Catalog, caller: Caller, mode: Mode) -> Class | None:
    """Return the first class that a caller may have a sandbox of in a mode."""
    return next((each for each in catalog.classes.values() if mode in each.modes and claimable(caller, each)), None)


def require_first_class(catalog: Catalog, caller: Caller, mode: Mode) -> Class:
    """Return the first class that a caller may have a sandbox of in a mode; raise a `Problem` without one."""
    found = first_class(catalog, caller, mode)
    if found is None:
        raise Problem("class-unknown", f"no class with mode {mode} is available to you", "ask the platform team")
    return found


def claimable(caller: Caller, of_class: Class) -> bool:
    """Return whether a caller may have a sandbox of a class."""
    if caller.classes is not None:
        return of_class.name in caller.classes
    claimable_by = of_class.plan.settings.claimable_by
    # The claims of a service account are the service's own, so a class cannot require any of them.
    claims: Mapping[str, Any] = caller.claims if caller.source == "token" else NO_CLAIMS
    return bool(caller.roles & set(claimable_by.roles)) or any(
        has_claim(claims, token_claim.name, token_claim.value) for token_claim in claimable_by.tokens
    )
