"""The service's loops over the workspaces of one machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from agentenv.dev.loop_backend import LocalLoopBackend
from agentenv.service.ledger.budgets import Budgets, MonthlyAccounts
from agentenv.service.loops.catalog import loops_of_workspaces
from agentenv.service.loops.context import LoopContext
from agentenv.service.loops.scheduler import Loop, PassResult, Scheduler, ShouldContinue
from agentenv.service.workspaced.activity import WorkspacedActivity

if TYPE_CHECKING:
    from agentenv.core.ledger.published import PublishedSpend
    from agentenv.dev.backend import LocalBackend
    from agentenv.dev.swarms import LocalSwarms
    from agentenv.dev.usage import LocalLedger
    from agentenv.service.catalog import Catalog
    from agentenv.service.ledger.published import PublishedBudgets
    from agentenv.service.telemetry.metrics import Metrics
    from agentenv.service.workspaced.client import WorkspacedClient

# A machine has few workspaces, so that its passes are cheap.
SECONDS, TICK = 15.0, 0.5


@dataclass
class LocalClock:
    """The clock of this machine."""

    now: Callable[[], datetime]
    known: bool = True


class Upkeep:
    """The loops over the workspaces of one machine, and the one that records their usage."""

    def __init__(
        self,
        backend: LocalBackend,
        catalog: Catalog,
        ledger: LocalLedger,
        *,
        swarms: LocalSwarms,
        published: PublishedBudgets,
        workspaced: WorkspacedClient,
        metrics: Metrics,
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
        accounts: MonthlyAccounts | None = None,
    ) -> None:
        """`accounts` are those of the ledger by default."""
        self._backend, self._ledger, self._metrics = backend, ledger, metrics
        loop_backend = LocalLoopBackend(backend, catalog, swarms)

        async def publish(spend: PublishedSpend) -> None:
            published.spend = spend

        budgets = Budgets(loop_backend, accounts or ledger, published, metrics, publish=publish)
        self.context = LoopContext(
            backend=loop_backend,
            clock=LocalClock(now),
            metrics=metrics,
            sources=[WorkspacedActivity(loop_backend, workspaced)],
            refuse_wake=budgets.refuse_wake,
            accounts=accounts or ledger,
            monotonic=monotonic,
        )
        loops = loops_of_workspaces(self.context, budgets)
        frequent = (replace(loop, every=min(loop.every, SECONDS)) for loop in loops)
        self.loops = [Loop("ledger", SECONDS, self._record), *frequent]

    async def run(self) -> None:
        """Run the loops until cancelled."""
        scheduler = Scheduler(self.loops, lambda: True, self._metrics)
        try:
            while True:
                scheduler.turn()
                await asyncio.sleep(TICK)
        finally:
            await scheduler.cancel()

    def record(self) -> None:
        """Record the usage until now."""
        self._ledger.record(self._backend.all_workspaces())

    async def _record(self, _: ShouldContinue) -> PassResult:
        self.record()
        return PassResult()
