"""The usage of a swarm's workspaces is recorded before they are deleted, a few at a time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.catalog import Catalog
from agentenv.service.http.auth.callers import Caller, with_implied_roles
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.swarms import SETTLED_AT_ONCE, delete
from agentenv.service.workspaces.backend_protocol import SwarmStatus
from tests.fast.service.workspaces.stage import settings_of

MEMBER = Workspace("w-1", "u-1", "box", "agent", "running")
MEMBERS = tuple(replace(MEMBER, id=f"w-{number}") for number in range(10))
ANN = Caller("u-1", with_implied_roles("user"), "token")


class FakeSwarms:
    """One swarm, which records the order of calls."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.settling = self.most_settling = 0

    async def find(self, owner: str, task: str) -> SwarmStatus:
        assert (owner, task) == ("u-1", "build")
        return SwarmStatus(task, "box", len(MEMBERS), MEMBERS, "running")

    async def end(self, owner: str, task: str, *, destroy: bool) -> None:
        assert (owner, task, destroy) == ("u-1", "build", False)
        self.done.append("ended")

    async def settle(self, member: Workspace) -> None:
        self.settling += 1
        self.most_settling = max(self.most_settling, self.settling)
        await asyncio.sleep(0)
        self.settling -= 1
        self.done.append(member.id)


def delete_swarm(swarms: FakeSwarms, **more: Any) -> None:
    unchecked: Any = Dependencies
    catalog = Catalog(settings_of({"name": "box"}))
    dependencies = unchecked(None, catalog, None, None, None, swarms=swarms, **more)
    asyncio.run(delete("build", ANN, cast("Dependencies", dependencies)))


def test_usage_is_recorded_first_and_a_few_members_at_a_time() -> None:
    swarms = FakeSwarms()
    delete_swarm(swarms, settle=swarms.settle)
    assert sorted(swarms.done[:-1]) == sorted(member.id for member in MEMBERS)
    assert (swarms.done[-1], swarms.most_settling) == ("ended", SETTLED_AT_ONCE)


def test_without_a_ledger_a_swarm_is_deleted_at_once() -> None:
    swarms = FakeSwarms()
    delete_swarm(swarms)
    assert swarms.done == ["ended"]
