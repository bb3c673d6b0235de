"""Requests are served by the event loop alone: while a replica is busy, each step in another thread waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import fastapi.dependencies.utils
import fastapi.routing
from starlette.concurrency import run_in_threadpool

from tests.fast.service.http.application import ApiClient, run_with_api

if TYPE_CHECKING:
    import pytest


def test_requests_need_no_other_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Callable[..., Any]] = []

    async def recorded(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        called.append(function)
        return await run_in_threadpool(function, *arguments, **named)

    monkeypatch.setattr(fastapi.dependencies.utils, "run_in_threadpool", recorded)
    monkeypatch.setattr(fastapi.routing, "run_in_threadpool", recorded)

    async def act(api: ApiClient) -> None:
        body = {"class": "standard", "key": "desk"}
        created = await api.request("ann", "POST", "/workspaces?wait=0", body, claims={"team": "vetted"})
        assert created.is_success, created.text
        assert (await api.request("ann", "GET", "/workspaces")).status_code == 200
        assert (await api.request("ann", "GET", f"/workspaces/{created.json()['id']}")).status_code == 200
        assert (await api.request("ann", "GET", "/me")).status_code == 200

    run_with_api(act, {"name": "standard"})
    assert called == []
