"""Shared operations of the routes of sandboxes: find, connect, set the end, describe."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import timedelta

from agentenv.client.connect_json import SandboxError
from agentenv.core.workspaces.workspace import UNSET, Changes, Filter, Timeout, Workspace
from agentenv.service.e2b.create import idle_after, refuse_long_life
from agentenv.service.e2b.sandboxes import (
    CLIENT_ID,
    ENVD_VERSION,
    Choice,
    Document,
    State,
    listed,
    state_of,
    template_of,
)
from agentenv.service.gateway.rights import may_use
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.auth.permissions import Action, require
from agentenv.service.http.create_request import check_budget_left, restore_check
from agentenv.service.http.dependencies import Dependencies, GatewayAddresses
from agentenv.service.http.problems import Problem

# The clients wait for 60 s; the gateway holds requests to a sandbox that is still starting.
WAIT = 45.0
_PAGE = 500


def gone(id_: str) -> Problem:
    return Problem("not-found", f"the sandbox {id_} was not found", "it was killed, or its timeout is over")


async def find_sandbox(dependencies: Dependencies, caller: Caller, action: Action, id_: str) -> tuple[Workspace, State]:
    """Return a sandbox and its state; one that is gone is not found, whoever asks."""
    workspace = require(caller, action, await dependencies.backend.get(id_))
    state = state_of(workspace, dependencies.now())
    if state is None:
        raise gone(id_)
    return workspace, state


async def find_running(dependencies: Dependencies, caller: Caller, action: Action, id_: str) -> Workspace:
    workspace, state = await find_sandbox(dependencies, caller, action, id_)
    if state != "running":
        raise Problem("not-found", f"the sandbox {id_} is paused and has no timeout", "connect to it to resume it")
    return workspace


async def connect_sandbox(dependencies: Dependencies, caller: Caller, workspace: Workspace, seconds: int) -> Workspace:
    """Return a sandbox that runs, or is about to, for so many seconds at least."""
    state = state_of(workspace, dependencies.now())
    if state is None:
        raise Problem("busy", f"{workspace.id} is being deleted", "repeat the request in a few seconds", retry_after=2)
    if state == "running":
        return await set_end(dependencies, workspace, seconds, earlier=False)
    check_budget_left(dependencies, workspace)
    if workspace.timeout is not None:
        # The end of its life before the pause says nothing about the one after it.
        await set_end(dependencies, workspace, seconds, earlier=True)
    result = await dependencies.backend.resume(
        workspace.id, wait=WAIT, before_restore=restore_check(dependencies, caller)
    )
    if result.workspace.state == "failed":
        raise Problem("wrong-state", f"the sandbox failed: {result.workspace.why}", "kill it, and create another one")
    return result.workspace


async def initialize(dependencies: Dependencies, workspace: Workspace, variables: Mapping[str, str]) -> None:
    """Set the variables of a new sandbox; raise a `SandboxError` where it failed, or does not accept them."""
    if workspace.state == "failed":
        raise SandboxError("unavailable", workspace.why or "its pod ended")
    if variables and dependencies.sandboxes is not None:
        await dependencies.sandboxes.initialize(workspace, variables)


async def set_end(dependencies: Dependencies, workspace: Workspace, seconds: int, *, earlier: bool) -> Workspace:
    """Set the end of a sandbox. A workspace that has none, as it was not created here, gets one that suspends it."""
    timeout, end = workspace.timeout, dependencies.now() + timedelta(seconds=seconds)
    if timeout is None and not earlier:
        return workspace
    if not earlier and workspace.deadline is not None and workspace.deadline >= end:
        return workspace
    of_class = dependencies.catalog.get(workspace.class_name)
    refuse_long_life(of_class, seconds)
    idle = idle_after(of_class, seconds)
    changes = Changes(
        deadline=end,
        timeout=UNSET if timeout is not None else Timeout(seconds, "suspend", wakes=True),
        idle_after=UNSET if idle is None or workspace.idle_after == idle else idle,
    )
    return (await dependencies.backend.update(workspace.id, changes, wait=0)).workspace


async def choose(dependencies: Dependencies, caller: Caller, choice: Choice) -> list[Workspace]:
    """Return the caller's own sandboxes that pass the filters."""
    now, catalog = dependencies.now(), dependencies.catalog
    return [
        workspace
        async for workspace in _own(dependencies, caller)
        if choice.accepts(
            workspace, state_of(workspace, now), template_of(workspace, catalog.classes.get(workspace.class_name))
        )
    ]


async def _own(dependencies: Dependencies, caller: Caller) -> AsyncIterator[Workspace]:
    after: str | None = None
    while True:
        found = await dependencies.backend.list(Filter(owner=caller.owner), limit=_PAGE, after=after)
        for workspace in found.workspaces:
            yield workspace
        after = found.after
        if after is None:
            return


def listed_documents(dependencies: Dependencies, workspaces: Iterable[Workspace]) -> list[Document]:
    now = dependencies.now()
    return [listed(each, state_of(each, now) or "running", dependencies.catalog) for each in workspaces]


def connection(dependencies: Dependencies, caller: Caller, workspace: Workspace) -> Document:
    """Return what a client needs to reach a sandbox."""
    template = template_of(workspace, dependencies.catalog.classes.get(workspace.class_name))
    return {
        "templateID": template,
        "alias": template,
        "sandboxID": workspace.id,
        "clientID": CLIENT_ID,
        "envdVersion": ENVD_VERSION,
        **tokens(dependencies, caller, workspace),
    }


def tokens(dependencies: Dependencies, caller: Caller, workspace: Workspace) -> Document:
    """Return the domain of a sandbox, and the tokens that admit to it where the caller may run programs in it."""
    addresses = dependencies.gateway or GatewayAddresses.of(dependencies.catalog.settings.service)
    document: Document = {"domain": addresses.domain if addresses is not None else None}
    if dependencies.access is not None and may_use(caller, workspace):
        document["envdAccessToken"] = dependencies.access.token(workspace, caller.owner, "api")
        document["trafficAccessToken"] = dependencies.access.token(workspace, caller.owner, "traffic")
    return document
