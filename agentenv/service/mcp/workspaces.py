"""Tools that choose, create and suspend workspaces, and say what is left of their budgets."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from agentenv.core.ledger.budgets import format_dollars
from agentenv.core.workspaces.workspace import CreateRequest, Filter, Mode, Timeout, Workspace
from agentenv.service.http.auth.permissions import classes_for, is_allowed, require, require_first_class
from agentenv.service.http.child_budgets import spent_by
from agentenv.service.http.create_request import create_request, create_workspace
from agentenv.service.http.problems import Problem
from agentenv.service.http.schemas import WorkspaceCreate
from agentenv.service.http.values import AMOUNT, MONTH
from agentenv.service.mcp.calls import WAIT, Call, CallContext, tool
from agentenv.service.mcp.commands import Id

MOST_LISTED = 100
DEFAULT_LIFE = 3600

Life = Annotated[int, Field(ge=60, le=MONTH, description="Seconds until it ends.")]
Amount = Annotated[str, Field(pattern=AMOUNT, description="Dollars a month, such as 2.50; it stops at it.")]


class WorkspaceSummary(BaseModel):
    """A workspace."""

    id: str
    class_name: str
    mode: str
    state: str
    ends: datetime | None = None
    budget: str | None = None
    parent: str | None = None
    why: str | None = None

    @classmethod
    def of(cls, workspace: Workspace) -> WorkspaceSummary:
        """Return the summary of a workspace."""
        return cls(
            id=workspace.id,
            class_name=workspace.class_name,
            mode=workspace.mode,
            state="suspended" if workspace.suspended_because and workspace.state == "running" else workspace.state,
            ends=workspace.deadline,
            budget=None if workspace.budget is None else str(workspace.budget),
            parent=workspace.parent,
            why=workspace.why or None,
        )


class Workspaces(BaseModel):
    """The caller's workspaces, and the classes of new ones."""

    workspaces: list[WorkspaceSummary]
    classes: list[str]
    note: str = ""


class BudgetLeft(BaseModel):
    """The rest of the budget of this month, in dollars; null where there is no limit."""

    spent: str
    budget: str | None
    left: str | None
    owner_spent: str
    owner_cap: str | None


@tool
async def list_workspaces(context: CallContext) -> Workspaces:
    """List your workspaces, and the classes that you may create others of."""
    call = Call.of(context)
    call.require_scope("read")
    page = await call.dependencies.backend.list(Filter(reader=call.caller.owner), limit=MOST_LISTED)
    return Workspaces(
        workspaces=[
            WorkspaceSummary.of(each)
            for each in page.workspaces
            if each.state != "deleting" and is_allowed(call.caller, "see", each)
        ],
        classes=classes_for(call.dependencies.catalog, call.caller),
        note=f"Only the first {MOST_LISTED} are listed." if page.after else "",
    )


@tool
async def open_workspace(
    context: CallContext,
    *,
    class_name: Annotated[str | None, Field(description="Its class; default: the first that you may use.")] = None,
    mode: Annotated[
        Mode, Field(description="`user`: one of yours, kept. `session`: one a chat. `agent`: one a named agent.")
    ] = "session",
    key: Annotated[
        str | None, Field(description="The chat or agent: the same key opens the same workspace. Default: a new one.")
    ] = None,
    life: Annotated[Life | None, Field(description="Seconds until it is suspended; default: when idle.")] = None,
    budget: Amount | None = None,
) -> WorkspaceSummary:
    """Open a workspace of yours: the one of the key, resumed where it is suspended, or else a new one."""
    call = Call.of(context)
    call.require_scope("create")
    fields = {
        "class": class_name or require_first_class(call.dependencies.catalog, call.caller, mode).name,
        "mode": mode,
        "budget": budget,
    }
    if mode == "user":
        fields |= {"key": key} if key else {}
    else:
        fields[mode] = key or secrets.token_hex(16)
    request = await create_request(call.dependencies, call.caller, _body(fields), None)
    if life is not None:
        request = _with_life(call, request, life, Timeout(life, "suspend", wakes=True))
    return await _created(call, request)


@tool
async def spawn_workspace(
    context: CallContext,
    parent: Annotated[str, Field(description="The workspace that it works for, and whose limits it does not exceed.")],
    *,
    class_name: Annotated[str | None, Field(description="A class within the parent's; default: the same.")] = None,
    key: Annotated[str | None, Field(description="The sub-agent: the same key returns the same workspace.")] = None,
    life: Annotated[Life, Field(description="Seconds until it and its files are destroyed.")] = DEFAULT_LIFE,
    budget: Annotated[Amount | None, Field(description="Dollars that are taken from the parent's budget.")] = None,
    ports: Annotated[list[int] | None, Field(description="The only ports that can be opened and shared.")] = None,
    capabilities: Annotated[
        list[str] | None,
        Field(description="Its class must be within these, such as dns or web; without identity it gets no secrets."),
    ] = None,
) -> WorkspaceSummary:
    """Create a workspace for a sub-agent: no wider than its parent, paid from its budget, and ended with it."""
    call = Call.of(context)
    above = await call.workspace(parent, "write", "create")
    of_class = call.dependencies.catalog.get(class_name or above.class_name)
    chat = f"{above.id}/{key or secrets.token_hex(8)}"
    grants = {"ports": ports, "capabilities": capabilities}
    body = _body(
        {
            "class": of_class.name,
            "mode": "session",
            "session": chat,
            "parent": above.id,
            "budget": budget,
            "grants": grants,
        }
    )
    request = await create_request(call.dependencies, call.caller, body, None)
    request = _with_life(call, request, life, Timeout(life, "delete"))
    if above.deadline is not None and request.deadline is not None:
        request = replace(request, deadline=min(request.deadline, above.deadline))
    return await _created(call, request)


@tool
async def suspend_workspace(workspace: Id, context: CallContext) -> WorkspaceSummary:
    """Suspend a workspace: its processes end, its files are kept, and the next call resumes it."""
    call = Call.of(context)
    await call.workspace(workspace, "sleep", "use")
    return WorkspaceSummary.of(await call.dependencies.backend.suspend(workspace, "asked"))


@tool
async def budget_left(workspace: Id, context: CallContext) -> BudgetLeft:
    """Return what is left of the budgets of a workspace and of its owner this month, without the last ten minutes."""
    call = Call.of(context)
    found = await call.workspace(workspace, "see", "read")
    require(call.caller, "read", found)
    if call.caller.workspace:
        raise Problem("not-allowed", "the key of a link does not show its owner's budget", "use a key of your own")
    of_class = call.dependencies.catalog.get(found.class_name)
    budget = found.budget if found.budget is not None else of_class.budget
    spent, owner_spent = await spent_by(call.dependencies, found)
    cap = call.dependencies.catalog.settings.cost.per_user_cap
    return BudgetLeft(
        spent=str(format_dollars(spent)),
        budget=None if budget is None else str(budget),
        left=None if budget is None else str(format_dollars(max(Decimal(0), budget - spent))),
        owner_spent=str(format_dollars(owner_spent)),
        owner_cap=None if cap is None else str(cap),
    )


async def _created(call: Call, request: CreateRequest) -> WorkspaceSummary:
    workspace = (await create_workspace(call.dependencies, call.caller, request, wait=WAIT)).workspace
    if workspace.state == "suspended" or workspace.suspended_because is not None:
        workspace = await call.resumed(workspace)
    return WorkspaceSummary.of(workspace)


def _with_life(call: Call, request: CreateRequest, life: int, timeout: Timeout) -> CreateRequest:
    longest = call.dependencies.catalog.get(request.class_name).max_lifetime
    if longest is not None and timedelta(seconds=life) > longest:
        detail = f"life: more than the {longest.total_seconds():.0f} s of class {request.class_name}"
        raise Problem("malformed", detail, "choose a shorter `life`")
    deadline = call.dependencies.now().astimezone(UTC) + timedelta(seconds=life)
    return replace(request, deadline=deadline, timeout=timeout)


def _body(fields: Mapping[str, object]) -> WorkspaceCreate:
    try:
        return WorkspaceCreate.model_validate(fields)
    except ValidationError as failure:
        row = failure.errors()[0]
        where = ".".join(str(part) for part in row["loc"])
        raise Problem("malformed", f"{where}: {row['msg']}", "correct it") from None
