"""An API server that does not answer, or is too busy, is told as that: to be asked again, with nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from agentenv.core.workspaces.records import workspace_of_volume
from agentenv.core.workspaces.workspace import DELETED_AT, CreateRequest
from agentenv.service.http import responses as answers
from agentenv.service.kube.client import CLAIMS, Document, Kind, KubeApiError, KubeClient
from agentenv.service.workspaces import restore_requests as homecoming
from agentenv.service.workspaces.create import problem_of
from agentenv.service.workspaces.restore_requests import WorkspaceRestorer
from tests.fast.service.fake_api_server import Api
from tests.fast.service.workspaces.stage import staged
from tests.fast.service.workspaces.test_restore_requests import house


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (KubeApiError("it does not answer", 503), 503),
        (KubeApiError("too many", 429), 503),
        (KubeApiError("may not", 403), 503),
        (KubeApiError("exceeded quota", 403, "Forbidden"), 503),
        (KubeApiError("odd", 422, "Invalid"), 409),
    ],
)
def test_an_error_of_the_api_server_is_a_problem(failure: KubeApiError, status: int) -> None:
    app = FastAPI()
    answers.install_handlers(app)

    @app.get("/")
    def ask() -> None:
        raise failure

    answer = TestClient(app, raise_server_exceptions=False).get("/")
    assert answer.status_code == status, answer.text
    assert answer.json()["type"].startswith("urn:agent-environment:problem:")
    assert ("Retry-After" in answer.headers) == (status == 503)


def failing(times: int, code: int) -> Callable[[int], None]:
    """The first changes are refused."""

    def before(number: int) -> None:
        if number <= times:
            raise KubeApiError("just now it cannot", code)

    return before


@pytest.mark.parametrize("code", [429, 503])
def test_somebody_comes_back_through_a_server_that_is_busy(code: int) -> None:
    shelf, volume = house(**{DELETED_AT: "2026-11-18T20:00:00Z"})
    shelf.before = failing(3, code)
    kept = workspace_of_volume(volume)
    assert kept is not None
    back = asyncio.run(WorkspaceRestorer(Api(shelf), timeout=5).restore(volume, kept))
    assert back.id == "w-1"


def test_nobody_waits_for_a_server_that_is_gone_until_patience_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(homecoming, "PAUSE", 0.001)
    shelf, volume = house(**{DELETED_AT: "2026-11-18T20:00:00Z"})
    kept = workspace_of_volume(volume)
    assert kept is not None
    asked: list[int] = []

    def gone(*_: object, **__: object) -> None:
        asked.append(1)
        raise KubeApiError("the API server does not answer", 503)

    monkeypatch.setattr(shelf, "list", gone)
    with pytest.raises(KubeApiError) as refused:
        asyncio.run(WorkspaceRestorer(Api(shelf), timeout=1).restore(volume, kept))
    # The client itself has retried by then.
    assert (refused.value.transient, len(asked)) == (True, 1)
    assert problem_of(refused.value).kind == "unavailable"


def test_a_claim_is_made_though_its_quota_was_counted_by_others_at_the_same_moment() -> None:
    async def play() -> None:
        async with staged() as stage, asyncio.timeout(20):
            stage.server.conflicts = 3
            made = await stage.backend.create(CreateRequest("u-1", "user", "standard", "u-1"), wait=5)
            assert made.workspace.state == "running"
            assert stage.server.conflicts == 0

    asyncio.run(play())


def test_one_that_is_changed_while_it_is_deleted_goes_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    removed = KubeClient.delete
    conflicts = [True, True]

    async def overtaken(kube: KubeClient, kind: Kind, read: Document, **options: Any) -> bool:
        if kind is CLAIMS and conflicts:
            conflicts.pop()
            return False
        return await removed(kube, kind, read, **options)

    monkeypatch.setattr(KubeClient, "delete", overtaken)

    async def play() -> None:
        async with staged() as stage, asyncio.timeout(20):
            made = await stage.backend.create(CreateRequest("u-1", "user", "standard", "u-1"), wait=5)
            await stage.backend.delete(made.workspace.id, keep_for=timedelta(days=1))
            assert not [name for kind, _, name in stage.server.objects if kind == "sandboxclaims"]

    asyncio.run(play())
