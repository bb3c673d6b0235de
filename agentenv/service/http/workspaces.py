"""Routes of workspaces: create, read, update, suspend, resume, attach and delete."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from agentenv.core.classes.sizes import SMALL
from agentenv.core.workspaces.swarms import task_name
from agentenv.core.workspaces.workspace import UNSET, Changes, CreateResult, Filter, Lease, Mode, State, Workspace
from agentenv.service.http.auth.permissions import is_allowed, require, require_class_access
from agentenv.service.http.child_budgets import refuse_raise
from agentenv.service.http.create_request import (
    check_budget_change,
    check_budget_left,
    check_busy_until,
    check_class_budget,
    check_deadline,
    check_owner_ids,
    create_request,
    create_workspace,
    restore_check,
    timedelta_of,
)
from agentenv.service.http.dependencies import (
    AuthenticatedRoute,
    CurrentCaller,
    RequestDependencies,
    scope,
)
from agentenv.service.http.grants import check_size
from agentenv.service.http.problems import Problem
from agentenv.service.http.responses import PROBLEMS, problems, set_create_headers
from agentenv.service.http.schemas import (
    EventList,
    EventShape,
    LeaseRequest,
    WorkspaceCreate,
    WorkspacePage,
    WorkspaceShape,
    WorkspaceUpdate,
)
from agentenv.service.http.values import ID, Line, Name, Owner

router = APIRouter(prefix="/v1/workspaces", tags=["workspaces"], route_class=AuthenticatedRoute)

LONGEST_WAIT = 60.0
Named = Annotated[str, Path(pattern=ID, description="The workspace's id.")]
Wait = Annotated[float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait until it is ready.")]
HOLDER = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
Holder = Annotated[str, Path(pattern=HOLDER, description="The name of the lease: one a process that attaches.")]


class ListQuery(BaseModel):
    """The filters of a list of workspaces."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    owner: Owner | None = None
    class_: Annotated[Name | None, Field(alias="class")] = None
    state: State | None = None
    mode: Mode | None = None
    task: Annotated[Name | None, Field(description="The task of a swarm of `owner`, by default the caller's.")] = None
    label: Annotated[
        list[Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,63}=[A-Za-z0-9._-]{0,63}$")]],
        Field(max_length=16, description="key=value; a workspace needs all of them."),
    ] = []
    deleted: Annotated[bool, Field(description="Include deleted workspaces whose data is retained.")] = False
    everybody: Annotated[bool, Field(description="List the workspaces of all owners; for operators.")] = False
    limit: Annotated[int, Field(ge=1, le=500)] = 100
    after: Annotated[str | None, Field(pattern=ID)] = None


class DeleteQuery(BaseModel):
    """The options of a deletion."""

    model_config = ConfigDict(extra="forbid")

    destroy: Annotated[bool, Field(description="Also destroy its data, at once.")] = False


@router.post(
    "",
    operation_id="createWorkspace",
    openapi_extra=scope("create"),
    status_code=201,
    responses={
        200: {"model": WorkspaceShape, "description": "It existed, and is ready"},
        202: {"model": WorkspaceShape, "description": "It is being created: read `Location`, with `wait`"},
        **problems(401, 402, 403, 404, 409, 422, 429, 503),
    },
)
async def create(
    body: WorkspaceCreate,
    response: Response,
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    *,
    idempotency_key: Annotated[Line | None, Header(description="Instead of `key`.")] = None,
    wait: Wait = 10.0,
) -> WorkspaceShape:
    """Create a workspace, unless it exists: from a warm sandbox if there is one."""
    request = await create_request(dependencies, caller, body, idempotency_key)
    result = await create_workspace(dependencies, caller, request, wait=wait, warm_only=body.start == "warm")
    set_create_headers(response, result)
    return WorkspaceShape.of(result.workspace, dependencies.now())


@router.get(
    "",
    operation_id="listWorkspaces",
    response_model=WorkspacePage,
    responses=problems(401, 403, 422, 429, 503),
)
async def list_(
    query: Annotated[ListQuery, Query()], caller: CurrentCaller, dependencies: RequestDependencies
) -> Response:
    """List workspaces by id, a page at a time: the caller's own and shared ones, or everybody's.

    The list is eventually consistent; read one workspace by its id for its current state.
    """
    if (query.everybody or query.owner not in {None, caller.owner}) and not caller.is_operator:
        raise Problem(
            "not-allowed", "only operators list other owners' workspaces", "leave out `owner` and `everybody`"
        )
    if query.task and query.everybody and query.owner is None:
        raise Problem("malformed", "`task` names a task of one owner", "name the `owner`, or leave out `everybody`")
    page = await dependencies.backend.list(
        Filter(
            reader=None if query.everybody or query.owner else caller.owner,
            owner=query.owner,
            class_name=query.class_,
            state=query.state,
            mode=query.mode,
            task=task_name(query.owner or caller.owner, query.task) if query.task else None,
            labels=dict(label.split("=", 1) for label in query.label),
            deleted=query.deleted,
        ),
        limit=query.limit,
        after=query.after,
    )
    now = dependencies.now()
    page_document = WorkspacePage.model_construct(
        items=[WorkspaceShape.of(workspace, now) for workspace in page.workspaces], after=page.after
    )
    # Serialised once: validating a hundred rows again would take longer than finding them.
    return Response(page_document.model_dump_json(by_alias=True), media_type="application/json")


@router.get("/{id}", operation_id="getWorkspace", responses=problems(401, 403, 404, 422, 429, 503))
async def get(
    id_: Annotated[Named, Path(alias="id")], caller: CurrentCaller, dependencies: RequestDependencies, wait: Wait = 0.0
) -> WorkspaceShape:
    """Read a workspace; with `wait`, once it is neither being created nor being deleted."""
    workspace = require(caller, "see", await dependencies.backend.get(id_))
    if wait:
        workspace = require(caller, "see", await dependencies.backend.settled(id_, wait=wait))
    return WorkspaceShape.of(workspace, dependencies.now())


@router.patch("/{id}", operation_id="updateWorkspace", responses=PROBLEMS)
async def update(
    id_: Annotated[Named, Path(alias="id")],
    changed: WorkspaceUpdate,
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    wait: Wait = 10.0,
) -> WorkspaceShape:
    """Update a workspace: another size resizes its sandbox, another class recreates it cold on the same data."""
    workspace = require(caller, "see", await dependencies.backend.get(id_))
    fields = changed.model_fields_set
    if fields - {"budget"} or not fields:
        require(caller, "change", workspace)
    of_class = dependencies.catalog.get(changed.class_ or workspace.class_name)
    if "budget" in fields:
        check_budget_change(
            caller, workspace.budget, changed.budget, of_class.budget, own=workspace.owner == caller.owner
        )
        await refuse_raise(dependencies, workspace, changed.budget)
    if changed.class_ is not None and changed.class_ != workspace.class_name:
        require_class_access(caller, of_class)
        dependencies.catalog.refuse_beyond_grants(of_class.name, workspace.grants.capabilities)
        check_class_budget(caller, changed.budget if "budget" in fields else workspace.budget, of_class)
        if workspace.mode not in of_class.modes:
            detail = f"class {of_class.name} does not offer mode {workspace.mode}"
            raise Problem("mode-not-offered", detail, "choose another class")
        if workspace.parent:
            parent = require(caller, "write", await dependencies.backend.get(workspace.parent))
            dependencies.catalog.refuse_beyond(of_class.name, parent.class_name)
        # It starts in the other class, whatever suspended it, so that class's limits apply.
        budget = changed.budget if "budget" in fields else workspace.budget
        check_budget_left(dependencies, replace(workspace, class_name=of_class.name, budget=budget))
    size = (changed.size or SMALL) if "size" in fields else workspace.size
    of_class.require_size(size)
    if size != workspace.size:
        check_size(workspace.grants, size)
        # A larger one costs more, so one whose budget is spent does not get it.
        check_budget_left(dependencies, workspace)
    check_owner_ids(dependencies, changed.shared or {})
    check_deadline(changed.deadline, dependencies.now())
    check_busy_until(changed.busy_until, dependencies.now())
    changes = Changes(
        class_name=changed.class_ if changed.class_ is not None else UNSET,
        labels=(changed.labels or {}) if "labels" in fields else UNSET,
        shared=(changed.shared or {}) if "shared" in fields else UNSET,
        idle_after=timedelta_of(changed.idle_after) if "idle_after" in fields else UNSET,
        deadline=changed.deadline if "deadline" in fields else UNSET,
        budget=changed.budget if "budget" in fields else UNSET,
        size=size if "size" in fields else UNSET,
        busy_until=changed.busy_until if "busy_until" in fields else UNSET,
        wake_at=changed.wake_at if "wake_at" in fields else UNSET,
    )

    def build(current: Workspace) -> Changes:
        if "budget" in fields and current.budget != workspace.budget:
            # A child, or another request: what was decided above held for the former budget.
            raise Problem("busy", f"the budget of {id_} was changed meanwhile", "repeat the request", retry_after=1)
        return changes

    result = await dependencies.backend.change(id_, build, wait=wait)
    return WorkspaceShape.of(result.workspace, dependencies.now())


@router.delete("/{id}", operation_id="deleteWorkspace", status_code=202, responses=PROBLEMS)
async def delete(
    id_: Annotated[Named, Path(alias="id")],
    options: Annotated[DeleteQuery, Query()],
    caller: CurrentCaller,
    dependencies: RequestDependencies,
) -> WorkspaceShape:
    """Delete a workspace. Its data is retained as the settings say, or destroyed at once."""
    workspace = require(caller, "destroy" if options.destroy else "delete", await dependencies.backend.get(id_))
    if dependencies.settle is not None:
        await dependencies.settle(workspace)
    keep_for = timedelta(0) if options.destroy else dependencies.catalog.retention(workspace.mode)
    return WorkspaceShape.of(await dependencies.backend.delete(id_, keep_for=keep_for), dependencies.now())


@router.post("/{id}/suspend", operation_id="suspendWorkspace", openapi_extra=scope("use"), responses=PROBLEMS)
async def suspend(
    id_: Annotated[Named, Path(alias="id")], caller: CurrentCaller, dependencies: RequestDependencies
) -> WorkspaceShape:
    """Suspend a workspace: its processes end, its files are retained."""
    require(caller, "sleep", await dependencies.backend.get(id_))
    return WorkspaceShape.of(await dependencies.backend.suspend(id_, "asked"), dependencies.now())


@router.post(
    "/{id}/resume",
    operation_id="resumeWorkspace",
    openapi_extra=scope("wake"),
    responses={202: {"model": WorkspaceShape, "description": "It is starting"}, **PROBLEMS},
)
async def resume(
    id_: Annotated[Named, Path(alias="id")],
    response: Response,
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    wait: Wait = 10.0,
) -> WorkspaceShape:
    """Resume a workspace; one that was deleted is restored on its retained data."""
    workspace = require(caller, "wake", await dependencies.backend.get(id_))
    check_budget_left(dependencies, workspace)
    result = await dependencies.backend.resume(id_, wait=wait, before_restore=restore_check(dependencies, caller))
    set_create_headers(response, CreateResult(result.workspace, result.ready, existed=True, cold=result.cold))
    return WorkspaceShape.of(result.workspace, dependencies.now())


@router.put("/{id}/leases/{holder}", operation_id="attach", openapi_extra=scope("use"), responses=PROBLEMS)
async def attach(
    id_: Annotated[Named, Path(alias="id")],
    holder: Holder,
    body: LeaseRequest,
    caller: CurrentCaller,
    dependencies: RequestDependencies,
) -> WorkspaceShape:
    """Attach to a workspace, or renew the lease: a lease that is not renewed expires.

    A caller who may only read gets at most the default time, because a lease keeps the workspace running.
    """
    workspace = require(caller, "write" if body.mode == "rw" else "read", await dependencies.backend.get(id_))
    default = dependencies.catalog.settings.service.lease
    seconds = timedelta(seconds=body.seconds) if body.seconds else default
    if not is_allowed(caller, "write", workspace):
        seconds = min(seconds, default)
    lease = Lease(f"{caller.owner}/{holder}", body.mode, dependencies.now() + seconds)
    return WorkspaceShape.of(await dependencies.backend.attach(id_, lease), dependencies.now())


@router.delete("/{id}/leases/{holder}", operation_id="detach", openapi_extra=scope("use"), responses=PROBLEMS)
async def detach(
    id_: Annotated[Named, Path(alias="id")],
    holder: Holder,
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    of: Annotated[Owner | None, Query(description="Whose lease; for the owner and admins. Default: yours.")] = None,
) -> WorkspaceShape:
    """Release a lease. The owner of the workspace and admins may end those of others."""
    require(caller, "see" if of in {None, caller.owner} else "change", await dependencies.backend.get(id_))
    ended = await dependencies.backend.detach(id_, f"{of or caller.owner}/{holder}")
    return WorkspaceShape.of(ended, dependencies.now())


@router.get("/{id}/events", operation_id="listEvents", responses=PROBLEMS)
async def events(
    id_: Annotated[Named, Path(alias="id")], caller: CurrentCaller, dependencies: RequestDependencies
) -> EventList:
    """List the events of a workspace in the last hour, the latest first."""
    require(caller, "see", await dependencies.backend.get(id_))
    return EventList(items=[EventShape.of(event) for event in await dependencies.backend.events(id_)])
