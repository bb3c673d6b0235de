"""Children and their own children end with their parent, by whatever way it ends, on a cluster and on one machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentenv.core.workspaces.grants import Grants
from agentenv.core.workspaces.workspace import Timeout
from tests.fast.service.http.worlds import Opened, World, on_both, run

End = Callable[[World, str], Awaitable[None]]
LIFE = timedelta(minutes=1)


def by(method: str, path: str) -> End:
    async def end(world: World, id_: str) -> None:
        response = await world.request(method, path.format(id_))
        assert response.is_success, response.text
        await world.replicas[0].settled(id_, wait=5)

    return end


async def by_time(world: World, id_: str) -> None:
    await world.pass_by(minutes=2)
    workspace = await world.replicas[0].settled(id_, wait=5)
    assert workspace is None or workspace.state == "deleted"


def no_life(_: World) -> dict[str, Any]:
    return {}


def timeout(world: World) -> dict[str, Any]:
    return {"timeout": Timeout(60, "delete"), "deadline": world.clock() + LIFE}


def granted(world: World) -> dict[str, Any]:
    return {"grants": Grants(ends=world.clock() + LIFE)}


WAYS: dict[str, tuple[End, Callable[[World], dict[str, Any]]]] = {
    "deleted": (by("DELETE", "/v1/workspaces/{}"), no_life),
    "destroyed": (by("DELETE", "/v1/workspaces/{}?destroy=true"), no_life),
    "killed by an e2b client": (by("DELETE", "/e2b/sandboxes/{}"), no_life),
    "timed out": (by_time, timeout),
    "at the end of its granted life": (by_time, granted),
}


async def states(world: World, *ids: str) -> list[str]:
    found = [await world.replicas[0].settled(id_, wait=5) for id_ in ids]
    return ["gone" if each is None or each.state == "deleted" else each.state for each in found]


@on_both
@pytest.mark.parametrize("way", WAYS)
def test_all_descendants_end_with_a_parent(opened: Opened, way: str, tmp_path: Path) -> None:
    end, life = WAYS[way]

    async def act(world: World) -> None:
        parent = (await world.create("parent", mode="session", **life(world))).id
        child = (await world.create("child", parent, 5)).id
        grandchild = (await world.create("grandchild", child, 2)).id
        other = (await world.create("other")).id
        await world.pass_by(seconds=30)
        await end(world, parent)
        await world.pass_by(minutes=1)
        # A parent that moves to another class does not exist for a moment.
        assert await states(world, parent, child, grandchild, other) == ["gone", "running", "running", "running"]
        await world.pass_by(minutes=6)
        assert await states(world, parent, child, grandchild, other) == ["gone", "gone", "gone", "running"]

    run(opened, tmp_path, act)


@on_both
def test_descendants_are_suspended_with_a_parent_at_its_deadline(opened: Opened, tmp_path: Path) -> None:
    async def act(world: World) -> None:
        parent = (await world.create("parent", deadline=world.clock() + LIFE)).id
        child = (await world.create("child", parent, 5)).id
        grandchild = (await world.create("grandchild", child, 2)).id
        await world.pass_by(seconds=30)
        assert await states(world, child, grandchild) == ["running", "running"]
        for _ in range(2):
            await world.pass_by(minutes=3)
        for id_ in (parent, child, grandchild):
            workspace = await world.replicas[0].get(id_)
            assert workspace is not None
            assert workspace.suspended_because == "deadline"

    run(opened, tmp_path, act)


@on_both
def test_children_of_a_paused_parent_run_on(opened: Opened, tmp_path: Path) -> None:
    async def act(world: World) -> None:
        paused = {**timeout(world), "timeout": replace(Timeout(60, "suspend"), wakes=True)}
        parent = (await world.create("parent", **paused)).id
        child = (await world.create("child", parent, 5)).id
        for _ in range(3):
            await world.pass_by(minutes=6)
        workspace = await world.replicas[0].get(parent)
        assert workspace is not None
        assert workspace.suspended_because == "deadline"
        assert await states(world, child) == ["running"]

    run(opened, tmp_path, act)
