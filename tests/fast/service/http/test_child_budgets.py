"""A child's budget comes out of its parent's by every way to create it, on a cluster and on one machine."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentenv.core.workspaces.workspace import Changes, CreateRequest, Workspace
from agentenv.dev.upkeep import LocalClock
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.create_request import create_workspace, restore_check
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.problems import Problem
from agentenv.service.loops.child_budgets import return_child_budgets
from agentenv.service.loops.context import LoopContext, cluster_context
from agentenv.service.loops.workspace_passes import end_expired
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.backend import KubernetesBackend, running_backend
from agentenv.service.workspaces.backend_protocol import Backend
from tests.fast.dev.simulated import Clock, LocalStage, local_stage
from tests.fast.service.http.application import ApiClient, run_with_api
from tests.fast.service.kube.apiserver import Object
from tests.fast.service.loops.loops_contract import OWNER, SpentAccounts
from tests.fast.service.workspaces.stage import Stage, staged

if TYPE_CHECKING:
    import httpx2

CALLER = Caller(OWNER, frozenset({"user"}), "token")
TOTAL = Decimal(10)
RETENTION = timedelta(days=1)
WAIT = 20.0


def id_of(name: str) -> str:
    return CreateRequest(OWNER, name, "standard", OWNER).id


class Killed(BaseException):
    """The process was killed."""


class World(ABC):
    """An environment with one class, its clock, and what its workspaces have spent."""

    clock: Clock
    accounts: SpentAccounts
    replicas: Sequence[Backend]
    context: LoopContext

    @abstractmethod
    def kill_at(self, write: int | None) -> None:
        """Kill the process at a write from now on, counted from 0; None: no more."""

    def dependencies(self, replica: int = 0) -> Dependencies:
        nothing = cast("Any", None)
        backend = self.replicas[replica % len(self.replicas)]
        catalog = cast("Any", backend)._catalog
        return Dependencies(backend, catalog, nothing, nothing, Metrics(), accounts=self.accounts, now=self.clock)

    async def create(
        self,
        key: str,
        parent: str | None = None,
        budget: object = TOTAL,
        *,
        replica: int = 0,
        warm_only: bool = False,
        wait: float = WAIT,
    ) -> Workspace:
        amount = None if budget is None else Decimal(str(budget))
        request = CreateRequest(OWNER, key, "standard", OWNER, parent=parent, budget=amount)
        dependencies = self.dependencies(replica)
        return (await create_workspace(dependencies, CALLER, request, wait=wait, warm_only=warm_only)).workspace

    async def get(self, id_: str) -> Workspace:
        workspace = await self.replicas[0].settled(id_, wait=WAIT)
        assert workspace is not None
        return workspace

    async def delete(self, id_: str, keep_for: timedelta = timedelta(0)) -> None:
        await self.replicas[0].delete(id_, keep_for=keep_for)
        await self.replicas[0].settled(id_, wait=WAIT)

    async def resume(self, id_: str) -> None:
        dependencies = self.dependencies()
        check = restore_check(dependencies, CALLER)
        await dependencies.backend.resume(id_, wait=WAIT, before_restore=check)

    async def pass_by(self, **interval: float) -> None:
        """Let time pass, and run the loops that end children and return their budgets."""
        month = f"{self.clock():%Y-%m}"
        self.clock.pass_by(**interval)
        if f"{self.clock():%Y-%m}" != month:
            self.accounts.dollars.clear()
        for run in (end_expired, return_child_budgets):
            assert (await run(self.context, lambda: True)).failures == ()

    async def ended(self) -> None:
        """Let so much time pass that ended children have given back their budgets."""
        for _ in range(3):
            await self.pass_by(minutes=16)

    async def parts(self, id_: str) -> tuple[Decimal | None, dict[str, Decimal]]:
        """Return the rest of a workspace's budget, and what its children hold."""
        workspace = await self.get(id_)
        return workspace.budget, {child: each.amount for child, each in workspace.child_budgets.held.items()}


class ClusterWorld(World):
    """Two replicas over an API server."""

    def __init__(self, stage: Stage, second: KubernetesBackend) -> None:
        self.clock, self.replicas, self._stage = Clock(), [stage.backend, second], stage
        self.accounts = SpentAccounts(self.clock, "standard")
        self._began = self.clock()
        self.context = cluster_context(
            stage.kube,
            LocalClock(self.clock),
            Metrics(),
            "workspace-service",
            "replica",
            monotonic=self._monotonic,
            accounts=self.accounts,
        )
        labels = {"sandbox.users.io/class": "standard"}
        stage.server.put("namespaces", {"metadata": {"name": "sandbox-standard", "labels": labels}})
        self._handle, self._writes, self._dies = stage.server._handle, 0, cast("int | None", None)
        cast("Any", stage.server)._handle = self._counted

    def _monotonic(self) -> float:
        return (self.clock() - self._began).total_seconds()

    def kill_at(self, write: int | None) -> None:
        self._writes, self._dies = 0, write

    async def _counted(self, request: httpx2.Request) -> httpx2.Response:
        if request.method in {"POST", "PATCH", "DELETE"} and self._dies is not None:
            self._writes += 1
            if self._writes > self._dies:
                raise Killed
        return await self._handle(request)


class MachineWorld(World):
    """One process with its records in a folder."""

    def __init__(self, stage: LocalStage) -> None:
        self.clock, self.replicas, self.accounts = stage.clock, [stage.backend], stage.accounts
        self.context, self._records = stage.upkeep.context, stage.records
        self._put, self._writes, self._dies = stage.records.put, 0, cast("int | None", None)
        cast("Any", stage.records).put = self._counted

    def kill_at(self, write: int | None) -> None:
        self._writes, self._dies = 0, write

    def _counted(self, workspace: Workspace) -> None:
        if self._dies is not None:
            self._writes += 1
            if self._writes > self._dies:
                raise Killed
        self._put(workspace)


@asynccontextmanager
async def cluster(_: Path) -> AsyncGenerator[World]:
    async with staged({"name": "standard", "storage": {"kind": "none"}}) as stage:
        second = KubernetesBackend(stage.kube, stage.catalog, stage.metrics, now=stage.kube.clock.now)
        async with running_backend(second):
            while not second.is_synced():
                await asyncio.sleep(0)
            yield ClusterWorld(stage, second)


@asynccontextmanager
async def machine(folder: Path) -> AsyncGenerator[World]:
    async with local_stage(folder, spent=True) as stage:
        yield MachineWorld(stage)


WORLDS = [cluster, machine]
on_both = pytest.mark.parametrize("opened", WORLDS, ids=["cluster", "machine"])
Opened = Callable[[Path], "contextlib.AbstractAsyncContextManager[World]"]


def run(opened: Opened, folder: Path, *acts: Callable[[World], Awaitable[None]]) -> None:
    """Run each function with a world; on one machine, a later one is started on the records of the one before."""

    async def play() -> None:
        for act in acts:
            async with opened(folder) as world, asyncio.timeout(120):
                await act(world)

    asyncio.run(play())


async def refused(work: Awaitable[object], kind: str = "capability-beyond-parent") -> Problem:
    with pytest.raises(Problem) as raised:
        await work
    assert raised.value.kind == kind, raised.value
    return raised.value


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
            changes = Changes(budget=amount, budget_was=workspace.budget)
            await world.replicas[0].update(workspace.id, changes, wait=WAIT)
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
