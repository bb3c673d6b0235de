"""Checks of a request before anything is created: its owner, class, parent, deadline and budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast

from agentenv.core.lifecycle.clock_skew import FURTHEST
from agentenv.core.workspaces.workspace import TEAM, CreateRequest, CreateResult, Workspace
from agentenv.service.catalog import Class
from agentenv.service.http.auth.callers import Caller, is_owner_id
from agentenv.service.http.auth.permissions import require, require_class_access
from agentenv.service.http.child_budgets import paid_by_parent, take_again
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.grants import granted
from agentenv.service.http.problems import Problem
from agentenv.service.http.schemas import WorkspaceCreate
from agentenv.service.workspaces.backend_protocol import RestoreCheck

SHORTEST_LIFE = timedelta(minutes=1)


def planned_workspace(request: CreateRequest) -> Workspace:
    """Return the requested workspace as it will be at first."""
    return Workspace(request.id, request.owner, request.class_name, request.mode, "creating", budget=request.budget)


async def create_request(
    dependencies: Dependencies, caller: Caller, body: WorkspaceCreate, header: str | None
) -> CreateRequest:
    """Return what to create for a caller; raise a `Problem` where the caller may not request it."""
    of_class = dependencies.catalog.get(body.class_)
    require_class_access(caller, of_class)
    if body.owner not in {None, caller.owner} and not caller.is_operator:
        raise Problem("not-allowed", "only operators create workspaces for other owners", "leave out `owner`")
    if body.mode not in of_class.modes:
        modes = ", ".join(of_class.modes)
        detail = f"class {of_class.name} does not offer mode {body.mode}"
        raise Problem("mode-not-offered", detail, f"choose one of its modes: {modes}")
    if body.owner not in {None, caller.owner} and not caller.is_admin and (body.shared or body.parent):
        # Otherwise operators, who may not attach, would have a way into a workspace.
        detail = "only the owner of a workspace sets `shared` and `parent`"
        raise Problem("not-allowed", detail, "leave them out, or have the owner create it")
    of_class.require_size(body.size)
    check_owner_ids(dependencies, [*body.shared, *([body.owner] if body.owner else [])])
    check_budget_change(caller, None, body.budget, of_class.budget, own=True)
    check_deadline(body.deadline, dependencies.now())
    parent = None
    if body.parent is not None:
        parent = require(caller, "write", await dependencies.backend.get(body.parent))
        dependencies.catalog.refuse_beyond(of_class.name, parent.class_name)
    request = CreateRequest(
        owner=body.owner or caller.owner,
        key=_key(body, header),
        class_name=body.class_,
        created_by=caller.owner,
        mode=body.mode,
        channel=body.channel,
        labels=body.labels,
        shared=body.shared,
        idle_after=timedelta_of(body.idle_after),
        deadline=body.deadline,
        budget=body.budget,
        archive=body.session,
        parent=body.parent,
        limited_teams=dependencies.catalog.limited_teams(caller.teams)
        if caller.owner == (body.owner or caller.owner)
        else (),
        size=body.size,
        grants=granted(dependencies, of_class, body, parent),
    )
    return with_cell(dependencies, request)


async def create_workspace(
    dependencies: Dependencies, caller: Caller, request: CreateRequest, *, wait: float, warm_only: bool = False
) -> CreateResult:
    """Create or return the workspace of a caller's request, within the budgets of its owner and of its parent."""
    # Also before it exists: the owner's cap holds for all workspaces together.
    check_budget_left(dependencies, dependencies.backend.cached(request.id) or planned_workspace(request))
    async with paid_by_parent(dependencies, caller, request):
        return await dependencies.backend.create(
            request, wait=wait, warm_only=warm_only, before_restore=restore_check(dependencies, caller)
        )


def with_cell(dependencies: Dependencies, request: CreateRequest) -> CreateRequest:
    """Return the request for a workspace of this cell, or for the existing one that is older than cells."""
    backend = dependencies.backend
    if not backend.is_synced():
        raise Problem("unavailable", "the cache of this replica is not synced", "retry in a few seconds", retry_after=2)
    in_cell = replace(request, cell=dependencies.catalog.settings.service.cell)
    current, older = backend.cached(in_cell.id), backend.cached(request.id)
    return request if current is None and older is not None else in_cell


def restore_check(dependencies: Dependencies, caller: Caller) -> RestoreCheck:
    """Return the check that runs before a deleted workspace is restored; it gets the restored workspace.

    It may have another class by then than the one requested. A caller who may not request that class may not restore
    into it either.
    """

    async def check(workspace: Workspace) -> None:
        parent = await dependencies.backend.get(workspace.parent) if workspace.parent else None
        if workspace.owner == caller.owner:
            of_class = dependencies.catalog.get(workspace.class_name)
            require_class_access(caller, of_class)
            if workspace.grants.ends is not None and workspace.grants.ends <= dependencies.now():
                raise Problem("too-late", "the life that it was granted is over", "create another workspace")
            if parent is not None:
                dependencies.catalog.refuse_beyond(of_class.name, parent.class_name)
        await take_again(dependencies, workspace, parent)

    return check


def check_budget_left(dependencies: Dependencies, workspace: Workspace) -> None:
    """Raise a `Problem` where a workspace's budget of this month is spent."""
    if dependencies.budgets is not None and (spent := dependencies.budgets.refusal(workspace)) is not None:
        raise spent


def _key(body: WorkspaceCreate, header: str | None) -> str:
    """Return the idempotency key: a request with the same key returns the same workspace."""
    if body.key is not None and header is not None and body.key != header:
        raise Problem("key-reused", "`key` and the header `Idempotency-Key` differ", "send one of them")
    key = body.key if body.key is not None else header
    if key is not None:
        return f"key/{key}"
    if body.mode == "session":
        return f"session/{body.session}"
    if body.mode == "agent":
        return f"agent/{body.agent}"
    return "user"


def check_budget_change(caller: Caller, current: object, requested: object, class_budget: object, *, own: bool) -> None:
    """Check a change of a budget: an owner may lower it below the class's budget, and never raise it."""
    if caller.is_admin or (requested is None and current is None):
        return
    if not own:
        raise Problem("not-allowed", "only its owner or an admin changes its budget", "ask an admin")
    # The owner may lower, step by step, a budget that an admin raised above the class's.
    limit = current if current is not None else class_budget
    if requested is None or (limit is not None and cast("float", requested) > cast("float", limit)):
        detail = f"only an admin sets a budget above {current or class_budget}"
        raise Problem("not-allowed", detail, "choose a lower budget, or ask an admin to raise it")


def check_class_budget(caller: Caller, budget: object, of_class: Class) -> None:
    """Raise a `Problem` where a workspace would enter a class with a larger budget than the class gives."""
    class_budget = of_class.budget
    if (
        caller.is_admin
        or budget is None
        or class_budget is None
        or cast("float", budget) <= cast("float", class_budget)
    ):
        return
    detail = f"its budget of {budget} exceeds the budget of {class_budget} of class {of_class.name}"
    raise Problem("not-allowed", detail, f"set `budget` to {class_budget} or less with it, or ask an admin")


def check_deadline(deadline: datetime | None, now: datetime) -> None:
    """Raise a `Problem` for a deadline in the past, or within a minute."""
    if deadline is not None and deadline < now + SHORTEST_LIFE:
        detail = "the deadline is in the past, or within a minute"
        raise Problem("too-late", detail, "leave it out, or choose a later deadline")


def check_busy_until(busy_until: datetime | None, now: datetime) -> None:
    """Raise a `Problem` for a `busy_until` that is too far ahead: a job renews it while it runs."""
    if busy_until is not None and busy_until > now + FURTHEST:
        hours = int(FURTHEST.total_seconds() // 3600)
        detail = f"`busy_until` is more than {hours} hours ahead"
        raise Problem("malformed", detail, "choose an earlier time, and renew it while the job runs")


def check_owner_ids(dependencies: Dependencies, owners: Iterable[str]) -> None:
    """Raise a `Problem` for an id that no caller can have; a configured claim may give callers any id."""
    if dependencies.catalog.settings.service.owner_claim is not None:
        return
    for owner in owners:
        if not is_owner_id(owner) and not owner.startswith(TEAM):
            raise Problem("malformed", f"{owner!r} is not the id of an owner", "use the `owner` of GET /v1/me")


def timedelta_of(seconds: int | None) -> timedelta | None:
    """Return seconds as a timedelta, where given."""
    return None if seconds is None else timedelta(seconds=seconds)
