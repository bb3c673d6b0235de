"""An API server that is unavailable or busy gives a problem with a time to retry, and nothing is lost."""

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
from agentenv.service.http import responses
from agentenv.service.kube.client import CLAIMS, Document, Kind, KubeApiError, KubeClient
from agentenv.service.workspaces import restore_requests
from agentenv.service.workspaces.create import problem_of
from agentenv.service.workspaces.restore_requests import WorkspaceRestorer
from tests.fast.service.fake_api_server import Api
from tests.fast.service.workspaces.stage import staged
from tests.fast.service.workspaces.test_restore_requests import deleted_workspace


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
    responses.install_handlers(app)

    @app.get("/")
    def fail() -> None:
        raise failure

    response = TestClient(app, raise_server_exceptions=False).get("/")
    assert response.status_code == status, response.text
    assert response.json()["type"].startswith("urn:agent-environment:problem:")
    assert ("Retry-After" in response.headers) == (status == 503)


def refuse_first(times: int, code: int) -> Callable[[int], None]:
    """Refuse the first changes."""

    def before(number: int) -> None:
        if number <= times:
            raise KubeApiError("just now it cannot", code)

    return before


@pytest.mark.parametrize("code", [429, 503])
def test_a_restore_retries_where_the_api_server_is_busy(code: int) -> None:
    server, volume = deleted_workspace(**{DELETED_AT: "2026-11-18T20:00:00Z"})
    server.before = refuse_first(3, code)
    workspace = workspace_of_volume(volume)
    assert workspace is not None
    restored = asyncio.run(WorkspaceRestorer(Api(server), timeout=5).restore(volume, workspace))
    assert restored.id == "w-1"


def test_restore_does_not_wait_for_an_unreachable_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_requests, "PAUSE", 0.001)
    server, volume = deleted_workspace(**{DELETED_AT: "2026-11-18T20:00:00Z"})
    workspace = workspace_of_volume(volume)
    assert workspace is not None
    lists: list[int] = []

    def unavailable(*_: object, **__: object) -> None:
        lists.append(1)
        raise KubeApiError("the API server does not answer", 503)

    monkeypatch.setattr(server, "list", unavailable)
    with pytest.raises(KubeApiError) as refused:
        asyncio.run(WorkspaceRestorer(Api(server), timeout=1).restore(volume, workspace))
    # The client itself has retried by then.
    assert (refused.value.transient, len(lists)) == (True, 1)
    assert problem_of(refused.value).kind == "unavailable"


def test_a_claim_is_created_in_spite_of_conflicts_on_its_quota() -> None:
    async def run() -> None:
        async with staged() as stage, asyncio.timeout(20):
            stage.server.conflicts = 3
            created = await stage.backend.create(CreateRequest("u-1", "user", "standard", "u-1"), wait=5)
            assert created.workspace.state == "running"
            assert stage.server.conflicts == 0

    asyncio.run(run())


def test_a_workspace_that_changes_during_its_deletion_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    original_delete = KubeClient.delete
    conflicts = [True, True]

    async def conflicting_delete(kube: KubeClient, kind: Kind, existing: Document, **options: Any) -> bool:
        if kind is CLAIMS and conflicts:
            conflicts.pop()
            return False
        return await original_delete(kube, kind, existing, **options)

    monkeypatch.setattr(KubeClient, "delete", conflicting_delete)

    async def run() -> None:
        async with staged() as stage, asyncio.timeout(20):
            created = await stage.backend.create(CreateRequest("u-1", "user", "standard", "u-1"), wait=5)
            await stage.backend.delete(created.workspace.id, keep_for=timedelta(days=1))
            assert not [name for kind, _, name in stage.server.objects if kind == "sandboxclaims"]

    asyncio.run(run())
