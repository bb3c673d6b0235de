"""Sandboxes without processes: each is ready in the next turn of the event loop, or when a test says so."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from agentenv.core.ledger.rates import budget_policy
from agentenv.core.workspaces.workspace import Workspace
from agentenv.dev.backend import LocalBackend
from agentenv.dev.records import Records
from agentenv.dev.sandboxes import Report, Sandboxes
from agentenv.dev.settings import default_settings
from agentenv.dev.swarms import LocalSwarms
from agentenv.dev.upkeep import Upkeep
from agentenv.dev.usage import LocalLedger
from agentenv.service.catalog import Catalog, Class
from agentenv.service.ledger.published import PublishedBudgets
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaced.client import Status, WorkspacedClient
from agentenv.service.workspaces.backend_protocol import Endpoint
from tests.fast.service.loops.loops_contract import SpentAccounts

ADDRESS = "127.64.0.1"


def status(*, ready: bool = True, phase: str = "Running", **state: Any) -> dict[str, Any]:
    """Return the status of a pod, as the rehearsal's pods report it."""
    return {
        "phase": phase,
        "podIP": ADDRESS,
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "containerStatuses": [{"state": state or {"running": {}}}],
    }


@dataclass
class Clock:
    """A clock that a test sets."""

    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, **interval: float) -> None:
        self.now += timedelta(**interval)


@dataclass
class SimulatedSandboxes:
    """Sandboxes by their workspaces, with the report of each."""

    clock: Clock
    ready: bool = True
    running: dict[str, tuple[str, datetime, Report, str]] = field(default_factory=dict[str, Any])
    destroyed: list[str] = field(default_factory=list[str])

    async def start(self, workspace: Workspace, of_class: Class, report: Report) -> None:  # noqa: ARG002 - the real one's
        self.running[workspace.id] = (str(uuid.uuid4()), self.clock(), report, workspace.claim_uid)
        if self.ready:
            asyncio.get_running_loop().call_soon(report, workspace.id, status())

    def report(self, id_: str, document: dict[str, Any]) -> None:
        self.running[id_][2](id_, document)

    async def stop(self, id_: str) -> None:
        self.running.pop(id_, None)

    async def stop_all(self) -> None:
        self.running.clear()

    def destroy_home(self, id_: str) -> None:
        self.destroyed.append(id_)

    def endpoint(self, id_: str, address: str) -> Endpoint | None:
        found = self.running.get(id_)
        return Endpoint(found[0], found[3], address, 49983) if found else None

    def started(self, id_: str) -> tuple[str, datetime] | None:
        found = self.running.get(id_)
        return found[:2] if found else None


@dataclass
class Quiet:
    """A workspaced that reports how long nothing happened."""

    seconds: float = 1e6
    busy: bool = False

    async def status(self, _: Endpoint) -> Status:
        return Status(self.seconds, self.busy)


@dataclass
class LocalStage:
    """A local backend over simulated sandboxes, with its upkeep."""

    backend: LocalBackend
    swarms: LocalSwarms
    catalog: Catalog
    sandboxes: SimulatedSandboxes
    records: Records
    upkeep: Upkeep
    ledger: LocalLedger
    budgets: PublishedBudgets
    clock: Clock
    quiet: Quiet
    accounts: SpentAccounts


@contextlib.asynccontextmanager
async def local_stage(folder: Path, *, spent: bool = False) -> AsyncGenerator[LocalStage]:
    """Yield a backend whose records are in a folder; with `spent` a test says what owners have spent."""
    clock, quiet, settings = Clock(), Quiet(), default_settings()
    catalog, records, simulated = Catalog(settings), Records(folder / "records.sqlite"), SimulatedSandboxes(clock)
    sandboxes = cast("Sandboxes", simulated)
    policy = budget_policy(settings)
    ledger = LocalLedger(records, catalog, sandboxes, policy, clock)
    backend = LocalBackend(catalog, records, sandboxes, now=clock)
    began, accounts = clock(), SpentAccounts(clock, "standard")
    budgets = PublishedBudgets(accounts.policy if spent else policy, Metrics(), clock)

    def monotonic() -> float:
        return (clock() - began).total_seconds()

    swarms = LocalSwarms(backend, catalog, records, now=clock)
    upkeep = Upkeep(
        backend,
        catalog,
        ledger,
        swarms=swarms,
        published=budgets,
        workspaced=cast("WorkspacedClient", quiet),
        metrics=Metrics(),
        now=clock,
        monotonic=monotonic,
        accounts=accounts if spent else None,
    )
    yield LocalStage(backend, swarms, catalog, simulated, records, upkeep, ledger, budgets, clock, quiet, accounts)
    await backend.close()
    records.close()
