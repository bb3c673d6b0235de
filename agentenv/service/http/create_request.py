"""What a request asks for, looked at before anything is done: whose it is, of what class, and what it may cost."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import cast

from agentenv.core.workspaces.workspace import CreateRequest, Workspace
from agentenv.service.catalog import Class
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.auth.permissions import require, require_class_access
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.problems import Problem
from agentenv.service.http.schemas import WorkspaceAsked
from agentenv.service.workspaces.backend_protocol import RestoreCheck

SHORTEST_LIFE = timedelta(minutes=1)


def planned_workspace(asked: CreateRequest) -> Workspace:
    """What is asked for, as it will be at first."""
    return Workspace(asked.id, asked.owner, asked.class_name, asked.mode, "creating", budget=asked.budget)


async def create_request(
    parts: Dependencies, caller: Caller, asked: WorkspaceAsked, header: str | None
) -> CreateRequest:
    """What a caller is given if there is room; a `Problem` where it is not theirs to ask for."""
    of_class = parts.catalog.get(asked.class_)
    require_class_access(caller, of_class)
    if asked.owner not in {None, caller.owner} and not caller.operates:
        raise Problem("not-allowed", "workspaces are asked for in one's own name", "leave out `owner`")
    if asked.mode not in of_class.modes:
        offered = ", ".join(of_class.modes)
        raise Problem("mode-not-offered", f"class {of_class.name} is not for mode {asked.mode}", f"it is for {offered}")
    if asked.owner not in {None, caller.owner} and not caller.administers and (asked.shared or asked.parent):
        # Else whoever only looks after workspaces would have a way into one.
        detail = "`shared` and `parent` are said by the one whose workspace it is"
        raise Problem("not-allowed", detail, "leave them out, or have its owner ask")
    check_budget_change(caller, None, asked.budget, of_class.budget, own=True)
    check_deadline(asked.deadline, parts.now())
    if asked.parent is not None:
        parent = require(caller, "write", await parts.backend.get(asked.parent))
        parts.catalog.refuse_beyond(of_class.name, parent.class_name)
    return CreateRequest(
        owner=asked.owner or caller.owner,
        key=_key(asked, header),
        class_name=asked.class_,
        created_by=caller.owner,
        mode=asked.mode,
        channel=asked.channel,
        labels=asked.labels,
        shared=asked.shared,
        idle_after=timedelta_of(asked.idle_after),
        deadline=asked.deadline,
        budget=asked.budget,
        archive=asked.session,
        parent=asked.parent,
    )


def restore_check(parts: Dependencies, caller: Caller) -> RestoreCheck:
    """What is looked at before a deleted workspace is made anew; it is told as it will be.

    It may be of another class by then than the one that is asked for: whoever may not ask for that any more may not
    have it back either, by whatever way.
    """

    async def look(kept: Workspace) -> None:
        if kept.owner != caller.owner:
            return
        of_class = parts.catalog.get(kept.class_name)
        require_class_access(caller, of_class)
        parent = await parts.backend.get(kept.parent) if kept.parent else None
        if parent is not None:
            parts.catalog.refuse_beyond(of_class.name, parent.class_name)

    return look


async def check_budget_left(parts: Dependencies, workspace: Workspace) -> None:
    """A `Problem` where what a workspace may cost this month is spent."""
    if parts.budgets is not None and (spent := await parts.budgets.refusal(workspace)) is not None:
        raise spent


def _key(asked: WorkspaceAsked, header: str | None) -> str:
    """What makes it the same workspace when it is asked for again."""
    if asked.key is not None and header is not None and asked.key != header:
        raise Problem("key-reused", "`key` and the header `Idempotency-Key` differ", "send one of them")
    said = asked.key if asked.key is not None else header
    if said is not None:
        return f"key/{said}"
    if asked.mode == "session":
        return f"session/{asked.session}"
    if asked.mode == "agent":
        return f"agent/{asked.agent}"
    return "user"


def check_budget_change(caller: Caller, now: object, asked: object, most: object, *, own: bool) -> None:
    """Whoever pays says how much: an owner may have less than their class, and never more."""
    if caller.administers or (asked is None and now is None):
        return
    if not own:
        raise Problem("not-allowed", "its budget is not yours to change", "ask an admin")
    # What an admin gave beyond the class's own may be lowered by whoever has it, step by step.
    least = now if now is not None else most
    if asked is None or (least is not None and cast("float", asked) > cast("float", least)):
        raise Problem("not-allowed", f"budgets beyond {now or most} are not yours to give", "ask an admin to raise it")


def check_class_budget(caller: Caller, budget: object, of_class: Class) -> None:
    """A `Problem` where somebody would come to a class with more of a budget than it gives."""
    most = of_class.budget
    if caller.administers or budget is None or most is None or cast("float", budget) <= cast("float", most):
        return
    detail = f"a budget of {budget} is more than the {most} that class {of_class.name} gives"
    raise Problem("not-allowed", detail, f"say a `budget` of {most} or less with it, or ask an admin")


def check_deadline(deadline: datetime | None, now: datetime) -> None:
    """A `Problem` for a deadline that is over, or as good as over."""
    if deadline is not None and deadline < now + SHORTEST_LIFE:
        raise Problem("too-late", "its deadline is over, or within a minute", "leave it out, or say a later one")


def timedelta_of(seconds: int | None) -> timedelta | None:
    """So many seconds, where somebody said how many."""
    return None if seconds is None else timedelta(seconds=seconds)
