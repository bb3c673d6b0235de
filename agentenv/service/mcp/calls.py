"""Shared parts of the tools: the caller, the named workspace, and failures as texts for a model."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeVar

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from agentenv.client.connect_json import SandboxError
from agentenv.client.sandbox import AsyncSandbox
from agentenv.core.gateway.api_keys import Scope
from agentenv.core.lifecycle.deadline import timeout_is_over
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.approvals.approvals import Question, may_need_approval, needs_approval
from agentenv.service.gateway.rights import Visitor, is_foreign
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.auth.permissions import Action, require
from agentenv.service.http.create_request import check_budget_left, restore_check
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.problems import Problem, not_found
from agentenv.service.http.responses import problem_of_refusal
from agentenv.service.kube.client import KubeApiError

P = ParamSpec("P")
T = TypeVar("T")
WAIT = 45.0
# A call answers within the idle timeouts of load balancers and clients.
LONGEST_SECONDS = 240
_TIMES = {"timeout", "wait"}
Opened = Literal["processes", "files"]
# The type of the server's context; its lifespan and request types are not used.
CallContext = Context[Any, Any]


@dataclass(frozen=True)
class Call:
    """A call of a tool: who calls, and with what it is served."""

    caller: Caller
    dependencies: Dependencies
    source: str = ""  # the address of the client

    @classmethod
    def of(cls, context: CallContext) -> Call:
        """Return the call of a context; the route has authenticated its caller."""
        request = context.request_context.request
        if request is None:
            raise AssertionError("streamable HTTP has a request for each call")
        state = request.state
        return cls(state.caller, state.dependencies, state.source)

    def require_scope(self, scope: Scope) -> None:
        """Raise a `Problem` where the caller's API key lacks a scope."""
        if not self.caller.has_scope(scope):
            detail = f"the API key lacks the scope {scope!r}"
            raise Problem("not-allowed", detail, "create a key with that scope")

    async def workspace(self, id_: str, action: Action, scope: Scope) -> Workspace:
        """Return a workspace with which the caller may do something."""
        self.require_scope(scope)
        workspace = require(self.caller, action, await self.dependencies.backend.get(id_))
        if timeout_is_over(workspace, self.dependencies.now()):
            raise not_found("workspace")
        return workspace

    async def approved(self, tool: str, arguments: Mapping[str, Any]) -> float:
        """Wait for a person's approval where a call needs one; return the seconds that it was held."""
        id_ = arguments.get("workspace") or arguments.get("parent")
        approvals, settings = self.dependencies.approvals, self.dependencies.catalog.settings
        if not isinstance(id_, str) or not may_need_approval(settings, tool):
            return 0.0
        workspace = await self.workspace(id_, "write", "use")
        if not needs_approval(settings, tool, workspace.class_name):
            return 0.0
        if approvals is None:
            raise Problem("unavailable", f"{tool} needs an approval, and nobody can be asked", "ask the platform team")
        began = time.monotonic()
        await approvals.require(workspace, Question(tool, _text(arguments), self.caller))
        return time.monotonic() - began

    async def sandbox(self, id_: str, action: Action = "write", *, opened: Opened) -> AsyncSandbox:
        """Return a client of a workspace that runs; one that is suspended is resumed first. The entry is recorded."""
        workspace = await self.workspace(id_, action, "use")
        if is_foreign(self.caller, workspace):
            detail = f"{id_} is not yours, and is not shared with you"
            raise Problem(
                "not-allowed", detail, "enter it by break-glass through the gateway, of which its owner is told"
            )
        if workspace.state != "running" or workspace.suspended_because is not None:
            workspace = await self.resumed(workspace)
        if self.dependencies.sandboxes is None:
            raise Problem("unavailable", "this environment has no workspaced", "ask the platform team to enable it")
        admit = self.dependencies.admit
        sign = functools.partial(admit, workspace, self.caller) if admit is not None else None
        sandbox = await self.dependencies.sandboxes.sandbox(workspace, sign)
        if self.dependencies.note_entry is not None:
            visitor = Visitor(f"owner:{self.caller.owner}", "caller", self.caller)
            self.dependencies.note_entry(workspace, visitor, opened, self.source)
        return sandbox

    async def resumed(self, workspace: Workspace) -> Workspace:
        """Resume a workspace, and return it once it runs."""
        self.require_scope("wake")
        require(self.caller, "wake", workspace)
        check_budget_left(self.dependencies, workspace)
        check = restore_check(self.dependencies, self.caller)
        result = await self.dependencies.backend.resume(workspace.id, wait=WAIT, before_restore=check)
        if not result.ready:
            why = f": {result.workspace.why}" if result.workspace.why else ""
            detail = f"{workspace.id} is {result.workspace.state}{why}"
            raise Problem("wrong-state", detail, "call the tool again in a few seconds")
        return result.workspace


def _text(arguments: Mapping[str, Any]) -> str:
    """Return what a call is about to do, as a person reads it."""
    rows = {name: value for name, value in arguments.items() if name not in {"context", "workspace", "parent"}}
    return "\n".join(f"{name}: {value}" for name, value in rows.items() if value is not None)


def tool(act: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Return a tool whose expected failures are texts that say what to do; others are logged, and not shown."""

    signature = inspect.signature(act)

    @functools.wraps(act)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            bound = signature.bind(*args, **kwargs)
            held = await Call.of(bound.arguments["context"]).approved(act.__name__, bound.arguments)
            for name in _TIMES & bound.signature.parameters.keys() if held else ():
                # A call takes no longer for having been held.
                bound.apply_defaults()
                kwargs[name] = min(bound.arguments[name], max(0.0, LONGEST_SECONDS - held))
            return await act(*args, **kwargs)
        except Problem as problem:
            raise ToolError(str(problem)) from problem
        except KubeApiError as refusal:
            raise ToolError(str(problem_of_refusal(refusal))) from refusal
        except SandboxError as failure:
            raise ToolError(f"{failure.code}: {failure.message}") from failure

    return call
