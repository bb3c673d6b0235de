"""Enforce budgets: notify the owner near a limit, and suspend the workspace at it.

Each pass reads the spending from the ledger, publishes what is near its limit, and records what it did on the claim. So
a pass may be killed, or run twice at once: a workspace is suspended once, and its owner notified once a month. Replicas
refuse creates and resumes by what is published (`published.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from agentenv.core.classes.names import USER_LABEL, WORKSPACE_LABEL
from agentenv.core.ledger.budgets import LimitUsage, MonthlySpend, Policy, budget_action
from agentenv.core.ledger.published import PublishedSpend, month_of
from agentenv.core.ledger.rows import month_start
from agentenv.core.values.object_fields import read_amount, required, strings
from agentenv.core.workspaces.records import workspace_of_volume
from agentenv.core.workspaces.workspace import BUDGET, DOMAIN, SUSPENDED_BECAUSE, Workspace
from agentenv.service.kube.client import CLAIMS, VOLUMES, Document, KubeApi, KubeApiError, section
from agentenv.service.kube.record_event import claim_reference, record_event
from agentenv.service.kube.unreadable import ODD, readable
from agentenv.service.ledger.published import PublishedBudgets, publish
from agentenv.service.ledger.table import Ledger
from agentenv.service.telemetry.logs import audit
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.suspend import suspend

_LOG = logging.getLogger(__name__)
_SPACE_PREFIX = "sandbox-"
# The month in which the owner of a workspace was last notified.
NOTICED = f"{DOMAIN}budget-noticed"
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
    failures: tuple[str, ...] = ()  # of single claims; the pass continued with the others


class Accounts:
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
    """The owners of a pass: their running claims, and the class and budget of each workspace, deleted ones included."""

    running: dict[str, list[Document]] = field(default_factory=dict[str, list[Document]])
    workspaces: dict[str, dict[str, tuple[str, Decimal | None]]] = field(
        default_factory=dict[str, dict[str, tuple[str, Decimal | None]]]
    )
    failures: list[str] = field(default_factory=list[str])


class Budgets:
    """The pass over the budgets of one environment, and its figures for the replicas."""

    def __init__(
        self,
        cluster: KubeApi,
        accounts: Accounts,
        published: PublishedBudgets,
        metrics: Metrics,
        *,
        namespace: str,
        departed_owners: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """`departed_owners` returns the owners of the claims that were deleted since its last call."""
        self._cluster = cluster
        self._accounts = accounts
        self._published = published
        self._policy = accounts.policy
        self._metrics = metrics
        self._namespace = namespace
        self._departed_owners = departed_owners
        # What each owner has spent in `_month`, and when it was read.
        self._spent: dict[str, tuple[datetime, MonthlySpend]] = {}
        self._month = ""

    async def enforce_all(self) -> BudgetPass:
        """Publish what owners near their limits have spent, and enforce the budgets of all running workspaces."""
        found = await self._find()
        now = await asyncio.to_thread(self._accounts.now)
        await self._read_spending(found, now)
        await publish(self._cluster, self._namespace, self._near(found))
        noticed = suspended = 0
        for owner, claims in found.running.items():
            _, spent = self._spent[owner]
            for claim in claims:
                limited = spent.nearest(*_claim_budget(claim))
                try:
                    match budget_action(limited, self._policy.notice_at):
                        case "suspend":
                            suspended += await self._suspend(claim, limited)
                        case "notice":
                            noticed += await self._notice(claim, limited, now)
                        case None:
                            pass
                except KubeApiError as refusal:
                    if refusal.transient:
                        raise
                    found.failures.append(f"{claim['metadata']['name']}: {refusal}")
                except ODD as failure:
                    found.failures.append(f"{claim['metadata']['name']} cannot be read: {type(failure).__name__}")
        return BudgetPass(len(found.running), noticed, suspended, tuple(found.failures))

    async def refuse_wake(self, workspace: Workspace, claim: Document) -> bool:
        """Return whether a workspace whose `wake-at` has come may not be resumed; if so, notify its owner."""
        limited = self._published.nearest(workspace)
        if limited is None or not limited.over:
            return False
        # From now on the budget is why it is suspended, so `wake-at` is not tried again.
        if await suspend(self._cluster, claim, "budget") in {"done", "already"}:
            self._metrics.budget("refuse")
            audit("workspace not woken", because="budget", spent=str(limited), **_facts(claim))
            await self._warn(claim, "BudgetSpent", f"not resumed at wake-at: {limited}", claim["metadata"]["uid"])
        return True

    async def _find(self) -> _Found:
        """Return the claims that run, and what is known of all workspaces, deleted ones included."""
        found = _Found()
        async for claim, about in readable("SandboxClaim", self._cluster.list(CLAIMS), _claim_budget, found.failures):
            owner = _labels(claim).get(USER_LABEL)
            if not owner:
                continue
            workspace, sandbox_class, budget = about
            found.workspaces.setdefault(owner, {})[workspace] = sandbox_class, budget
            metadata = section(claim, "metadata")
            if SUSPENDED_BECAUSE not in section(metadata, "annotations") and not metadata.get("deletionTimestamp"):
                found.running.setdefault(owner, []).append(claim)
        # Restored on its data, a deleted workspace has spent what it spent before.
        volumes = readable("PersistentVolume", self._cluster.list(VOLUMES), workspace_of_volume, found.failures)
        async for _, deleted in volumes:
            if deleted is not None:
                rows = found.workspaces.setdefault(deleted.owner, {})
                rows.setdefault(deleted.id, (deleted.class_name, deleted.budget))
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

    async def _suspend(self, claim: Document, limited: LimitUsage | None) -> bool:
        metadata = claim["metadata"]
        # The claim changed meanwhile; the next pass looks again.
        if await suspend(self._cluster, claim, "budget") != "done":
            return False
        self._metrics.budget("suspend")
        self._metrics.suspended(_claim_budget(claim)[1], "budget")
        audit("workspace suspended", because="budget", spent=str(limited), **_facts(claim))
        message = f"suspended: {limited}; its files are retained"
        await self._warn(claim, "BudgetSpent", message, metadata["uid"])
        return True

    async def _notice(self, claim: Document, limited: LimitUsage | None, now: datetime) -> bool:
        month = month_of(now)
        if section(claim["metadata"], "annotations").get(NOTICED) == month:
            return False
        await self._warn(claim, "BudgetNearlySpent", f"{limited}; at the limit the workspace is suspended", month)
        # Last: a pass that was killed before it notifies twice rather than never.
        if not await self._cluster.patch(CLAIMS, claim, {"metadata": {"annotations": {NOTICED: month}}}):
            return False
        self._metrics.budget("notice")
        audit("budget notice", spent=str(limited), **_facts(claim))
        return True

    async def _warn(self, claim: Document, reason: str, message: str, suffix: str) -> None:
        """Record an event of the claim under a fixed name, so that it exists once."""
        about, now = claim_reference(claim), self._accounts.now()
        await record_event(self._cluster, about, reason, message, now, warning=True, suffix=suffix)


def budget_of(claim: Document) -> Decimal | None:
    """Return a claim's own budget; None where it has none or it is not a number, and the class's applies."""
    return read_amount(strings(section(claim, "metadata"), "annotations").get(BUDGET))


def _claim_budget(claim: Document) -> tuple[str, str, Decimal | None]:
    """Return a claim's workspace, class and own budget."""
    workspace = _labels(claim).get(WORKSPACE_LABEL) or required(claim, "metadata", "name")
    return workspace, required(claim, "metadata", "namespace").removeprefix(_SPACE_PREFIX), budget_of(claim)


def _labels(claim: Document) -> dict[str, str]:
    return strings(section(section(claim, "spec"), "additionalPodMetadata"), "labels")


def _facts(claim: Document) -> dict[str, str]:
    workspace, sandbox_class, _ = _claim_budget(claim)
    return {"owner": _labels(claim).get(USER_LABEL, ""), "workspace": workspace, "class": sandbox_class}
