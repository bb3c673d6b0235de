"""The workspaces that loops read: those of the watches, or a list where the watches are not synced."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agentenv.core.workspaces.workspace import CreateRequest, Workspace
from agentenv.service.kube.client import CLAIMS
from tests.fast.service.fake_api_server import run
from tests.fast.service.loops.cluster import Cluster
from tests.fast.service.workspaces.stage import Stage, on_stage

if TYPE_CHECKING:
    import pytest

TIMEOUT = 60.0
REQUEST = CreateRequest(owner="u-1", key="user", class_name="standard", created_by="u-1")
WORKSPACE = Workspace("w-1", "u-1", "box", "user", "running")


def test_existing_workspaces_are_returned() -> None:
    async def act(stage: Stage) -> None:
        stage.slot("s1")
        created = await stage.backend.create(REQUEST, wait=5)
        while stage.backend.view.find(created.workspace.id) is None:
            await asyncio.sleep(0)
        assert [workspace.id for workspace in stage.backend.existing_workspaces() or ()] == [created.workspace.id]

    on_stage(act)


def test_without_a_watch_nothing_is_returned() -> None:
    async def act(stage: Stage) -> None:
        assert stage.backend.existing_workspaces() == []
        for informer in stage.backend._workspace_informers:
            informer.watching = False
            assert stage.backend.existing_workspaces() is None
            informer.watching = True

    on_stage(act)


def test_loops_read_the_watches_and_list_where_those_are_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.workspace("w-listed")
    lists, listing = list[object](), cluster.server.list
    monkeypatch.setattr(cluster.server, "list", lambda kind, *_: (lists.append(kind), listing(kind))[1])
    snapshots: list[list[Workspace] | None] = [[WORKSPACE], None, None, [WORKSPACE]]
    context = cluster.context(workspace_snapshot=lambda: snapshots.pop(0), monotonic=lambda: 0.0)
    seen = [[workspace.id for workspace in run(context.backend.recent_workspaces, 20)] for _ in range(4)]
    assert seen == [["w-1"], ["w-listed"], ["w-listed"], ["w-1"]]
    assert lists == [CLAIMS], "loops share one list"
