"""The upkeep suspends idle workspaces, enforces budgets and deadlines, wakes, and destroys what is due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from agentenv.core.workspaces.workspace import Changes, Timeout, Workspace
from tests.fast.dev.simulated import LocalStage, local_stage
from tests.fast.service.workspaces.backend_contract import RETENTION, Subject

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


def test_idle_workspace_is_suspended_unless_it_has_activity(tmp_path: Path) -> None:
    async def act(stage: LocalStage, subject: Subject) -> None:
        created = await subject.create()
        stage.clock.pass_by(minutes=19)
        await stage.upkeep.once()
        assert (await current(stage, created.id)).state == "running"
        stage.clock.pass_by(minutes=10)
        stage.quiet.seconds = 5.0
        await stage.upkeep.once()
        assert (await current(stage, created.id)).state == "running"
        stage.quiet.seconds = 3600.0
        await stage.upkeep.once()
        suspended = await current(stage, created.id)
        assert (suspended.state, suspended.suspended_because) == ("suspended", "idle")

    on_stage(tmp_path, act)


def test_usage_costs_and_a_spent_budget_suspends_and_refuses(tmp_path: Path) -> None:
    async def act(stage: LocalStage, subject: Subject) -> None:
        created = await subject.create(budget=Decimal("0.01"))
        stage.clock.pass_by(hours=5)
        stage.quiet.seconds = 1.0
        await stage.upkeep.once()
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


def test_a_deadline_suspends_and_a_wake_time_resumes(tmp_path: Path) -> None:
    async def act(stage: LocalStage, subject: Subject) -> None:
        ended = await subject.create("key/ended", deadline=stage.clock() + timedelta(minutes=5))
        waking = await subject.create("key/waking")
        await stage.backend.update(waking.id, Changes(wake_at=stage.clock() + timedelta(minutes=8)), wait=0)
        await stage.backend.suspend(waking.id, "asked")
        stage.clock.pass_by(minutes=10)
        stage.quiet.seconds = 0.0
        await stage.upkeep.once()
        assert (await current(stage, ended.id)).suspended_because == "deadline"
        woken = await subject.reach(waking.id, "running")
        assert woken.wake_at is None

    on_stage(tmp_path, act)


def test_retained_data_is_destroyed_when_its_time_is_over(tmp_path: Path) -> None:
    async def act(stage: LocalStage, subject: Subject) -> None:
        created = await subject.create()
        await stage.backend.delete(created.id, keep_for=RETENTION)
        await subject.reach(created.id, "deleted")
        stage.clock.pass_by(hours=23)
        await stage.upkeep.once()
        assert not stage.sandboxes.destroyed
        stage.clock.pass_by(hours=2)
        await stage.upkeep.once()
        assert stage.sandboxes.destroyed == [created.id]
        assert await stage.backend.get(created.id) is None

    on_stage(tmp_path, act)


def test_a_timeout_ends_a_workspace_with_its_data(tmp_path: Path) -> None:
    async def act(stage: LocalStage, subject: Subject) -> None:
        end = stage.clock.now + timedelta(seconds=60)
        created = await subject.create(mode="session", archive="s", deadline=end, timeout=Timeout(60, "delete"))
        stage.clock.pass_by(seconds=59)
        await stage.upkeep.end_timed_out()
        assert (await current(stage, created.id)).state == "running"
        stage.clock.pass_by(seconds=1)
        await stage.upkeep.end_timed_out()
        assert await stage.backend.settled(created.id, wait=SECONDS) is None

    on_stage(tmp_path, act)


def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    async def act(stage: LocalStage, subject: Subject) -> None:
        parent = await subject.create()
        end = stage.clock.now + timedelta(seconds=600)
        child = await subject.create("b", parent=parent.id, deadline=end, timeout=Timeout(600, "delete"))
        await stage.upkeep.once()
        assert (await current(stage, child.id)).state == "running"
        await stage.backend.delete(parent.id, keep_for=RETENTION)
        await subject.reach(parent.id, "deleted")
        await stage.upkeep.once()
        assert (await subject.reach(child.id, "deleted")).destroy_after is not None

    on_stage(tmp_path, act)
