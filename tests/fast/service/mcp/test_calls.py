"""Calls of tools: into which sandboxes a caller may come, and by which session."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.gateway.access_cache import AccessCache
from agentenv.service.gateway.keys import ApiKeys
from agentenv.service.gateway.rights import Visitor
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.problems import Problem
from agentenv.service.mcp.calls import Call
from tests.fast.service.gateway.stored import MemoryStore

NOW = datetime(2026, 11, 19, 10, tzinfo=UTC)
ANN, ADMIN = Caller("u-ann", frozenset({"user"}), "token"), Caller("u-admin", frozenset({"admin", "operator"}), "token")
# The characters of a session that workspaced accepts.
SESSION = re.compile(r"[A-Za-z0-9._~-]{1,128}")


@dataclass
class Environment:
    """One running workspace, and the sessions by which it was entered."""

    workspace: Workspace
    sessions: list[str] = field(default_factory=list[str])
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

    async def sandbox(self, workspace: Workspace, session: str = "") -> Environment:  # noqa: ARG002 - the only one
        self.sessions.append(session)
        return self


def visited(caller: Caller, workspace: Workspace) -> Environment:
    """Return a workspace into which a caller came."""
    environment = Environment(workspace)
    call = Call(caller, cast("Any", environment), "192.0.2.7")
    asyncio.run(call.sandbox(workspace.id, opened="processes"))
    return environment


def entered(caller: Caller, workspace: Workspace) -> list[str]:
    """Return the sessions by which a caller came into a workspace."""
    return visited(caller, workspace).sessions


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


def test_the_session_of_a_key_is_one_that_workspaced_accepts() -> None:
    async def key_of_ann() -> Caller:
        access = AccessCache(MemoryStore(), now=lambda: NOW)
        await access.poll()
        keys = ApiKeys(access, lambda: NOW)
        _, secret = await keys.create(ANN, "test", ("use",), timedelta(days=1), ("standard",))
        await access.poll()
        return keys.caller(secret)

    (session,) = entered(asyncio.run(key_of_ann()), OWN)
    assert SESSION.fullmatch(session)
