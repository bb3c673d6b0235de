"""Environments with one class, on a cluster and on one machine, whose routes and loops a test runs."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx2
import pytest

from agentenv.core.workspaces.workspace import CreateRequest, Workspace
from agentenv.dev.upkeep import LocalClock
from agentenv.service.http.app import application
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.auth.rate_limits import RateLimiter
from agentenv.service.http.create_request import create_workspace, restore_check
from agentenv.service.http.dependencies import CallerSource, Dependencies
from agentenv.service.http.problems import Problem
from agentenv.service.loops.child_budgets import return_child_budgets
from agentenv.service.loops.context import LoopContext, cluster_context
from agentenv.service.loops.workspace_passes import end_expired, end_timed_out
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.backend import KubernetesBackend, running_backend
from agentenv.service.workspaces.backend_protocol import Backend, Swarms
from tests.fast.dev.simulated import Clock, LocalStage, local_stage
from tests.fast.service.loops.loops_contract import OWNER, SpentAccounts
from tests.fast.service.workspaces.stage import Stage, staged

if TYPE_CHECKING:
    from fastapi import FastAPI

CALLER = Caller(OWNER, frozenset({"user"}), "token")
TOTAL = Decimal(10)
RETENTION = timedelta(days=1)
WAIT = 20.0


def id_of(name: str) -> str:
    return CreateRequest(OWNER, name, "standard", OWNER).id


class Killed(BaseException):
    """The process was killed."""


class Owner(CallerSource):
    """Identifies every caller as the owner."""

    async def caller(self, authorization: str | None, source: str = "", *, api_key: str | None = None) -> Caller:  # noqa: ARG002 - the protocol's
        return CALLER

    async def bearer(self, token: str, source: str) -> Caller | None:  # noqa: ARG002 - the protocol's
        return CALLER


@functools.cache
def _application() -> FastAPI:
    """Return the routes, which take longer to create than most requests to answer."""
    return application(None, Metrics())


class World(ABC):
    """An environment with one class, its clock, and what its workspaces have spent."""

    clock: Clock
    accounts: SpentAccounts
    replicas: Sequence[Backend]
    context: LoopContext

    @abstractmethod
    def kill_at(self, write: int | None) -> None:
        """Kill the process at a write from now on, counted from 0; None: no more."""

    async def request(self, method: str, path: str) -> httpx2.Response:
        """Return the response to a request of the owner."""
        app = _application()
        app.state.dependencies = self.dependencies()
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://service") as client:
            return await client.request(method, path)

    def dependencies(self, replica: int = 0) -> Dependencies:
        backend = self.replicas[replica % len(self.replicas)]
        catalog = cast("Any", backend)._catalog
        limits = RateLimiter(100_000)
        unused = cast("Swarms", None)
        return Dependencies(
            backend, catalog, Owner(), limits, Metrics(), unused, accounts=self.accounts, now=self.clock
        )

    async def create(
        self,
        key: str,
        parent: str | None = None,
        budget: object = TOTAL,
        *,
        replica: int = 0,
        warm_only: bool = False,
        wait: float = WAIT,
        **more: Any,
    ) -> Workspace:
        amount = None if budget is None else Decimal(str(budget))
        request = CreateRequest(OWNER, key, "standard", OWNER, parent=parent, budget=amount, **more)
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
        for run in (end_timed_out, end_expired, return_child_budgets):
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
        about = {"name": "sandbox-class", "namespace": "sandbox-standard"}
        retention = {"retainDeletedFor": "2592000", "sessionRetention": "604800"}
        stage.server.put("configmaps", {"metadata": about, "data": retention})
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
