"""What loops see of the API's view: all that stand, as it knows of them, and nothing while it does not know."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from agentenv.core.workspaces.workspace import CreateRequest, Workspace
from agentenv.service.kube import snapshot as sights
from agentenv.service.kube.client import CLAIMS
from agentenv.service.kube.snapshot import WorkspaceSnapshot
from tests.fast.service.fake_api_server import run
from tests.fast.service.loops.cluster import House
from tests.fast.service.workspaces.stage import Stage, staged

if TYPE_CHECKING:
    import pytest

PATIENCE = 10.0
ASKED = CreateRequest(owner="u-1", key="user", class_name="standard", created_by="u-1")


class Backend:
    """Says what a test has it say, and where it was asked."""

    def __init__(self, said: list[Workspace] | None) -> None:
        self.said, self.asked_in = said, list[int]()

    def existing_workspaces(self) -> list[Workspace] | None:
        self.asked_in.append(threading.get_ident())
        return self.said


ONE = Workspace("w-1", "u-1", "box", "user", "running")


def test_a_thread_is_given_what_the_view_has_from_the_views_own_thread() -> None:
    backend, snapshot = Backend([ONE]), WorkspaceSnapshot()

    async def served() -> None:
        with snapshot.attach(backend):
            assert await asyncio.to_thread(snapshot.workspaces) == [ONE]
        assert backend.asked_in == [threading.get_ident()]

    asyncio.run(served())


def test_nothing_is_said_before_the_api_is_there_nor_after() -> None:
    backend, snapshot = Backend([ONE]), WorkspaceSnapshot()
    assert snapshot.workspaces() is None

    async def served() -> None:
        with snapshot.attach(backend):
            pass

    asyncio.run(served())
    assert snapshot.workspaces() is None
    assert backend.asked_in == []


def test_an_api_that_has_just_ended_is_not_waited_for() -> None:
    snapshot = WorkspaceSnapshot()

    async def kept() -> None:
        snapshot.attach(Backend([ONE])).__enter__()

    asyncio.run(kept())
    assert snapshot.workspaces() is None


def test_an_api_that_does_not_come_to_it_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, snapshot = Backend([ONE]), WorkspaceSnapshot()
    monkeypatch.setattr(sights, "COPY_TIMEOUT", 0.05)

    async def served() -> None:
        with snapshot.attach(backend), ThreadPoolExecutor(1) as hand:
            # As if a request held the event loop.
            assert hand.submit(snapshot.workspaces).result(PATIENCE) is None
        await asyncio.sleep(0)
        assert backend.asked_in == [], "what is not waited for any more is not done either"

    asyncio.run(served())


def on_stage(act: Callable[[Stage], Awaitable[None]]) -> None:
    async def staging() -> None:
        async with staged() as stage, asyncio.timeout(PATIENCE):
            await act(stage)

    asyncio.run(staging())


def test_what_stands_is_said_and_what_was_deleted_is_not() -> None:
    async def act(stage: Stage) -> None:
        stage.slot("s1")
        made = await stage.backend.create(ASKED, wait=5)
        while stage.backend.view.find(made.workspace.id) is None:
            await asyncio.sleep(0)
        assert [one.id for one in stage.backend.existing_workspaces() or ()] == [made.workspace.id]

    on_stage(act)


def test_a_view_that_is_not_told_of_changes_says_nothing() -> None:
    async def act(stage: Stage) -> None:
        assert stage.backend.existing_workspaces() == []
        for one in stage.backend._workspace_informers:
            one.watching = False
            assert stage.backend.existing_workspaces() is None
            one.watching = True

    on_stage(act)


def test_loops_look_where_they_are_told_and_list_where_nobody_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    house.workspace("w-listed")
    lists, listing = list[object](), house.shelf.list
    monkeypatch.setattr(house.shelf, "list", lambda kind, *_: (lists.append(kind), listing(kind))[1])
    said: list[list[Workspace] | None] = [[ONE], None, None, [ONE]]
    context = house.context(workspace_snapshot=lambda: said.pop(0), monotonic=lambda: 0.0)
    seen = [[one.id for one in run(context.recent_workspaces, 20)] for _ in range(4)]
    assert seen == [["w-1"], ["w-listed"], ["w-listed"], ["w-1"]]
    assert lists == [CLAIMS], "loops share one list"
