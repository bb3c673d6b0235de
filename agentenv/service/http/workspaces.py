"""Workspaces over HTTP: asked for, looked at, changed, put to sleep, woken, attached to and taken away."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from agentenv.core.workspaces.workspace import UNSET, Changes, CreateResult, Filter, Lease, Mode, State
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.auth.permissions import require, require_class_access
from agentenv.service.http.caller import CurrentCaller, RequestDependencies
from agentenv.service.http.create_request import (
    check_budget_change,
    check_budget_left,
    check_class_budget,
    check_deadline,
    create_request,
    planned_workspace,
    restore_check,
    timedelta_of,
)
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.problems import Problem
from agentenv.service.http.responses import PROBLEMS, problems, set_create_headers
from agentenv.service.http.schemas import (
    EventList,
    EventShape,
    LeaseAsked,
    WorkspaceAsked,
    WorkspaceChanged,
    WorkspacePage,
    WorkspaceShape,
)
from agentenv.service.http.values import ID, Line, Name, Owner

router = APIRouter(prefix="/v1/workspaces", tags=["workspaces"])

LONGEST_WAIT = 60.0
Named = Annotated[str, Path(pattern=ID, description="The workspace's id.")]
Wait = Annotated[float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for it.")]
HOLDER = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
Holder = Annotated[str, Path(pattern=HOLDER, description="What the agent calls itself.")]


class ListQuery(BaseModel):
    """Which workspaces are listed."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    owner: Owner | None = None
    class_: Annotated[Name | None, Field(alias="class")] = None
    state: State | None = None
    mode: Mode | None = None
    task: Name | None = None
    label: Annotated[
        list[Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,63}=[A-Za-z0-9._-]{0,63}$")]],
        Field(max_length=16, description="key=value; all of them."),
    ] = []
    deleted: Annotated[bool, Field(description="Also those of which only the data is kept.")] = False
    everybody: Annotated[bool, Field(description="Everybody's, for whoever looks after them.")] = False
    limit: Annotated[int, Field(ge=1, le=500)] = 100
    after: Annotated[str | None, Field(pattern=ID)] = None


class DeleteQuery(BaseModel):
    """How a workspace is taken away."""

    model_config = ConfigDict(extra="forbid")

    destroy: Annotated[bool, Field(description="Its data, too, and at once.")] = False


@router.post(
    "",
    operation_id="createWorkspace",
    status_code=201,
    responses={
        200: {"model": WorkspaceShape, "description": "It was there already, and is ready"},
        202: {"model": WorkspaceShape, "description": "It is on its way: look at `Location`, with `wait`"},
        **problems(401, 402, 403, 404, 409, 422, 429, 503),
    },
)
async def create(
    asked: WorkspaceAsked,
    response: Response,
    caller: CurrentCaller,
    parts: RequestDependencies,
    *,
    idempotency_key: Annotated[Line | None, Header(description="Instead of `key`.")] = None,
    wait: Wait = 10.0,
) -> WorkspaceShape:
    """Ask for a workspace: made if it is not there, from a warm sandbox if there is one."""
    wanted = await create_request(parts, caller, asked, idempotency_key)
    # Of one that is not there yet too: its owner's cap holds all that they have together.
    await check_budget_left(parts, parts.backend.view.find(wanted.id) or planned_workspace(wanted))
    made = await parts.backend.create(
        wanted, wait=wait, warm_only=asked.start == "warm", before_return=restore_check(parts, caller)
    )
    set_create_headers(response, made)
    return WorkspaceShape.of(made.workspace, parts.now())


@router.get(
    "",
    operation_id="listWorkspaces",
    response_model=WorkspacePage,
    responses=problems(401, 403, 422, 429, 503),
)
async def list_(chosen: Annotated[ListQuery, Query()], caller: CurrentCaller, parts: RequestDependencies) -> Response:
    """Workspaces by id, a page at a time: one's own and those that are shared, or everybody's.

    What is told is a moment old at the most; ask for one by its id to have it as it is.
    """
    if (chosen.everybody or chosen.owner not in {None, caller.owner}) and not caller.operates:
        raise Problem("not-allowed", "others' workspaces are not yours to see", "leave out `owner` and `everybody`")
    page = await parts.backend.list(
        Filter(
            reader=None if chosen.everybody or chosen.owner else caller.owner,
            owner=chosen.owner,
            class_name=chosen.class_,
            state=chosen.state,
            mode=chosen.mode,
            task=chosen.task,
            labels=dict(label.split("=", 1) for label in chosen.label),
            deleted=chosen.deleted,
        ),
        limit=chosen.limit,
        after=chosen.after,
    )
    now = parts.now()
    told = WorkspacePage.model_construct(
        items=[WorkspaceShape.of(one, now) for one in page.workspaces], after=page.after
    )
    # Written once: a hundred rows read back and checked again would take longer than finding them.
    return Response(told.model_dump_json(by_alias=True), media_type="application/json")


@router.get("/{id}", operation_id="getWorkspace", responses=problems(401, 403, 404, 422, 429, 503))
async def get(
    id_: Annotated[Named, Path(alias="id")], caller: CurrentCaller, parts: RequestDependencies, wait: Wait = 0.0
) -> WorkspaceShape:
    """A workspace as it is; with `wait`, once it is neither on its way nor going."""
    found = require(caller, "see", await parts.backend.get(id_))
    if wait:
        found = require(caller, "see", await parts.backend.settled(id_, wait=wait))
    return WorkspaceShape.of(found, parts.now())


@router.patch("/{id}", operation_id="updateWorkspace", responses=PROBLEMS)
async def update(
    id_: Annotated[Named, Path(alias="id")],
    changed: WorkspaceChanged,
    caller: CurrentCaller,
    parts: RequestDependencies,
    wait: Wait = 10.0,
) -> WorkspaceShape:
    """Change what is said of a workspace; another class makes it anew, cold, on the same data."""
    found = require(caller, "see", await parts.backend.get(id_))
    said = changed.model_fields_set
    if said - {"budget"} or not said:
        require(caller, "change", found)
    of_class = parts.catalog.get(changed.class_ or found.class_name)
    if "budget" in said:
        check_budget_change(caller, found.budget, changed.budget, of_class.budget, own=found.owner == caller.owner)
    if changed.class_ is not None and changed.class_ != found.class_name:
        require_class_access(caller, of_class)
        check_class_budget(caller, changed.budget if "budget" in said else found.budget, of_class)
        if found.mode not in of_class.modes:
            raise Problem("mode-not-offered", f"class {of_class.name} is not for mode {found.mode}", "choose another")
        if found.parent:
            parent = require(caller, "write", await parts.backend.get(found.parent))
            parts.catalog.refuse_beyond(of_class.name, parent.class_name)
        # It comes up anew in the other class, whatever put it to sleep: by the limits that hold it there.
        budget = changed.budget if "budget" in said else found.budget
        await check_budget_left(parts, replace(found, class_name=of_class.name, budget=budget))
    check_deadline(changed.deadline, parts.now())
    made = await parts.backend.update(
        id_,
        Changes(
            class_name=changed.class_ if changed.class_ is not None else UNSET,
            labels=(changed.labels or {}) if "labels" in said else UNSET,
            shared=(changed.shared or {}) if "shared" in said else UNSET,
            idle_after=timedelta_of(changed.idle_after) if "idle_after" in said else UNSET,
            deadline=changed.deadline if "deadline" in said else UNSET,
            budget=changed.budget if "budget" in said else UNSET,
            busy_until=changed.busy_until if "busy_until" in said else UNSET,
            wake_at=changed.wake_at if "wake_at" in said else UNSET,
        ),
        wait=wait,
    )
    return WorkspaceShape.of(made.workspace, parts.now())


@router.delete("/{id}", operation_id="deleteWorkspace", status_code=202, responses=PROBLEMS)
async def delete(
    id_: Annotated[Named, Path(alias="id")],
    how: Annotated[DeleteQuery, Query()],
    caller: CurrentCaller,
    parts: RequestDependencies,
) -> WorkspaceShape:
    """Take a workspace away. Its data is kept for the time that the settings say, or destroyed at once."""
    found = require(caller, "destroy" if how.destroy else "delete", await parts.backend.get(id_))
    if parts.settle is not None:
        await parts.settle(found)
    keep_for = timedelta(0) if how.destroy else _retention(parts, found.mode)
    return WorkspaceShape.of(await parts.backend.delete(id_, keep_for=keep_for), parts.now())


@router.post("/{id}/suspend", operation_id="suspendWorkspace", responses=PROBLEMS)
async def suspend(
    id_: Annotated[Named, Path(alias="id")], caller: CurrentCaller, parts: RequestDependencies
) -> WorkspaceShape:
    """Let a workspace sleep: its processes end, its files stay."""
    require(caller, "sleep", await parts.backend.get(id_))
    return WorkspaceShape.of(await parts.backend.suspend(id_, "asked"), parts.now())


@router.post(
    "/{id}/resume",
    operation_id="resumeWorkspace",
    responses={202: {"model": WorkspaceShape, "description": "It is on its way"}, **PROBLEMS},
)
async def resume(
    id_: Annotated[Named, Path(alias="id")],
    response: Response,
    caller: CurrentCaller,
    parts: RequestDependencies,
    wait: Wait = 10.0,
) -> WorkspaceShape:
    """Wake a workspace; one that was deleted, and whose data is kept, is made anew on it."""
    found = require(caller, "wake", await parts.backend.get(id_))
    await check_budget_left(parts, found)
    made = await parts.backend.resume(id_, wait=wait, before_return=restore_check(parts, caller))
    set_create_headers(response, CreateResult(made.workspace, made.ready, existed=True, cold=made.cold))
    return WorkspaceShape.of(made.workspace, parts.now())


@router.put("/{id}/leases/{holder}", operation_id="attach", responses=PROBLEMS)
async def attach(
    id_: Annotated[Named, Path(alias="id")],
    holder: Holder,
    asked: LeaseAsked,
    caller: CurrentCaller,
    parts: RequestDependencies,
) -> WorkspaceShape:
    """Attach to a workspace, or say that one is still there: a lease that nobody renews runs out."""
    require(caller, "write" if asked.mode == "rw" else "read", await parts.backend.get(id_))
    seconds = timedelta(seconds=asked.seconds) if asked.seconds else parts.catalog.settings.service.lease
    lease = Lease(_holder(caller, holder), asked.mode, parts.now() + seconds)
    return WorkspaceShape.of(await parts.backend.attach(id_, lease), parts.now())


@router.delete("/{id}/leases/{holder}", operation_id="detach", responses=PROBLEMS)
async def detach(
    id_: Annotated[Named, Path(alias="id")], holder: Holder, caller: CurrentCaller, parts: RequestDependencies
) -> WorkspaceShape:
    """Give a lease back."""
    require(caller, "see", await parts.backend.get(id_))
    return WorkspaceShape.of(await parts.backend.detach(id_, _holder(caller, holder)), parts.now())


@router.get("/{id}/events", operation_id="listEvents", responses=PROBLEMS)
async def events(
    id_: Annotated[Named, Path(alias="id")], caller: CurrentCaller, parts: RequestDependencies
) -> EventList:
    """What happened to a workspace in the last hour, the latest first."""
    require(caller, "see", await parts.backend.get(id_))
    return EventList(items=[EventShape.of(one) for one in await parts.backend.events(id_)])


def _retention(parts: Dependencies, mode: Mode) -> timedelta:
    settings = parts.catalog.settings
    return settings.service.session_retention if mode == "session" else settings.storage.retain_deleted_for


def _holder(caller: Caller, name: str) -> str:
    """A lease's name: nobody gives back another's."""
    return f"{caller.owner}/{name}"
