"""Enforce budgets: notify the owner near a limit, and suspend the workspace at it.

Each pass reads the spending from the ledger, publishes what is near its limit, and records what it did with the
workspace. So a pass may be killed, or run twice at once: a workspace is suspended once, and its owner notified once a
month. Replicas refuse creates and resumes by what is published (`published.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Protocol

from agentenv.core.ledger.budgets import LimitUsage, MonthlySpend, Policy, budget_action
from agentenv.core.ledger.published import PublishedSpend, month_of
from agentenv.core.ledger.rows import month_start
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.ledger.published import PublishedBudgets
from agentenv.service.ledger.table import Ledger
from agentenv.service.loops.scheduler import isolated
from agentenv.service.telemetry.logs import audit
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.backend_protocol import CurrentWorkspace, LoopBackend

# Between two passes a workspace may spend a sixth of its hourly cost.
ENFORCE_EVERY = timedelta(minutes=10)
# How often the spending of owners is read whose workspaces do not run.
READ_INACTIVE_EVERY = timedelta(days=1)


@dataclass(frozen=True)
class BudgetPass:
    """The result of a pass."""

    owners: int
    noticed: int
    suspended: int
    failures: tuple[str, ...] = ()  # of single workspaces; the pass continued with the others


class MonthlyAccounts(Protocol):
    """The costs of owners, by whichever ledger."""

    policy: Policy

    def now(self) -> datetime:
        """Return the time by the ledger's clock."""
        ...

    def recently_spent(self, owner: str) -> MonthlySpend:
        """Return the cost of an owner's month."""
        ...


class Accounts(MonthlyAccounts):
    """The costs of owners, from the ledger."""

    def __init__(self, ledger: Ledger, policy: Policy) -> None:
        self._ledger = ledger
        self.policy = policy

    def now(self) -> datetime:
        """Return the time by the ledger's clock."""
        return self._ledger.now()

    async def month_of(self, owner: str) -> MonthlySpend:
        """Return the cost of an owner's month so far; raise `AwsUnavailableError` where the ledger does not answer."""
        return await self._ledger.calls.run(self._spent, owner, consistent=True)

    def recently_spent(self, owner: str) -> MonthlySpend:
        """Return the cost of an owner's month, perhaps without the last second; it costs half."""
        return self._spent(owner, consistent=False)

    def _spent(self, owner: str, *, consistent: bool) -> MonthlySpend:
        until = self._ledger.now() + timedelta(seconds=1)
        rows = self._ledger.of_owner(owner, month_start(until), until, consistent=consistent)
        return MonthlySpend(self.policy, rows)


@dataclass
class _Found:
    """The owners of a pass: those that run, and the class and budget of each workspace, deleted ones included."""

    running: dict[str, list[Workspace]] = field(default_factory=dict[str, list[Workspace]])
    workspaces: dict[str, dict[str, tuple[str, Decimal | None]]] = field(
        default_factory=dict[str, dict[str, tuple[str, Decimal | None]]]
    )
    failures: list[str] = field(default_factory=list[str])


class Budgets:
    """The pass over the budgets of one environment, and its figures for the replicas."""

    def __init__(
        self,
        backend: LoopBackend,
        accounts: MonthlyAccounts,
        published: PublishedBudgets,
        metrics: Metrics,
        *,
        publish: Callable[[PublishedSpend], Awaitable[object]],
        departed_owners: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """`publish` tells all replicas; `departed_owners` returns the owners of those deleted since its last call."""
        self._backend = backend
        self._accounts = accounts
        self._published = published
        self._policy = accounts.policy
        self._metrics = metrics
        self._publish = publish
        self._departed_owners = departed_owners
        # What each owner has spent in `_month`, and when it was read.
        self._spent: dict[str, tuple[datetime, MonthlySpend]] = {}
        self._month = ""

    async def enforce_all(self) -> BudgetPass:
        """Publish what owners near their limits have spent, and enforce the budgets of all running workspaces."""
        found = await self._find()
        now = await asyncio.to_thread(self._accounts.now)
        await self._read_spending(found, now)
        await self._publish(self._near(found))
        noticed = suspended = 0
        for owner, workspaces in found.running.items():
            _, spent = self._spent[owner]
            for workspace in workspaces:
                limited = spent.nearest(workspace.id, workspace.class_name, workspace.budget)
                action = budget_action(limited, self._policy.notice_at)
                if action is None:
                    continue
                with isolated(found.failures, workspace.id):
                    current = await self._backend.reread(workspace, found.failures)
                    if current is not None and action == "suspend":
                        suspended += await self._suspend(current, limited, now)
                    elif current is not None:
                        noticed += await self._notice(current, limited, now)
        return BudgetPass(len(found.running), noticed, suspended, tuple(found.failures))

    async def refuse_wake(self, current: CurrentWorkspace) -> bool:
        """Return whether a workspace whose `wake-at` has come may not be resumed; if so, notify its owner."""
        workspace = current.workspace
        limited = self._published.nearest(workspace)
        if limited is None or not limited.over:
            return False
        # From now on the budget is why it is suspended, so `wake-at` is not tried again.
        if await current.suspend("budget") in {"done", "already"}:
            self._metrics.budget("refuse")
            audit("workspace not woken", because="budget", spent=str(limited), **_facts(workspace))
            message = f"not resumed at wake-at: {limited}"
            await current.warn("BudgetSpent", message, self._accounts.now(), once=workspace.claim_uid)
        return True

    async def _find(self) -> _Found:
        """Return those that run, and what is known of all workspaces: what one has spent, it has also once restored."""
        found = _Found()
        async for workspace in self._backend.every_workspace(found.failures):
            rows = found.workspaces.setdefault(workspace.owner, {})
            rows.setdefault(workspace.id, (workspace.class_name, workspace.budget))
            if workspace.suspended_because is None and workspace.state not in {"deleting", "deleted"}:
                found.running.setdefault(workspace.owner, []).append(workspace)
        return found

    async def _read_spending(self, found: _Found, now: datetime) -> None:
        """Read what owners have spent whose workspaces ran since the last pass; of others once a day.

        Without running workspaces, an owner spends on storage alone.
        """
        if self._month != month_of(now):
            self._month, self._spent = month_of(now), {}
        active = {*found.running, *self._departed_owners()}
        for owner in sorted({*active, *found.workspaces}):
            read_at, _ = self._spent.get(owner, (None, None))
            if owner in active or read_at is None or now - read_at >= READ_INACTIVE_EVERY:
                self._spent[owner] = now, await asyncio.to_thread(self._accounts.recently_spent, owner)

    def _near(self, found: _Found) -> PublishedSpend:
        owners, workspaces = dict[str, Decimal](), dict[str, Decimal]()
        for owner, (_, spent) in self._spent.items():
            capped, near = spent.near(found.workspaces.get(owner, {}))
            if capped is not None:
                owners[owner] = capped
            workspaces |= near
        return PublishedSpend(self._month, owners, workspaces)

    async def _suspend(self, current: CurrentWorkspace, limited: LimitUsage | None, now: datetime) -> bool:
        workspace = current.workspace
        # It changed meanwhile; the next pass looks again.
        if await current.suspend("budget") != "done":
            return False
        self._metrics.budget("suspend")
        self._metrics.suspended(workspace.class_name, "budget")
        audit("workspace suspended", because="budget", spent=str(limited), **_facts(workspace))
        message = f"suspended: {limited}; its files are retained"
        await current.warn("BudgetSpent", message, now, once=workspace.claim_uid)
        return True

    async def _notice(self, current: CurrentWorkspace, limited: LimitUsage | None, now: datetime) -> bool:
        month = month_of(now)
        if current.noticed == month:
            return False
        message = f"{limited}; at the limit the workspace is suspended"
        await current.warn("BudgetNearlySpent", message, now, once=month)
        # Last: a pass that was killed before it notifies twice rather than never.
        if not await current.mark_noticed(month):
            return False
        self._metrics.budget("notice")
        audit("budget notice", spent=str(limited), **_facts(current.workspace))
        return True


def _facts(workspace: Workspace) -> dict[str, str]:
    return {"owner": workspace.owner, "workspace": workspace.id, "class": workspace.class_name}
