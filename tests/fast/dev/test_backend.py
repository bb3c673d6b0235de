"""The local backend does what every backend does, and keeps it over a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agentenv.core.workspaces.workspace import Changes, Workspace
from agentenv.dev.sandboxes import pod_of
from agentenv.dev.settings import default_settings
from agentenv.service.catalog import Catalog
from tests.fast.dev.simulated import LocalStage, local_stage, status
from tests.fast.service.workspaces.backend_contract import CONTRACT, RETENTION, Subject

SECONDS = 20.0


def on_stage(folder: Path, *acts: Callable[[LocalStage], Awaitable[None]]) -> None:
    """Run each function with a backend of its own over the same folder."""

    async def run() -> None:
        for act in acts:
            async with local_stage(folder) as stage, asyncio.timeout(SECONDS):
                await act(stage)

    asyncio.run(run())


@pytest.mark.parametrize("holds", CONTRACT, ids=lambda holds: holds.__name__)
def test_the_contract_of_backends(holds: Callable[[Subject], Awaitable[None]], tmp_path: Path) -> None:
    async def act(stage: LocalStage) -> None:
        await holds(Subject(stage.backend, "standard", SECONDS))

    on_stage(tmp_path, act)


def test_a_restart_finds_every_workspace_suspended_or_deleted(tmp_path: Path) -> None:
    ids: dict[str, str] = {}

    async def before(stage: LocalStage) -> None:
        subject = Subject(stage.backend, "standard", SECONDS)
        for name in ("running", "deleted", "deleting"):
            ids[name] = (await subject.create(f"key/{name}", labels={"name": name})).id
        await stage.backend.delete(ids["deleted"], keep_for=RETENTION)
        await subject.reach(ids["deleted"], "deleted")
        # As if it was killed before the sandbox had ended
        await stage.backend.delete(ids["deleting"], keep_for=RETENTION)

    async def after(stage: LocalStage) -> None:
        rows = {name: await stage.backend.get(id_) for name, id_ in ids.items()}
        states = {name: row.state for name, row in rows.items() if row is not None}
        assert states == {"running": "suspended", "deleted": "deleted", "deleting": "deleted"}
        running = await stage.backend.resume(ids["running"], wait=SECONDS)
        assert running.ready
        assert running.workspace.labels == {"name": "running"}
        reasons = [event.reason for event in await stage.backend.events(ids["running"])]
        assert reasons == ["Running", "Resumed", "Running", "Created"]

    on_stage(tmp_path, before, after)


def test_a_sandbox_that_cannot_start_or_ends_is_shown_with_its_reason(tmp_path: Path) -> None:
    async def act(stage: LocalStage) -> None:
        stage.sandboxes.ready = False
        subject = Subject(stage.backend, "standard", SECONDS)
        result = await stage.backend.create(subject.request(), wait=0)
        id_ = result.workspace.id
        assert (result.ready, result.workspace.state) == (False, "creating")
        waiting = {"reason": "CreateContainerError", "message": "no address is free"}
        stage.sandboxes.report(id_, status(ready=False, waiting=waiting))
        assert (await subject.reach(id_, "creating")).why == "no address is free"
        stage.sandboxes.report(id_, status(ready=False, phase="Failed", terminated={"exitCode": 3, "reason": "Error"}))
        failed = await subject.reach(id_, "failed")
        assert failed.why == "it ended with 3 (Error)"
        stage.sandboxes.ready = True
        assert (await stage.backend.resume(id_, wait=SECONDS)).ready

    on_stage(tmp_path, act)


def test_a_late_status_does_not_change_a_suspended_workspace(tmp_path: Path) -> None:
    async def act(stage: LocalStage) -> None:
        created = await Subject(stage.backend, "standard", SECONDS).create()
        report = stage.sandboxes.running[created.id][2]
        await stage.backend.suspend(created.id, "idle")
        report(created.id, status())
        current = await stage.backend.get(created.id)
        assert current is not None
        assert (current.state, current.addresses) == ("suspended", ())

    on_stage(tmp_path, act)


def test_a_start_must_be_warm_where_nothing_else_is_allowed(tmp_path: Path) -> None:
    async def act(stage: LocalStage) -> None:
        from tests.fast.service.workspaces.backend_contract import refused

        subject = Subject(stage.backend, "standard", SECONDS)
        await refused(stage.backend.create(subject.request(), wait=0, warm_only=True), "pool-empty")

    on_stage(tmp_path, act)


def test_a_size_is_that_of_the_sandbox_after_its_next_start(tmp_path: Path) -> None:
    async def act(stage: LocalStage) -> None:
        subject = Subject(stage.backend, "standard", SECONDS)
        created = await subject.create(size="medium")
        assert (created.size, created.current_size, created.size_pending) == ("medium", "medium", None)
        changed = (await stage.backend.update(created.id, Changes(size="large"), wait=0)).workspace
        assert (changed.size, changed.current_size) == ("large", "medium")
        assert changed.size_pending
        await stage.backend.suspend(created.id, "asked")
        resumed = (await stage.backend.resume(created.id, wait=SECONDS)).workspace
        assert (resumed.size, resumed.current_size, resumed.size_pending) == ("large", "large", None)
        removed = (await stage.backend.update(created.id, Changes(size=None), wait=0)).workspace
        assert (removed.size, removed.current_size) == ("small", "large")

    on_stage(tmp_path, act)


def test_the_pod_of_a_larger_size_has_its_resources() -> None:
    of_class = Catalog(default_settings()).get("standard")
    limits = {
        size: pod_of(Workspace("w-1", "u-1", "standard", "user", "creating", size=size), of_class, "uid")["spec"][
            "containers"
        ][0]["resources"]["limits"]["memory"]
        for size in ("small", "large")
    }
    assert limits == {"small": "4Gi", "large": "16Gi"}
