"""Calls of tools: into which sandboxes a caller may come, and by which session."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.gateway.access_cache import AccessCache
from agentenv.service.gateway.keys import ApiKeys
from agentenv.service.gateway.rights import Visitor
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.dependencies import SignEntry
from agentenv.service.http.problems import Problem
from agentenv.service.mcp.calls import Call
from agentenv.service.workspaces.backend_protocol import Endpoint
from tests.fast.service.gateway.stored import MemoryStore

NOW = datetime(2026, 11, 19, 10, tzinfo=UTC)
ANN, ADMIN = Caller("u-ann", frozenset({"user"}), "token"), Caller("u-admin", frozenset({"admin", "operator"}), "token")


@dataclass
class Environment:
    """One running workspace, and the tokens by which it was entered."""

    workspace: Workspace
    tokens: list[str] = field(default_factory=list[str])
    entries: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])

    @property
    def backend(self) -> Environment:
        return self

    @property
    def sandboxes(self) -> Environment:
        return self

    def now(self) -> datetime:
        return NOW

    async def get(self, id_: str) -> Workspace | None:
        return self.workspace if id_ == self.workspace.id else None

    def note_entry(self, workspace: Workspace, visitor: Visitor, opened: str, source: str) -> None:
        assert visitor.caller is not None
        self.entries.append((workspace.id, visitor.caller.owner, opened, source))

    async def admit(self, workspace: Workspace, caller: Caller, endpoint: Endpoint) -> str:
        return f"{workspace.id}/{caller.session or caller.owner}/{endpoint.pod_uid}"

    async def sandbox(self, workspace: Workspace, sign: SignEntry) -> Environment:  # noqa: ARG002 - the only one
        self.tokens.append(await sign(Endpoint("pod", "claim", "10.0.0.7", 49983)))
        return self


def visited(caller: Caller, workspace: Workspace) -> Environment:
    """Return a workspace into which a caller came."""
    environment = Environment(workspace)
    call = Call(caller, cast("Any", environment), "192.0.2.7")
    asyncio.run(call.sandbox(workspace.id, opened="processes"))
    return environment


def entered(caller: Caller, workspace: Workspace) -> list[str]:
    """Return the tokens by which a caller came into a workspace."""
    return visited(caller, workspace).tokens


OWN = Workspace(id="w-1", owner="u-ann", class_name="standard", mode="user", state="running")


def test_administrators_cannot_enter_sandboxes_of_others() -> None:
    with pytest.raises(Problem, match="break-glass"):
        entered(ADMIN, OWN)
    assert entered(ANN, OWN)
    assert entered(ADMIN, replace(OWN, owner=ADMIN.owner))
    assert entered(ADMIN, replace(OWN, shared={ADMIN.owner: "rw"}))


def test_an_entry_is_recorded_with_who_and_from_where() -> None:
    assert visited(ANN, OWN).entries == [("w-1", "u-ann", "processes", "192.0.2.7")]
    shared = replace(OWN, shared={ADMIN.owner: "rw"})
    assert visited(ADMIN, shared).entries == [("w-1", "u-admin", "processes", "192.0.2.7")]


def test_a_caller_enters_in_a_session_that_the_gateway_ends() -> None:
    async def key_of_ann() -> Caller:
        access = AccessCache(MemoryStore(), now=lambda: NOW)
        await access.poll()
        keys = ApiKeys(access, lambda: NOW)
        _, secret = await keys.create(ANN, "test", ("use",), timedelta(days=1), ("standard",))
        await access.poll()
        return keys.caller(secret)

    caller = asyncio.run(key_of_ann())
    assert entered(caller, OWN) == [f"w-1/{caller.session}/pod"]
    assert entered(ANN, OWN) == ["w-1/u-ann/pod"]
