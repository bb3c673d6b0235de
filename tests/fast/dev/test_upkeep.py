"""The loops over the workspaces of one machine do what those of every backend do, and record their usage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentenv.core.workspaces.workspace import Changes, Event, Workspace
from tests.fast.dev.simulated import LocalStage, local_stage, status
from tests.fast.service.loops.loops_contract import CONTRACT, OWNER, LoopSubject
from tests.fast.service.workspaces.backend_contract import Subject

SECONDS = 20.0


def on_stage(folder: Path, act: Callable[[LocalStage, Subject], Awaitable[None]]) -> None:
    async def run() -> None:
        async with local_stage(folder) as stage, asyncio.timeout(SECONDS):
            await act(stage, Subject(stage.backend, "standard", SECONDS))

    asyncio.run(run())


async def current(stage: LocalStage, id_: str) -> Workspace:
    workspace = await stage.backend.get(id_)
    assert workspace is not None
    return workspace


async def passes(stage: LocalStage, *names: str) -> None:
    """Run a pass of some loops."""
    loops = {loop.name: loop for loop in stage.upkeep.loops}
    for name in names:
        assert (await loops[name].run(lambda: True)).failures == ()


class LocalSubject(LoopSubject):
    """The workspaces of one machine, with simulated sandboxes."""

    def __init__(self, stage: LocalStage) -> None:
        self._stage, self.accounts, self.loops = stage, stage.accounts, stage.upkeep.loops
        self.backend = stage.upkeep.context.backend
        self._subject = Subject(stage.backend, "standard", SECONDS, owner=OWNER)

    async def create(self, name: str, **fields: Any) -> str:
        return (await self._subject.create(f"key/{name}", **fields)).id

    async def change(self, id_: str, **fields: Any) -> None:
        if "archive_ended" in fields:
            assert await self._stage.backend.end_session(OWNER, "chat-1") == 1
        else:
            await self._stage.backend.update(id_, Changes(**fields), wait=0)

    async def get(self, id_: str) -> Workspace | None:
        return await self._stage.backend.settled(id_, wait=SECONDS)

    async def delete(self, id_: str, keep_for: timedelta) -> None:
        await self._stage.backend.delete(id_, keep_for=keep_for)
        await self._subject.reach(id_, "deleted")

    async def suspend(self, id_: str) -> None:
        await self._stage.backend.suspend(id_, "asked")

    async def fail(self, id_: str) -> None:
        ended = {"terminated": {"exitCode": 137, "reason": "Error"}}
        self._stage.sandboxes.report(id_, status(ready=False, phase="Failed", **ended))

    async def events(self, id_: str) -> list[Event]:
        return [*await self._stage.backend.events(id_)]

    def pass_by(self, **interval: float) -> None:
        self._stage.clock.pass_by(**interval)

    def now(self) -> datetime:
        return self._stage.clock()

    async def settle(self) -> None:
        for workspace in self._stage.backend.existing_workspaces():
            await self._stage.backend.settled(workspace.id, wait=SECONDS)


@pytest.mark.parametrize("holds", CONTRACT, ids=lambda holds: holds.__name__)
def test_the_contract_of_loops(holds: Callable[[LoopSubject], Awaitable[None]], tmp_path: Path) -> None:
    async def run() -> None:
        async with local_stage(tmp_path, spent=True) as stage, asyncio.timeout(SECONDS):
            await holds(LocalSubject(stage))

    asyncio.run(run())


def test_work_inside_keeps_a_workspace_running(tmp_path: Path) -> None:
    async def act(stage: LocalStage, subject: Subject) -> None:
        created = await subject.create()
        stage.clock.pass_by(minutes=30)
        stage.quiet.seconds = 5.0
        await passes(stage, "idle")
        assert (await current(stage, created.id)).state == "running"

    on_stage(tmp_path, act)


def test_usage_costs_and_a_spent_budget_suspends_and_refuses(tmp_path: Path) -> None:
    async def act(stage: LocalStage, subject: Subject) -> None:
        created = await subject.create(budget=Decimal("0.01"))
        stage.clock.pass_by(hours=5)
        stage.quiet.seconds = 1.0
        await passes(stage, "ledger", "budgets")
        suspended = await current(stage, created.id)
        assert (suspended.state, suspended.suspended_because) == ("suspended", "budget")
        refusal = stage.budgets.refusal(suspended)
        assert refusal is not None
        assert refusal.kind == "budget-spent"
        now = stage.clock()
        rows = stage.ledger.of_owner(subject.owner, now - timedelta(days=2), now + timedelta(days=1))
        # The class requests a quarter of a core
        assert sum(row.cpu_seconds for row in rows) == Decimal(5 * 3600) / 4
        raised = await stage.backend.update(created.id, Changes(budget=Decimal(50)), wait=0)
        assert stage.budgets.refusal(raised.workspace) is None

    on_stage(tmp_path, act)


def test_usage_is_recorded_once_however_often(tmp_path: Path) -> None:
    async def act(stage: LocalStage, subject: Subject) -> None:
        created = await subject.create()
        for _ in range(3):
            stage.clock.pass_by(minutes=1)
            stage.upkeep.record()
        await stage.backend.suspend(created.id, "asked")
        stage.clock.pass_by(minutes=1)
        for _ in range(2):
            stage.upkeep.record()
        now = stage.clock()
        rows = stage.ledger.of_owner(subject.owner, now - timedelta(days=2), now + timedelta(days=1))
        assert sum(row.cpu_seconds for row in rows) == Decimal(180) / 4
        assert sum(row.seconds for row in rows) == Decimal(240)

    on_stage(tmp_path, act)
