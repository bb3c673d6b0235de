"""The swarms of one machine do what those of every backend do, keep it over a restart, and share a folder."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
import pytest

from agentenv.core.classes.names import SHARED_PATH
from agentenv.core.workspaces.workspace import Workspace
from agentenv.dev.sandboxes import pod_of
from agentenv.dev.settings import default_settings
from agentenv.service.catalog import Catalog
from tests.fast.dev.served import serving
from tests.fast.dev.simulated import LocalStage, local_stage, status
from tests.fast.service.workspaces.backend_contract import refused
from tests.fast.service.workspaces.swarms_contract import (
    CONTRACT,
    FAILURES,
    LIFECYCLE,
    SwarmSubject,
    a_swarm_that_is_not_restored_stays_deleted,
)

SECONDS = 20.0
Act = Callable[[LocalStage, SwarmSubject], Awaitable[None]]


def on_stage(folder: Path, *acts: Act) -> None:
    """Run each function with a backend of its own over the same folder."""

    async def run() -> None:
        for act in acts:
            async with local_stage(folder) as stage, asyncio.timeout(SECONDS):
                await act(stage, subject_of(stage))

    asyncio.run(run())


def subject_of(stage: LocalStage) -> SwarmSubject:
    def set_ready(ready: bool) -> None:
        stage.sandboxes.ready = ready
        for id_ in stage.sandboxes.running if ready else ():
            stage.sandboxes.report(id_, status())

    return SwarmSubject(
        stage.backend,
        "standard",
        SECONDS,
        "u-1",
        swarms=stage.swarms,
        other_class="base",
        set_ready=set_ready,
    )


@pytest.mark.parametrize("holds", [*CONTRACT, *LIFECYCLE], ids=lambda holds: holds.__name__)
def test_the_contract_of_swarms(holds: Callable[[SwarmSubject], Awaitable[None]], tmp_path: Path) -> None:
    on_stage(tmp_path, lambda _, subject: holds(subject))


@pytest.mark.parametrize(
    "holds", [*FAILURES, a_swarm_that_is_not_restored_stays_deleted], ids=lambda holds: holds.__name__
)
def test_the_contract_of_swarms_that_do_not_become_ready(
    holds: Callable[[SwarmSubject], Awaitable[None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentenv.dev.swarms.CREATE_TIMEOUT", 0.2)
    on_stage(tmp_path, lambda _, subject: holds(subject))


def test_a_restart_finds_swarms_as_they_were(tmp_path: Path) -> None:
    async def before(stage: LocalStage, subject: SwarmSubject) -> None:
        await subject.swarm("running")
        await subject.swarm("deleted")
        await stage.swarms.end(subject.owner, "deleted")
        stage.sandboxes.ready = False
        # As if it was killed before its members were ready
        await subject.request_swarm("creating")
        while len((await stage.swarms.find(subject.owner, "creating")).members) < 2:
            await asyncio.sleep(0)

    async def after(stage: LocalStage, subject: SwarmSubject) -> None:
        running, creating = [await stage.swarms.find(subject.owner, task) for task in ("running", "creating")]
        assert [(row.state, row.count, len(row.members)) for row in (running, creating)] == [("creating", 2, 2)] * 2
        assert "is suspended" in (running.why or "")
        await refused(stage.swarms.find(subject.owner, "deleted"), "not-found")
        assert (await subject.swarm("deleted")).state == "running"
        assert (await subject.swarm("creating")).count == 2

    on_stage(tmp_path, before, after)


def test_the_shared_folder_is_destroyed_with_the_retention_of_its_swarm(tmp_path: Path) -> None:
    async def act(stage: LocalStage, subject: SwarmSubject) -> None:
        await subject.swarm()
        loops = {loop.name: loop for loop in stage.upkeep.loops}
        names = {f"shared-{subject.names(1)[0].removesuffix('-0')}", *subject.names(2)}

        async def destroyed(loop: str = "retention") -> set[str]:
            assert (await loops[loop].run(lambda: True)).failures == ()
            return set(stage.sandboxes.destroyed)

        await stage.swarms.end(subject.owner, "crawl")
        for name in subject.names(2):
            await subject.reach(name, "deleted")
        assert await destroyed() == set()
        stage.clock.pass_by(days=stage.catalog.settings.storage.retain_deleted_for.days + 1)
        assert await destroyed() == names
        stage.sandboxes.destroyed.clear()
        await subject.swarm()
        await stage.swarms.end(subject.owner, "crawl", destroy=True)
        async with asyncio.timeout(SECONDS):
            while await destroyed("destroying") != names:
                await asyncio.sleep(0)
        assert (await subject.swarm()).state == "running"

    on_stage(tmp_path, act)


def test_only_the_pods_of_a_swarm_mount_its_shared_folder() -> None:
    catalog = Catalog(default_settings())

    def claims(task: str | None) -> list[str]:
        workspace = Workspace("w-1", "u-1", "standard", "agent", "creating", task=task)
        spec = pod_of(workspace, catalog.get("standard"), "uid")["spec"]
        (container,) = [row for row in spec["containers"] if row["name"] == "sandbox"]
        mounted = {row["name"] for row in container["volumeMounts"] if row["mountPath"] == SHARED_PATH}
        return [row["persistentVolumeClaim"]["claimName"] for row in spec["volumes"] if row["name"] in mounted]

    assert (claims("t-1"), claims(None)) == (["shared-t-1"], [])


def test_a_swarm_is_created_and_deleted_over_http(tmp_path: Path) -> None:
    with serving(tmp_path) as served, httpx2.Client(base_url=served.address, trust_env=False) as client:
        headers = {"Authorization": f"Bearer {served.key}"}
        body = {"class": "standard", "task": "t-1", "count": 2}
        created = client.post("/v1/swarms", json=body, headers=headers)
        assert (created.status_code, created.json()["ready"]) == (201, 2), created.text
        (listed,) = client.get("/v1/swarms", headers=headers).json()["items"]
        assert listed == created.json()
        assert client.delete("/v1/swarms/t-1?destroy=true", headers=headers).status_code == 202
