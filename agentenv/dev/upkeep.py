"""The work of the service's loops without a cluster: suspend, wake, end, destroy, record usage, enforce budgets.

The decisions are those of the loops (`agentenv/core/lifecycle/`). A failure for one workspace does not stop the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from agentenv.core.ledger.budgets import budget_action
from agentenv.core.ledger.published import PublishedSpend, month_of
from agentenv.core.lifecycle.deadline import end_decision, timeout_is_over
from agentenv.core.lifecycle.idle import Activity, idle_decision
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.lifecycle.wake import wake_decision
from agentenv.service.http.problems import Problem
from agentenv.service.workspaced.client import WorkspacedError

if TYPE_CHECKING:
    from agentenv.core.workspaces.workspace import Workspace
    from agentenv.dev.backend import LocalBackend
    from agentenv.dev.usage import LocalLedger
    from agentenv.service.catalog import Catalog
    from agentenv.service.ledger.published import PublishedBudgets
    from agentenv.service.workspaced.client import WorkspacedClient

_LOG = logging.getLogger(__name__)
EVERY_SECONDS, TIMEOUTS_SECONDS = 15.0, 2.0


class Upkeep:
    """The passes over the workspaces of one machine."""

    def __init__(
        self,
        backend: LocalBackend,
        catalog: Catalog,
        ledger: LocalLedger,
        budgets: PublishedBudgets,
        workspaced: WorkspacedClient,
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._backend, self._catalog, self._ledger, self._budgets = backend, catalog, ledger, budgets
        self._workspaced, self._now = workspaced, now

    async def run(self) -> None:
        """Make passes until cancelled: over timeouts every two seconds, over all else every 15."""
        await asyncio.gather(self._repeat(self.once, EVERY_SECONDS), self._repeat(self.end_timed_out, TIMEOUTS_SECONDS))

    async def _repeat(self, once: Callable[[], Awaitable[None]], every: float) -> None:
        while True:
            try:
                await once()
            except Exception:  # noqa: BLE001 - the next pass tries again
                _LOG.exception("a pass over the workspaces failed")
            await asyncio.sleep(every)

    async def end_timed_out(self) -> None:
        """End the workspaces whose timeout is over."""
        for workspace in self._backend.existing_workspaces():
            if timeout_is_over(workspace, self._now()):
                await self._keep(workspace)

    async def once(self) -> None:
        """Make one pass."""
        self._backend.destroy_expired()
        self.record()
        for workspace in self._backend.existing_workspaces():
            try:
                await self._keep(workspace)
            except Problem as problem:
                _LOG.info("%s is left as it is: %s", workspace.id, problem)

    def record(self) -> None:
        """Record the usage until now, and what it cost, by which requests are refused."""
        workspaces = self._backend.all_workspaces()
        self._ledger.record(workspaces)
        owners = {workspace.owner: self._ledger.spent(workspace.owner) for workspace in workspaces}
        self._budgets.spend = PublishedSpend(
            month_of(self._now()),
            {owner: spent.capped for owner, spent in owners.items()},
            {workspace.id: owners[workspace.owner].of(workspace.id) for workspace in workspaces},
        )

    async def _keep(self, workspace: Workspace) -> None:
        now = self._now()
        limits = self._limits(workspace)
        parent = self._backend.cached(workspace.parent) if workspace.parent else workspace
        gone = parent is None or parent.state == "deleted"
        end = end_decision(workspace, limits, now, parent_is_gone=gone)
        if end.do == "delete":
            await self._backend.delete(workspace.id, keep_for=end.keep_for or timedelta())
        elif end.do == "suspend":
            await self._backend.suspend(workspace.id, "deadline")
        elif workspace.state == "running":
            await self._rest(workspace, limits, now)
        elif workspace.state == "suspended" and workspace.wake_at is not None:
            await self._wake(workspace, now)

    async def _rest(self, workspace: Workspace, limits: Limits, now: datetime) -> None:
        if budget_action(self._budgets.nearest(workspace), self._budgets.policy.notice_at) == "suspend":
            await self._backend.suspend(workspace.id, "budget")
            return
        if not idle_decision(workspace, limits, [], now).sleep:
            return
        seen = await self.activity(workspace)
        if idle_decision(workspace, limits, [seen], self._now()).sleep:
            await self._backend.suspend(workspace.id, "idle")

    async def _wake(self, workspace: Workspace, now: datetime) -> None:
        decision = wake_decision(workspace, now)
        if decision.forget:
            self._backend.clear_wake_time(workspace.id)
        if decision.wake and self._budgets.refusal(workspace) is None:
            await self._backend.resume(workspace.id, wait=0)

    async def activity(self, workspace: Workspace) -> Activity:
        """Return when something last happened in a sandbox, which only its workspaced sees."""
        now = self._now()
        endpoint = self._backend.endpoint(workspace.id)
        if endpoint is None:
            return Activity("workspaced", known=False)
        try:
            status = await self._workspaced.status(endpoint)
        except WorkspacedError:
            return Activity("workspaced", known=False)
        return Activity("workspaced", now if status.busy else now - timedelta(seconds=status.idle_seconds))

    def _limits(self, workspace: Workspace) -> Limits:
        of_class, settings = self._catalog.get(workspace.class_name), self._catalog.settings
        return Limits(
            suspend_after=of_class.idle_after,
            max_lifetime=of_class.max_lifetime,
            retain_deleted_for=settings.storage.retain_deleted_for,
            session_retention=settings.service.session_retention,
        )
