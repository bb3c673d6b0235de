"""Limits of owners and teams: they hold for all replicas together, and no claim above them remains."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agentenv.core.workspaces.workspace import CreateRequest, Workspace
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import KubeClient
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.backend import KubernetesBackend, running_backend
from tests.fast.service.workspaces.stage import Stage, staged

CLASSES = ({"name": "standard", "maxPerOwner": 3, "storage": {"kind": "none"}}, {"name": "other"})
LIMITS: Any = {"maxPerOwner": 5, "teamLimits": [{"team": "red", "workspaces": 2}]}


def request(key: str, owner: str = "u-1", class_name: str = "standard", **more: Any) -> CreateRequest:
    return CreateRequest(owner=owner, key=key, class_name=class_name, created_by=owner, **more)


def on_stage(act: Callable[[Stage], Awaitable[None]]) -> None:
    async def play() -> None:
        async with staged(*CLASSES, **LIMITS) as stage, asyncio.timeout(20):
            await act(stage)

    asyncio.run(play())


async def outcomes(creations: list[Any]) -> list[str]:
    results = await asyncio.gather(*creations, return_exceptions=True)
    return [result.kind if isinstance(result, Problem) else type(result).__name__ for result in results]


def claims(stage: Stage) -> int:
    return sum(kind == "sandboxclaims" for kind, _, _ in stage.server.objects)


def test_replicas_together_create_no_more_than_the_class_allows() -> None:
    async def act(stage: Stage) -> None:
        async with stage.server.client() as client:
            kube = KubeClient(client, pause=lambda _: asyncio.sleep(0))
            other = KubernetesBackend(kube, stage.catalog, Metrics(), now=kube.clock.now)
            async with running_backend(other):
                while not other.is_synced():
                    await asyncio.sleep(0)
                creations = [
                    backend.create(request(f"k-{number}"), wait=0)
                    for number in range(10)
                    for backend in ((stage.backend, other)[number % 2],)
                ]
                result = await outcomes(creations)
        # Exactly as many as allowed: nobody gives way to a request that is refused, too.
        assert result.count("limit-reached") == 7, result
        assert claims(stage) == 3

    on_stage(act)


def test_an_owner_and_a_team_have_limits_over_all_classes() -> None:
    async def act(stage: Stage) -> None:
        async def create(*arguments: Any, **more: Any) -> str:
            return (await outcomes([stage.backend.create(request(*arguments, **more), wait=2)]))[0]

        for number in range(5):
            assert await create(f"k-{number}", class_name="standard" if number < 3 else "other") == "CreateResult"
        assert await create("k-5", class_name="other") == "limit-reached"
        # Another request for an existing one is no other workspace, and another owner is not concerned.
        assert await create("k-0") == "CreateResult"
        assert await create("k-0", owner="u-2", limited_teams=("red",)) == "CreateResult"
        assert await create("k-0", owner="u-3", limited_teams=("red",)) == "CreateResult"
        assert await create("k-0", owner="u-4", limited_teams=("red",)) == "limit-reached"
        assert await create("k-0", owner="u-4") == "CreateResult"

    on_stage(act)


def test_another_class_is_no_way_past_a_limit() -> None:
    async def act(stage: Stage) -> None:
        requests = [request(f"k-{number}") for number in range(3)]
        moving = request("moving", class_name="other")
        for each in (*requests, moving):
            assert (await stage.backend.create(each, wait=5)).ready
        with pytest.raises(Problem) as refused:
            stage.backend.creator.limits.check_class(
                Workspace(moving.id, "u-1", "other", "user", "running"), "standard"
            )
        assert refused.value.kind == "limit-reached"
        stage.server.drop("sandboxclaims", "sandbox-standard", requests[0].id)
        await stage.wait_until(lambda view: view.find(requests[0].id) is None)
        stage.backend.creator.limits.check_class(Workspace(moving.id, "u-1", "other", "user", "running"), "standard")

    on_stage(act)


def test_without_events_all_claims_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentenv.service.workspaces.owner_limits.EVENT_SECONDS", 0.0)

    async def act(stage: Stage) -> None:
        stage.backend.view.set_listing(True)
        result = await outcomes([stage.backend.create(request(f"k-{number}"), wait=0) for number in range(6)])
        assert "limit-reached" in result
        assert claims(stage) <= 3

    on_stage(act)


def test_an_owner_with_many_cold_starts_waits_and_others_do_not() -> None:
    async def act(stage: Stage) -> None:
        stage.server.on_create = lambda _: None
        for number in range(4):
            owned = request(f"k-{number}", class_name="other")
            assert not (await stage.backend.create(owned, wait=0)).ready
            await stage.wait_until(lambda view, id_=owned.id: view.find(id_))
        with pytest.raises(Problem, match="4 workspaces of this owner are being created") as refused:
            await stage.backend.create(request("k-4", class_name="other"), wait=0)
        assert refused.value.retry_after == 5
        assert not (await stage.backend.create(request("k-0", "u-2", "other"), wait=0)).ready
        waiting = asyncio.create_task(stage.backend.create(request("k-4", class_name="other"), wait=10))
        await asyncio.sleep(0)
        stage.server.on_create = stage.fill
        first = request("k-0", class_name="other").id
        stage.fill(stage.server.objects["sandboxclaims", "sandbox-other", first])
        assert (await waiting).ready

    on_stage(act)
