"""A child's budget comes out of its parent's by every way to create it, on a cluster and on one machine."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentenv.core.workspaces.workspace import Changes, Workspace
from agentenv.service.http import workspaces as routes
from agentenv.service.http.create_request import restore_check
from agentenv.service.http.problems import Problem
from tests.fast.service.http.application import ApiClient, run_with_api
from tests.fast.service.http.worlds import (
    CALLER,
    RETENTION,
    TOTAL,
    WAIT,
    Killed,
    Opened,
    World,
    cluster,
    id_of,
    machine,
    on_both,
    refused,
    run,
)
from tests.fast.service.kube.apiserver import Object

if TYPE_CHECKING:
    from agentenv.service.http.dependencies import Dependencies


@on_both
def test_two_children_may_not_each_have_the_whole_budget(opened: Opened, tmp_path: Path) -> None:
    async def act(world: World) -> None:
        root = (await world.create("root")).id
        first = await world.create("a", root, "7.5")
        problem = await refused(world.create("b", root, "7.5"))
        assert "2.5 dollars" in problem.detail
        assert "2.5 or less" in problem.way_out
        await refused(world.create("b", root, None))
        second = await world.create("b", root, "2.5")
        assert await world.parts(root) == (0, {first.id: Decimal("7.5"), second.id: Decimal("2.5")})
        await refused(world.create("c", root, "0.01"))

    run(opened, tmp_path, act)


@on_both
def test_what_the_parent_has_spent_is_not_left(opened: Opened, tmp_path: Path) -> None:
    async def act(world: World) -> None:
        root = (await world.create("root")).id
        world.accounts.dollars[root] = "4"
        await refused(world.create("a", root, 7))
        await world.create("a", root, 6)
        assert (await world.parts(root))[0] == 4

    run(opened, tmp_path, act)


@on_both
def test_a_repeated_create_takes_once(opened: Opened, tmp_path: Path) -> None:
    async def act(world: World) -> None:
        root = (await world.create("root")).id
        same = await asyncio.gather(*(world.create("a", root, 4, replica=number) for number in range(6)))
        await world.create("a", root, 4)
        (child,) = {each.id for each in same}
        assert await world.parts(root) == (6, {child: Decimal(4)})

    run(opened, tmp_path, act)


@on_both
def test_creates_at_once_take_no_more_than_there_is(opened: Opened, tmp_path: Path) -> None:
    async def act(world: World) -> None:
        root = (await world.create("root")).id
        creates = (world.create(f"child-{number}", root, 3, replica=number) for number in range(12))
        results = await asyncio.gather(*creates, return_exceptions=True)
        created = {each.id for each in results if isinstance(each, Workspace)}
        refusals = {each.kind for each in results if isinstance(each, Problem)}
        assert refusals == {"capability-beyond-parent"}
        assert await world.parts(root) == (1, dict.fromkeys(created, Decimal(3)))
        assert len(created) == 3

    run(opened, tmp_path, act)


@on_both
def test_a_refused_create_takes_nothing(opened: Opened, tmp_path: Path) -> None:
    async def act(world: World) -> None:
        root = (await world.create("root")).id
        await refused(world.create("a", root, 4, warm_only=True), "pool-empty")
        assert await world.parts(root) == (TOTAL, {})
        # A repeated request whose workspace exists is another matter.
        child = (await world.create("a", root, 4)).id
        await refused(world.create("a", root, 5), "key-reused")
        assert await world.parts(root) == (6, {child: Decimal(4)})

    run(opened, tmp_path, act)


@on_both
def test_grandchildren_are_paid_by_the_child(opened: Opened, tmp_path: Path) -> None:
    async def act(world: World) -> None:
        root = (await world.create("root")).id
        child = (await world.create("child", root, 6)).id
        await refused(world.create("grandchild", child, 7))
        grandchild = (await world.create("grandchild", child, 5)).id
        assert await world.parts(child) == (1, {grandchild: Decimal(5)})
        assert await world.parts(root) == (4, {child: Decimal(6)})
        world.accounts.dollars |= {child: "0.25", grandchild: "0.5"}
        await world.delete(child)
        await world.ended()
        # Nobody knows any more what the grandchild has spent of its five.
        assert await world.parts(root) == (Decimal("4.75"), {})
        await world.pass_by(days=31)
        assert await world.parts(root) == (TOTAL, {})

    run(opened, tmp_path, act)


@on_both
def test_a_parent_without_a_budget_gives_none(opened: Opened, tmp_path: Path) -> None:
    async def act(world: World) -> None:
        root = (await world.create("root", budget=None)).id
        await world.create("a", root, 400)
        await world.create("b", root, None)
        assert await world.parts(root) == (None, {})

    run(opened, tmp_path, act)


@on_both
def test_a_deleted_parent_gets_no_children(opened: Opened, tmp_path: Path) -> None:
    async def act(world: World) -> None:
        root = (await world.create("root", budget=None)).id
        await world.delete(root, RETENTION)
        await refused(world.create("a", root, 1), "wrong-state")

    run(opened, tmp_path, act)


def test_a_restored_child_takes_its_budget_again(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        root = (await world.create("root")).id
        child = (await world.create("a", root, 6)).id
        await world.create("b", child, 1)
        await world.delete(child, RETENTION)
        await world.ended()
        assert await world.parts(root) == (9, {})
        other = (await world.create("c", root, 5)).id
        await refused(world.resume(child))
        assert (await world.get(child)).state == "deleted"
        await world.delete(other)
        await world.ended()
        await world.resume(child)
        assert await world.parts(root) == (3, {child: Decimal(6)})
        # Its own child ended with it, and gave back.
        await world.ended()
        assert await world.parts(child) == (6, {})
        await world.delete(child, RETENTION)
        await world.delete(root, RETENTION)
        await refused(world.resume(child), "wrong-state")

    run(machine, tmp_path, act)


@on_both
@pytest.mark.parametrize("repeated", [True, False])
def test_a_create_that_is_killed_at_any_write_loses_and_doubles_nothing(
    opened: Opened, repeated: bool, tmp_path: Path
) -> None:
    deaths: list[bool] = []
    for write in range(20):
        ids: dict[str, str] = {}

        async def before(world: World, write: int = write, ids: dict[str, str] = ids) -> None:
            ids["root"] = (await world.create("root")).id
            ids["child"] = (await world.create("child", ids["root"], 6)).id
            world.kill_at(write)
            try:
                # A machine whose records are no longer written never says that the sandbox is ready.
                await world.create("grandchild", ids["child"], 2, wait=0.1)
                deaths.append(False)
            except Killed:
                deaths.append(True)
            if opened is cluster:
                world.kill_at(None)
                await after(world, ids)

        async def after(world: World, ids: dict[str, str] = ids) -> None:
            if repeated:
                grandchild = (await world.create("grandchild", ids["child"], 2)).id
                assert await world.parts(ids["child"]) == (4, {grandchild: Decimal(2)})
            await world.ended()
            rest, held = await world.parts(ids["child"])
            assert rest is not None
            assert rest + sum(held.values()) == 6
            for id_, amount in held.items():
                assert (await world.get(id_)).budget == amount == 2
            existing = {each.id for each in await world.context.backend.recent_workspaces(0)}
            assert existing == {*ids.values(), *held}
            assert await world.parts(ids["root"]) == (4, {ids["child"]: Decimal(6)})

        folder = tmp_path / str(write)
        folder.mkdir()
        run(opened, folder, before, *([] if opened is cluster else [after]))
        if not deaths[-1]:
            break
    assert deaths[-1] is False
    assert deaths.count(True) >= 3


AMOUNTS = st.integers(1, 1100).map(lambda cents: Decimal(cents) / 100)
NAMES = ("root", "a", "b", "c", "d")
OPERATIONS = st.tuples(
    st.sampled_from(["create", "create", "create", "delete", "destroy", "restore", "spend", "spend", "lower", "pass"]),
    st.sampled_from(NAMES[1:]),
    st.sampled_from(NAMES),
    AMOUNTS,
)


@on_both
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(OPERATIONS, max_size=14))
def test_a_tree_never_spends_more_than_its_root_was_given(
    opened: Opened, steps: list[tuple[str, str, str, Decimal]]
) -> None:
    async def act(world: World) -> None:
        await world.create("root")
        for operation, name, other, amount in steps:
            with contextlib.suppress(Problem):
                await _act(world, operation, name, other, amount)
            await _holds(world)

    with tempfile.TemporaryDirectory() as folder:
        run(opened, Path(folder), act)


async def _act(world: World, operation: str, name: str, other: str, amount: Decimal) -> None:
    id_, workspace = id_of(name), await world.replicas[0].get(id_of(other))
    if operation == "create":
        await world.create(name, id_of(other), amount)
    elif operation == "pass":
        await world.pass_by(minutes=float(amount * 5))
    elif operation == "restore":
        await world.resume(id_)
    elif operation in {"delete", "destroy"}:
        await world.delete(id_, timedelta(0) if operation == "destroy" else RETENTION)
    elif workspace is not None and workspace.budget is not None and workspace.state == "running":
        if operation == "lower" and amount < workspace.budget:
            await world.replicas[0].update(workspace.id, Changes(budget=amount), wait=WAIT)
        elif operation == "spend":
            spent = Decimal(world.accounts.dollars.get(workspace.id, "0"))
            # At its budget it is suspended.
            world.accounts.dollars[workspace.id] = str(max(spent, min(spent + amount, workspace.budget)))


async def _holds(world: World) -> None:
    """What was spent this month and what may be spent yet are together no more than the root was given."""
    spent = {id_: Decimal(amount) for id_, amount in world.accounts.dollars.items()}
    total = sum(spent.values(), Decimal(0))
    for workspace in await world.context.backend.recent_workspaces(0):
        current = await world.get(workspace.id)
        assert current.budget is not None
        assert current.budget >= 0
        total += max(Decimal(0), current.budget - spent.get(current.id, Decimal(0)))
    assert total <= TOTAL


CLASS: Object = {"name": "box", "storage": {"kind": "none"}, "budget": 5}
TEAM = {"team": "vetted"}


def test_an_api_caller_sees_the_rest_and_may_not_raise_a_childs_budget() -> None:
    async def act(api: ApiClient) -> None:
        async def send(method: str, path: str, body: Object, subject: str = "ann", **claims: object) -> Any:
            return await api.request(subject, method, path, body, claims={**TEAM, **claims})

        parent = (await send("POST", "/workspaces", {"class": "box", "key": "parent"})).json()["id"]
        body = {"class": "box", "key": "child", "parent": parent}
        # The budget of the class is the parent's.
        assert "5 or less" in (await send("POST", "/workspaces", body)).json()["way_out"]
        child = (await send("POST", "/workspaces", {**body, "budget": 2})).json()["id"]
        assert (await send("GET", f"/workspaces/{parent}", {})).json()["budget"] == "3"
        lowered = await send("PATCH", f"/workspaces/{child}", {"budget": 1})
        assert (lowered.status_code, lowered.json()["budget"]) == (200, "1")
        admin = {"groups": ["admins"]}
        for budget in (2, None):
            raised = await send("PATCH", f"/workspaces/{child}", {"budget": budget}, "root", **admin)
            assert (raised.status_code, raised.json()["type"].rpartition(":")[2]) == (403, "capability-beyond-parent")
        # One with whom it is shared may write to the parent, and may not spend its budget.
        bo = (await send("GET", "/me", {}, "bo")).json()["owner"]
        assert (await send("PATCH", f"/workspaces/{parent}", {"shared": {bo: "rw"}})).status_code == 200
        assert (await send("POST", "/workspaces", {**body, "budget": 1}, "bo")).status_code == 403

    run_with_api(act, CLASS, admins=("admins",))


def test_a_budget_that_a_child_took_from_meanwhile_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = routes.refuse_raise

    async def act(api: ApiClient) -> None:
        async def send(method: str, path: str, body: Object) -> Any:
            return await api.request("ann", method, path, body, claims=TEAM)

        async def overtaken(dependencies: Dependencies, workspace: Workspace, budget: Decimal | None) -> None:
            await decided(dependencies, workspace, budget)
            monkeypatch.setattr(routes, "refuse_raise", decided)
            body = {"class": "box", "key": "child", "parent": workspace.id, "budget": 2}
            assert (await send("POST", "/workspaces", body)).status_code in {201, 202}

        parent = (await send("POST", "/workspaces", {"class": "box", "key": "parent", "budget": 5})).json()["id"]
        monkeypatch.setattr(routes, "refuse_raise", overtaken)
        late = await send("PATCH", f"/workspaces/{parent}", {"budget": 4, "labels": {"late": "yes"}})
        assert (late.status_code, late.json()["type"].rpartition(":")[2]) == (409, "busy")
        unchanged = (await send("GET", f"/workspaces/{parent}", {})).json()
        assert (unchanged["budget"], unchanged["labels"]) == ("3", {})
        again = await send("PATCH", f"/workspaces/{parent}", {"budget": 1})
        assert (again.status_code, again.json()["budget"]) == (200, "1")

    run_with_api(act, CLASS, admins=("admins",))


@on_both
def test_parent_of_a_restored_child_is_read_once(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(world: World) -> None:
        parent = await world.create("root")
        child = await world.create("child", parent.id, 1)
        await world.delete(child.id, RETENTION)
        dependencies, read = world.dependencies(), list[str]()
        get = dependencies.backend.get
        deleted = await get(child.id)
        assert deleted is not None

        async def counted(id_: str) -> Workspace | None:
            read.append(id_)
            return await get(id_)

        monkeypatch.setattr(dependencies.backend, "get", counted)
        await restore_check(dependencies, replace(CALLER, classes=frozenset({deleted.class_name})))(deleted)
        assert read == [parent.id]

    run(opened, tmp_path, act)
