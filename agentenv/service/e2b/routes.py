"""The routes of sandboxes: create, list, read, pause, connect, resume, kill, and their timeouts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Response

from agentenv.client.connect_json import SandboxError
from agentenv.core.workspaces.workspace import Changes, Timeout
from agentenv.service.e2b.bodies import Connect, ListQuery, NewSandbox, NewTimeout, Pause, Refresh, Resume, requested
from agentenv.service.e2b.create import sandbox_request, templates_by_mode
from agentenv.service.e2b.not_offered import refuse_memory
from agentenv.service.e2b.operations import (
    WAIT,
    choose,
    connect_sandbox,
    connection,
    find_running,
    find_sandbox,
    gone,
    initialize,
    listed_documents,
    set_end,
    tokens,
)
from agentenv.service.e2b.sandboxes import Choice, Document, detail, metadata_filter, page
from agentenv.service.http.auth.permissions import require
from agentenv.service.http.create_request import create_workspace
from agentenv.service.http.dependencies import AuthenticatedRoute, CurrentCaller, RequestDependencies, scope
from agentenv.service.http.problems import Problem
from agentenv.service.http.values import ID

router = APIRouter(route_class=AuthenticatedRoute)

Named = Annotated[str, Path(pattern=ID)]
Client = Annotated[str, Header()]
NO_CONTENT = 204


@router.post("/sandboxes", status_code=201, openapi_extra=scope("create"))
@router.post("/v2/sandboxes", status_code=201, openapi_extra=scope("create"))
async def create(
    body: NewSandbox,
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    idempotency_key: Annotated[str | None, Header()] = None,
    user_agent: Client = "",
) -> Document:
    """Create a sandbox, or return the one that its key names."""
    request = await sandbox_request(dependencies, caller, requested(body, user_agent), idempotency_key)
    result = await create_workspace(dependencies, caller, request, wait=WAIT)
    workspace = result.workspace
    if result.existed:
        workspace = await connect_sandbox(dependencies, caller, workspace, body.timeout)
    try:
        await initialize(dependencies, workspace, body.variables or {})
    except SandboxError as failure:
        if not result.existed:
            # Its caller does not learn its id.
            await dependencies.backend.delete(workspace.id, keep_for=timedelta(0))
        detail_ = f"the sandbox failed to start: {failure}"
        raise Problem("unavailable", detail_, "repeat the request", retry_after=2) from failure
    return connection(dependencies, caller, workspace)


@router.get("/sandboxes")
async def list_running(
    caller: CurrentCaller, dependencies: RequestDependencies, metadata: Annotated[str | None, Query()] = None
) -> list[Document]:
    """List the caller's running sandboxes, without pages."""
    choice = Choice(metadata_filter(metadata), frozenset({"running"}), None, None)
    chosen, _ = page(await choose(dependencies, caller, choice), "desc", 10_000, None)
    return listed_documents(dependencies, chosen)


@router.get("/v2/sandboxes")
async def list_(
    query: Annotated[ListQuery, Query()], caller: CurrentCaller, dependencies: RequestDependencies, response: Response
) -> list[Document]:
    """List a page of the caller's sandboxes, by default the latest first."""
    named = templates_by_mode(dependencies.catalog, caller, query.template) if query.template is not None else None
    found = await choose(dependencies, caller, Choice.of(query, named))
    chosen, token = page(found, query.order, query.limit, query.next_token)
    if token is not None:
        response.headers["X-Next-Token"] = token
    return listed_documents(dependencies, chosen)


@router.get("/sandboxes/{id}")
async def get(
    id_: Annotated[Named, Path(alias="id")], caller: CurrentCaller, dependencies: RequestDependencies
) -> Document:
    """Return a sandbox."""
    workspace, state = await find_sandbox(dependencies, caller, "see", id_)
    return {**detail(workspace, state, dependencies.catalog), **tokens(dependencies, caller, workspace)}


@router.delete("/sandboxes/{id}", status_code=NO_CONTENT, openapi_extra=scope("create"))
async def kill(
    id_: Annotated[Named, Path(alias="id")], caller: CurrentCaller, dependencies: RequestDependencies
) -> Response:
    """Kill a sandbox: it is deleted, and its files are destroyed at once."""
    workspace = require(caller, "destroy", await dependencies.backend.get(id_))
    if workspace.state in {"deleting", "deleted"}:
        raise gone(id_)
    if workspace.timeout is None and not caller.has_scope("admin"):
        detail_ = f"{id_} was not created by the sandbox API, and the API key lacks the scope 'admin'"
        raise Problem("not-allowed", detail_, "create a key with that scope, or delete it with DELETE /v1/workspaces")
    if dependencies.settle is not None:
        await dependencies.settle(workspace)
    await dependencies.backend.delete(id_, keep_for=timedelta(0))
    return Response(status_code=NO_CONTENT)


@router.post("/sandboxes/{id}/pause", status_code=NO_CONTENT, openapi_extra=scope("use"))
async def pause(
    id_: Annotated[Named, Path(alias="id")],
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    body: Pause | None = None,
    user_agent: Client = "",
) -> Response:
    """Pause a sandbox: its processes end, its files are kept until it is killed."""
    refuse_memory(requested(body or Pause(), user_agent).memory)
    workspace, state = await find_sandbox(dependencies, caller, "sleep", id_)
    if state == "paused":
        raise Problem("wrong-state", f"the sandbox {id_} is paused already", "connect to it to resume it")
    if workspace.state == "creating":
        await dependencies.backend.settled(id_, wait=WAIT)
    await dependencies.backend.suspend(id_, "asked")
    return Response(status_code=NO_CONTENT)


@router.post("/sandboxes/{id}/connect", openapi_extra=scope("wake"))
@router.post("/v2/sandboxes/{id}/connect", openapi_extra=scope("wake"))
async def connect(
    id_: Annotated[Named, Path(alias="id")],
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    response: Response,
    body: Connect | None = None,
    *,
    user_agent: Client = "",
) -> Document:
    """Connect to a sandbox: a paused one is resumed, and the end of a running one is moved, but never ahead."""
    workspace, state = await find_sandbox(dependencies, caller, "wake", id_)
    refuse_memory(requested(body or Connect(), user_agent).memory)
    response.status_code = 200 if state == "running" else 201
    workspace = await connect_sandbox(dependencies, caller, workspace, (body or Connect()).timeout)
    return connection(dependencies, caller, workspace)


@router.post("/sandboxes/{id}/resume", status_code=201, openapi_extra=scope("wake"))
async def resume(
    id_: Annotated[Named, Path(alias="id")],
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    body: Resume | None = None,
    user_agent: Client = "",
) -> Document:
    """Resume a paused sandbox."""
    body = requested(body or Resume(), user_agent)
    workspace, state = await find_sandbox(dependencies, caller, "wake", id_)
    refuse_memory(body.memory)
    if state == "running":
        raise Problem("wrong-state", f"the sandbox {id_} is running already", "connect to it")
    if body.auto_pause is not None:
        then = "suspend" if body.auto_pause else "delete"
        current = workspace.timeout or Timeout(body.timeout, then)
        changes = Changes(timeout=replace(current, then=then, wakes=current.wakes and body.auto_pause))
        require(caller, "change", workspace)
        workspace = (await dependencies.backend.update(id_, changes, wait=0)).workspace
    return connection(dependencies, caller, await connect_sandbox(dependencies, caller, workspace, body.timeout))


@router.post("/sandboxes/{id}/timeout", status_code=NO_CONTENT, openapi_extra=scope("use"))
async def set_timeout(
    id_: Annotated[Named, Path(alias="id")], body: NewTimeout, caller: CurrentCaller, dependencies: RequestDependencies
) -> Response:
    """Set the end of a running sandbox, from now: later or earlier than before."""
    workspace = await find_running(dependencies, caller, "change", id_)
    await set_end(dependencies, workspace, body.timeout, earlier=True)
    return Response(status_code=NO_CONTENT)


@router.post("/sandboxes/{id}/refreshes", status_code=NO_CONTENT, openapi_extra=scope("use"))
async def refresh(
    id_: Annotated[Named, Path(alias="id")],
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    body: Refresh | None = None,
) -> Response:
    """Keep a running sandbox for so many seconds more, at least."""
    workspace = await find_running(dependencies, caller, "change", id_)
    await set_end(dependencies, workspace, (body or Refresh()).duration, earlier=False)
    return Response(status_code=NO_CONTENT)
