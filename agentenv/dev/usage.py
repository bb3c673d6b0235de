"""The usage of workspaces and its cost, as the ledger of an environment has it, in SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from agentenv.core.classes.sizes import sizes_of
from agentenv.core.ledger.budgets import MonthlySpend
from agentenv.core.ledger.holdings import Holding, Pod, spans
from agentenv.core.ledger.rows import BYTES_A_GIB, NOTHING, VOLUME_PREFIX, Row, month_start
from agentenv.service.ledger.usage import Meter

if TYPE_CHECKING:
    from agentenv.core.ledger.budgets import Policy
    from agentenv.core.workspaces.workspace import Workspace
    from agentenv.dev.records import Records
    from agentenv.dev.sandboxes import Sandboxes
    from agentenv.service.catalog import Catalog, Class


class LocalLedger:
    """The rows of usage, and what they cost."""

    def __init__(
        self, records: Records, catalog: Catalog, sandboxes: Sandboxes, policy: Policy, now: Callable[[], datetime]
    ) -> None:
        self._records, self._catalog, self._sandboxes, self._now = records, catalog, sandboxes, now
        self.policy = policy

    def of_owner(self, owner: str, since: datetime, until: datetime) -> list[Row]:
        """Return an owner's rows that began in an interval, in order."""
        return self._records.usage(owner, since, until)

    async def rows_of(self, owner: str, since: datetime, until: datetime) -> list[Row]:
        """Return the same for a request."""
        return self.of_owner(owner, since, until)

    async def month_of(self, owner: str) -> MonthlySpend:
        """Return the cost of an owner's month so far, for a request."""
        return self.recently_spent(owner)

    def now(self) -> datetime:
        """Return the time by this machine's clock."""
        return self._now()

    def recently_spent(self, owner: str) -> MonthlySpend:
        """Return the cost of an owner's month so far."""
        now = self._now()
        return MonthlySpend(self.policy, self.of_owner(owner, month_start(now), now + timedelta(seconds=1)))

    def record(self, workspaces: Iterable[Workspace]) -> None:
        """Write the usage of all workspaces until now; `workspaces` are those that exist and those retained."""
        meter = Meter()
        # A class that the stack file no longer has costs nothing.
        existing = [workspace for workspace in workspaces if workspace.class_name in self._catalog.classes]
        holdings = [self._holding(workspace) for workspace in existing]
        for span in spans(holdings, self._records.open_usage(), self._now().replace(microsecond=0)):
            self._records.put_usage(meter.row(span))

    def _holding(self, workspace: Workspace) -> Holding:
        of_class = self._catalog.get(workspace.class_name)
        since = workspace.created or self._now()
        claim, asleep, pods = workspace.claim_uid, workspace.turned, tuple[Pod, ...]()
        if workspace.state == "deleted":
            claim, since = f"{VOLUME_PREFIX}{workspace.id}", workspace.deleted_at or since
            asleep = since
        elif workspace.state != "suspended":
            asleep = None
            pods = _pods(self._sandboxes, workspace, of_class)
        storage = of_class.plan.settings.storage.size.value / BYTES_A_GIB if of_class.has_homes else NOTHING
        return Holding(
            owner=workspace.owner,
            claim=claim,
            sandbox_class=workspace.class_name,
            workspace=workspace.id,
            since=since.replace(microsecond=0),
            mode=workspace.mode,
            task=workspace.task or "",
            pods=pods,
            asleep_since=asleep.replace(microsecond=0) if asleep else None,
            storage_gib=storage,
        )


def _pods(sandboxes: Sandboxes, workspace: Workspace, of_class: Class) -> tuple[Pod, ...]:
    started = sandboxes.started(workspace.id)
    if started is None:
        return ()
    uid, began = started
    resources = sizes_of(of_class.plan.settings)[workspace.current_size]
    cores, memory = resources.cpu.value, resources.memory.value / BYTES_A_GIB
    return (Pod(uid=uid, began=began.replace(microsecond=0), cores=cores, memory_gib=memory),)
