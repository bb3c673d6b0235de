"""The backend skips unreadable objects, reports a stale cache, and ends when a watch ends."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx2
import pytest

from agentenv.core.workspaces.workspace import Filter
from agentenv.service.http.problems import Problem
from agentenv.service.kube import view
from agentenv.service.kube.client import KubeApiError
from agentenv.service.kube.informer import STALE_AFTER, Informer
from agentenv.service.workspaces.backend import running_backend
from tests.fast.service.http.application import ApiClient, run_with_api
from tests.fast.service.kube.test_view import claim
from tests.fast.service.workspaces.stage import Stage, on_stage

SECONDS = 20.0


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the reader of claims fail at one of them, as a defect in it would."""
    read = view.workspace_of_claim

    def of_claim(document: Any) -> Any:
        if document["metadata"]["name"] == "w-odd":
            raise AttributeError("content of the object")
        return read(document)

    monkeypatch.setattr(view, "workspace_of_claim", of_claim)


@pytest.mark.usefixtures("odd")
def test_an_unreadable_object_is_omitted_and_the_replica_stays_ready() -> None:
    async def act(api: ApiClient) -> None:
        stage = api.stage
        stage.server.put("sandboxclaims", claim("w-odd"))
        stage.server.put("sandboxclaims", claim("w-sound"))
        await stage.wait_until(lambda view: view.find("w-sound"))
        listed = await stage.backend.list(Filter(), limit=10)
        assert [workspace.id for workspace in listed.workspaces] == ["w-sound"]
        assert stage.backend.unreadable()["SandboxClaim"] == 1
        assert (await api.client.get("/readyz")).status_code == 200

    run_with_api(act)


@pytest.mark.usefixtures("odd")
def test_an_object_that_became_unreadable_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(stage: Stage) -> None:
        stage.backend.view.put_claim(claim("w-1"))
        assert stage.backend.view.find("w-1")
        (claims, *_) = stage.backend._informers
        claims._known.add(("sandbox-standard", "w-1"))
        claims._put = lambda _: (_ for _ in ()).throw(TypeError("content"))
        stage.server.put("sandboxclaims", claim("w-1"))
        await stage.wait_until(lambda view: view.find("w-1") is None)
        # Somebody who asks for it again is not taken for new.
        assert stage.backend.view.recently_known("w-1")

    on_stage(act)


def test_an_unreadable_volume_may_belong_to_any_workspace() -> None:
    async def act(stage: Stage) -> None:
        assert stage.backend._watches_complete()
        stage.backend._volumes.unreadable.add(("", "pvc-1"))
        assert not stage.backend._watches_complete()
        assert stage.backend.existing_workspaces() == [], "loops still look where they are told"

    on_stage(act)


def test_a_replica_with_a_stale_cache_is_not_ready() -> None:
    async def act(api: ApiClient) -> None:
        informer: Informer = api.stage.backend._informers[-1]
        assert (await api.client.get("/readyz")).status_code == 200
        heard = informer._last_event
        informer._clock = lambda: heard + STALE_AFTER + 1
        assert (await api.client.get("/readyz")).status_code == 503
        with pytest.raises(Problem, match="not synced"):
            await api.stage.backend.list(Filter(), limit=10)
        informer._clock = lambda: heard
        assert (await api.client.get("/readyz")).status_code == 200

    run_with_api(act)


@pytest.mark.parametrize("broken", [True, False])
def test_a_watch_that_ends_is_logged_and_ends_the_backend(caplog: pytest.LogCaptureFixture, *, broken: bool) -> None:
    async def act(stage: Stage) -> None:
        ended = asyncio.Event()
        backend = stage.backend
        release = asyncio.Event()

        async def one_ends() -> None:
            await release.wait()
            if broken:
                raise RuntimeError("a defect of the informer itself")

        backend._informers[2].run = one_ends  # type: ignore[method-assign]
        async with running_backend(backend, ended.set):
            await asyncio.sleep(0)
            assert not ended.is_set()
            release.set()
            await ended.wait()
        assert len([task for task in asyncio.all_tasks() if "Informer.run" in repr(task)]) == 7, "only the stage's own"

    on_stage(act)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.__dict__["facts"] == {"kind": "Sandbox"}


def test_a_stopped_backend_does_not_log_that_its_watches_ended(caplog: pytest.LogCaptureFixture) -> None:
    async def act(stage: Stage) -> None:
        ended = list[bool]()
        async with running_backend(stage.backend, lambda: ended.append(True)):
            await asyncio.sleep(0)
        assert not ended

    on_stage(act)
    assert not [record for record in caplog.records if record.levelno == logging.ERROR]


@pytest.mark.parametrize("body", [b"[" * 5000, b"not json", b"[]", b"\xff"])
def test_an_unreadable_response_is_a_problem(body: bytes) -> None:
    async def act(stage: Stage) -> None:
        async def answer(_: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(200, content=body)

        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer), base_url="http://kubernetes") as client:
            stage.kube._client = client
            with pytest.raises(KubeApiError, match="cannot be read"):
                await stage.kube.request("GET", "/api/v1/persistentvolumes/x")

    on_stage(act)
