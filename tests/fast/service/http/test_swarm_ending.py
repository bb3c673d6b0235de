"""What a swarm's workspaces used is written down before they go, and without keeping everybody else waiting."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.catalog import Catalog
from agentenv.service.http.auth.callers import Caller, with_implied_roles
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.swarm_tasks import SwarmStatus
from agentenv.service.http.swarms import SETTLED_AT_ONCE, delete
from tests.fast.service.workspaces.stage import settings_of

ONE = Workspace("w-1", "u-1", "box", "agent", "running")
MEMBERS = tuple(replace(ONE, id=f"w-{number}") for number in range(10))
ANN = Caller("u-1", with_implied_roles("user"), "token")


class Swarms:
    """One swarm, and what is done about it in which order."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.under_way = self.most = 0

    async def find(self, owner: str, task: str) -> SwarmStatus:
        assert (owner, task) == ("u-1", "build")
        return SwarmStatus(task, "box", len(MEMBERS), MEMBERS, "running")

    async def end(self, owner: str, task: str, *, destroy: bool) -> None:
        assert (owner, task, destroy) == ("u-1", "build", False)
        self.done.append("ended")

    async def settle(self, member: Workspace) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        self.done.append(member.id)


def ended(swarms: Swarms, **said: Any) -> None:
    made: Any = Dependencies
    catalog = Catalog(settings_of({"name": "box"}))
    parts = made(None, catalog, None, None, None, swarm_tasks=swarms, **said)
    asyncio.run(delete("build", ANN, cast("Dependencies", parts)))


def test_all_of_it_is_written_down_first_and_a_few_at_a_time() -> None:
    swarms = Swarms()
    ended(swarms, settle=swarms.settle)
    assert sorted(swarms.done[:-1]) == sorted(one.id for one in MEMBERS)
    assert (swarms.done[-1], swarms.most) == ("ended", SETTLED_AT_ONCE)


def test_without_a_ledger_it_just_goes() -> None:
    swarms = Swarms()
    ended(swarms)
    assert swarms.done == ["ended"]
