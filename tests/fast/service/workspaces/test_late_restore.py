"""A restore finds the user's files, also on a replica whose cache lags behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from agentenv.core.workspaces.workspace import CreateRequest, Workspace
from agentenv.service.http.problems import Problem
from agentenv.service.workspaces.backend import KubernetesBackend
from agentenv.service.workspaces.restore_requests import WorkspaceRestorer
from tests.fast.service.kube.apiserver import Object
from tests.fast.service.workspaces.stage import Stage, staged

REQUEST = CreateRequest("u-1", "user", "standard", "u-1")


class RestoreStartedError(Exception):
    """Somebody is brought back, on this volume."""


class RecordingRestorer(WorkspaceRestorer):
    """Says on which volume a return begins."""

    async def restore(self, volume: Object, workspace: Workspace) -> Workspace:
        raise RestoreStartedError(workspace.id, volume["metadata"]["name"])

    async def change_class(self, claim: Object, to: Any) -> Workspace:
        raise NotImplementedError


def on_stage(act: Callable[[Stage], Awaitable[None]]) -> None:
    async def play() -> None:
        async with staged({"name": "standard"}) as stage, asyncio.timeout(20):
            stage.slot("s1")
            stage.slot("s2")
            await act(stage)

    asyncio.run(play())


def another(stage: Stage) -> KubernetesBackend:
    """One more replica, that brings people back."""
    backend = KubernetesBackend(stage.kube, stage.catalog, stage.metrics)
    backend._restorer = RecordingRestorer(stage.kube)
    return backend


async def create_and_delete(stage: Stage) -> None:
    created = await stage.backend.create(REQUEST, wait=5)
    assert created.workspace.volume == "pvc-s1"
    assert (await stage.backend.delete(REQUEST.id, keep_for=timedelta(days=7))).state == "deleted"


async def heard(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


def volumes_of(stage: Stage) -> list[str]:
    """The volumes that are the workspace's."""
    return [
        name
        for (kind, _, name), object_ in stage.server.objects.items()
        if kind == "persistentvolumes"
        and (object_["metadata"].get("labels") or {}).get("sandbox.users.io/workspace") == REQUEST.id
    ]


@pytest.mark.parametrize("how", ["create", "resume"])
def test_a_replica_with_a_lagging_watch_finds_the_retained_volume(how: str) -> None:
    async def act(stage: Stage) -> None:
        replica = another(stage)
        [volumes] = [informer for informer in replica._informers if informer._kind.plural == "persistentvolumes"]
        keeping_up = asyncio.create_task(replica.run())
        await heard(replica.is_synced)
        volumes._put = lambda _: None
        created = await stage.backend.create(REQUEST, wait=5)
        await heard(lambda: replica.view.find(REQUEST.id) is not None)
        assert created.ready
        await stage.backend.delete(REQUEST.id, keep_for=timedelta(days=7))
        await heard(lambda: replica.view.find(REQUEST.id) is None)
        with pytest.raises(RestoreStartedError) as back:
            await (replica.create(REQUEST, wait=5) if how == "create" else replica.resume(REQUEST.id, wait=5))
        assert back.value.args == (REQUEST.id, "pvc-s1")
        assert volumes_of(stage) == ["pvc-s1"]
        keeping_up.cancel()
        await asyncio.gather(keeping_up, return_exceptions=True)

    on_stage(act)


@pytest.mark.parametrize("kind", ["persistentvolumes", "sandboxclaims"])
def test_a_replica_without_an_open_watch_reads_the_api_server(kind: str) -> None:
    async def act(stage: Stage) -> None:
        replica = another(stage)
        keeping_up = asyncio.create_task(replica.run())
        await heard(replica.is_synced)
        keeping_up.cancel()
        await asyncio.gather(keeping_up, return_exceptions=True)
        await create_and_delete(stage)
        for informer in replica._informers:
            informer.watching = informer._kind.plural != kind
        with pytest.raises(RestoreStartedError):
            await replica.create(REQUEST, wait=5)
        found = await replica.get(REQUEST.id)
        assert found is not None
        assert found.state == "deleted"

    on_stage(act)


def test_a_replica_that_is_not_synced_creates_nothing() -> None:
    async def act(stage: Stage) -> None:
        await create_and_delete(stage)
        with pytest.raises(Problem) as refused:
            await another(stage).create(REQUEST, wait=5)
        assert (refused.value.kind, refused.value.retry_after) == ("unavailable", 2)

    on_stage(act)


def test_new_and_existing_workspaces_need_no_list_of_volumes() -> None:
    async def act(stage: Stage) -> None:
        stage.backend._restorer = RecordingRestorer(stage.kube)
        await heard(lambda: all(informer.watching for informer in stage.backend._informers))
        stage.server.requests.clear()
        assert (await stage.backend.create(REQUEST, wait=5)).ready
        await heard(lambda: stage.backend.view.find(REQUEST.id) is not None)
        assert (await stage.backend.create(REQUEST, wait=5)).existed
        assert ("GET", "/api/v1/persistentvolumes") not in stage.server.requests

    on_stage(act)
