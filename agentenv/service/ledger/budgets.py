"""Enforce budgets: notify the owner near a limit, suspend the workspace at it, and refuse to resume it beyond.

Each pass reads the spending from the ledger and records what it did on the claim. So a pass may be killed, or run twice
at once: a workspace is suspended once, and its owner notified once a month.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from agentenv.core.classes.names import USER_LABEL, WORKSPACE_LABEL
from agentenv.core.ledger.budgets import LimitUsage, MonthlySpend, Policy, budget_action, format_dollars
from agentenv.core.ledger.rows import month_start
from agentenv.core.values.object_fields import read_amount, required, strings
from agentenv.core.workspaces.workspace import BUDGET, DOMAIN, SUSPENDED_BECAUSE, Workspace
from agentenv.service.aws.clients import AwsUnavailableError
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import CLAIMS, EVENTS, Document, KubeApi, KubeApiError, section
from agentenv.service.kube.unreadable import ODD, readable
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
# The cache of owners' spending in a replica. The ledger itself is written every ten minutes.
CACHE_SECONDS = 60.0
MAX_CACHED = 10_000


@dataclass(frozen=True)
class BudgetPass:
    """The result of a pass."""

    owners: int
    noticed: int
    suspended: int
    failures: tuple[str, ...] = ()  # of single claims; the pass continued with the others


class Budgets:
    """The budgets of one environment."""

    def __init__(
        self,
        cluster: KubeApi,
        ledger: Ledger,
        policy: Policy,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self.policy = policy
        self._metrics = metrics
        self._clock = clock
        self._recent: dict[str, tuple[float, MonthlySpend]] = {}

    async def enforce_all(self) -> BudgetPass:
        """Enforce the budgets of all running workspaces."""
        awake: dict[str, list[Document]] = {}
        failures: list[str] = []
        async for claim, _ in readable("SandboxClaim", self._cluster.list(CLAIMS), _claim_budget, failures):
            about = section(claim, "metadata")
            owner = _labels(claim).get(USER_LABEL)
            suspended = SUSPENDED_BECAUSE in section(about, "annotations")
            if owner and not suspended and not about.get("deletionTimestamp"):
                awake.setdefault(owner, []).append(claim)
        noticed = suspended = 0
        for owner, claims in awake.items():
            spent = await asyncio.to_thread(self._spent, owner)
            for claim in claims:
                limited = spent.nearest(*_claim_budget(claim))
                try:
                    match budget_action(limited, self.policy.notice_at):
                        case "suspend":
                            suspended += await self._suspend(claim, limited)
                        case "notice":
                            noticed += await self._notice(claim, limited)
                        case None:
                            pass
                except KubeApiError as refusal:
                    if refusal.transient:
                        raise
                    failures.append(f"{claim['metadata']['name']}: {refusal}")
                except ODD as failure:
                    failures.append(f"{claim['metadata']['name']} cannot be read: {type(failure).__name__}")
        return BudgetPass(len(awake), noticed, suspended, tuple(failures))

    async def refusal(self, workspace: Workspace) -> Problem | None:
        """Return why a workspace may not be created or resumed: its budget of this month is spent.

        Where the ledger does not answer, it may: an outage of the ledger does not stop the owner's work, and the next
        pass suspends what is over its budget. An owner recently far from all limits is not looked up again.
        """
        if self._was_far_from_limits(workspace):
            return None
        read_at = self._clock()
        try:
            spent = await asyncio.to_thread(self.spent, workspace.owner)
        except AwsUnavailableError as failure:
            _log_unknown_spending(workspace, failure)
            return None
        self._recent[workspace.owner] = read_at, spent
        while len(self._recent) > MAX_CACHED:
            del self._recent[next(iter(self._recent))]
        limited = spent.nearest(workspace.id, workspace.class_name, workspace.budget)
        if limited is None or not limited.over:
            return None
        self._metrics.budget("refuse")
        return Problem(
            "budget-spent",
            f"the cost of this month is {limited}",
            f"have the budget raised, or wait until {_next_month(self._ledger.now()):%Y-%m-%d}; nothing was deleted",
            spent=str(format_dollars(limited.spent)),
            limit=str(limited.limit),
            of=limited.of,
        )

    async def refuse_wake(self, workspace: Workspace, claim: Document) -> bool:
        """Return whether a workspace whose `wake-at` has come may not be resumed; if so, notify its owner.

        Where the ledger does not answer, it may be resumed, as by its owner.
        """
        try:
            spent = await asyncio.to_thread(self.spent, workspace.owner)
        except AwsUnavailableError as failure:
            _log_unknown_spending(workspace, failure)
            return False
        limited = spent.nearest(workspace.id, workspace.class_name, workspace.budget)
        if limited is None or not limited.over:
            return False
        # From now on the budget is why it is suspended, so `wake-at` is not tried again.
        if await suspend(self._cluster, claim, "budget") in {"done", "already"}:
            self._metrics.budget("refuse")
            audit("workspace not woken", because="budget", spent=str(limited), **_facts(claim))
            await self._record_event(
                claim, "BudgetSpent", f"not resumed at wake-at: {limited}", claim["metadata"]["uid"]
            )
        return True

    def _was_far_from_limits(self, workspace: Workspace) -> bool:
        """Return whether, a minute ago at most, the spending was below the notice threshold of every limit.

        Nobody spends the rest in a minute. Only the spending is cached; limits are read anew.
        """
        read_at, spent = self._recent.get(workspace.owner, (0.0, None))
        if spent is None or self._clock() - read_at > CACHE_SECONDS:
            return False
        limited = spent.nearest(workspace.id, workspace.class_name, workspace.budget)
        return limited is None or (limited.percent < self.policy.notice_at and not limited.over)

    def spent(self, owner: str) -> MonthlySpend:
        """Return the cost of an owner's month so far."""
        return self._spent(owner, now=True)

    def _spent(self, owner: str, *, now: bool = False) -> MonthlySpend:
        until = self._ledger.now() + timedelta(seconds=1)
        return MonthlySpend(self.policy, self._ledger.of_owner(owner, month_start(until), until, consistent=now))

    async def _suspend(self, claim: Document, limited: LimitUsage | None) -> bool:
        metadata = claim["metadata"]
        # The claim changed meanwhile; the next pass looks again.
        if await suspend(self._cluster, claim, "budget") != "done":
            return False
        self._metrics.budget("suspend")
        self._metrics.suspended(_claim_budget(claim)[1], "budget")
        audit("workspace suspended", because="budget", spent=str(limited), **_facts(claim))
        await self._record_event(claim, "BudgetSpent", f"suspended: {limited}; its files are retained", metadata["uid"])
        return True

    async def _notice(self, claim: Document, limited: LimitUsage | None) -> bool:
        month = f"{month_start(self._ledger.now()):%Y-%m}"
        if section(claim["metadata"], "annotations").get(NOTICED) == month:
            return False
        await self._record_event(
            claim, "BudgetNearlySpent", f"{limited}; at the limit the workspace is suspended", month
        )
        # Last: a pass that was killed before it notifies twice rather than never.
        if not await self._cluster.patch(CLAIMS, claim, {"metadata": {"annotations": {NOTICED: month}}}):
            return False
        self._metrics.budget("notice")
        audit("budget notice", spent=str(limited), **_facts(claim))
        return True

    async def _record_event(self, claim: Document, reason: str, message: str, suffix: str) -> None:
        """Create an event of the claim under a fixed name, so that it exists once; a failure does not stop the pass."""
        metadata = claim["metadata"]
        now = self._ledger.now()
        timestamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        event: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name']}.{reason.lower()}.{suffix}", "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": claim.get("apiVersion"),
                "kind": "SandboxClaim",
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "reason": reason,
            "message": message,
            "type": "Warning",
            "source": {"component": "workspace-service"},
            "firstTimestamp": timestamp,
            "lastTimestamp": timestamp,
            "count": 1,
        }
        try:
            await self._cluster.create(EVENTS, event)
        except KubeApiError as refusal:
            _LOG.warning("an event was not recorded", extra={"facts": {"why": str(refusal), **_facts(claim)}})


def budget_of(claim: Document) -> Decimal | None:
    """Return a claim's own budget; None where it has none or it is not a number, and the class's applies."""
    return read_amount(strings(section(claim, "metadata"), "annotations").get(BUDGET))


def _log_unknown_spending(workspace: Workspace, failure: AwsUnavailableError) -> None:
    facts = {"owner": workspace.owner, "why": str(failure)}
    _LOG.warning("the owner's spending cannot be read", extra={"facts": facts})


def _claim_budget(claim: Document) -> tuple[str, str, Decimal | None]:
    """Return a claim's workspace, class and own budget."""
    workspace = _labels(claim).get(WORKSPACE_LABEL) or required(claim, "metadata", "name")
    return workspace, required(claim, "metadata", "namespace").removeprefix(_SPACE_PREFIX), budget_of(claim)


def _labels(claim: Document) -> dict[str, str]:
    return strings(section(section(claim, "spec"), "additionalPodMetadata"), "labels")


def _facts(claim: Document) -> dict[str, str]:
    workspace, sandbox_class, _ = _claim_budget(claim)
    return {"owner": _labels(claim).get(USER_LABEL, ""), "workspace": workspace, "class": sandbox_class}


def _next_month(now: datetime) -> datetime:
    return month_start(month_start(now) + timedelta(days=32))
