"""Requests for workspaces go on while remote services hang: they call none of them."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime
from typing import Any, cast

from agentenv.core.ledger.budgets import MonthlySpend, Policy
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.aws.remote import THREADS, Remote
from agentenv.service.ledger.budgets import Accounts
from agentenv.service.ledger.published import PublishedBudgets
from tests.fast.service.http.application import ApiClient, run_with_api

VETTED = {"claims": {"team": "vetted"}}


class HangingService:
    """A remote service that accepts calls and answers none until it is released."""

    def __init__(self) -> None:
        self.calls, self.released, self.waiting = (
            Remote("ledger", deadline=600),
            threading.Event(),
            threading.Semaphore(0),
        )

    def __call__(self, *_: Any, **__: Any) -> Any:
        self.waiting.release()
        self.released.wait()
        return []

    def now(self) -> datetime:
        return self()

    of_owner = __call__


def test_requests_for_workspaces_go_on_while_the_ledger_and_other_services_hang() -> None:
    hanging = HangingService()

    async def act(api: ApiClient) -> None:
        dependencies = api.dependencies
        policy = Policy({}, {}, None, 80)
        dependencies.ledger = cast("Any", hanging)
        dependencies.accounts = Accounts(cast("Any", hanging), policy)
        dependencies.budgets = PublishedBudgets(policy, api.stage.metrics, dependencies.now)

        async def settle(_: Workspace) -> None:
            await hanging.calls.run(hanging)

        dependencies.settle = settle
        # Nothing may be called of these; an attribute that is missing would be a 500.
        dependencies.exchange = dependencies.vault = cast("Any", object())
        before = [asyncio.create_task(dependencies.accounts.month_of("u-1")) for _ in range(2 * THREADS)]
        for _ in range(THREADS):
            assert await asyncio.to_thread(hanging.waiting.acquire, timeout=10)
        for number in range(3):
            created = await api.request("ann", "POST", "/workspaces", {"class": "one", "key": f"k-{number}"}, **VETTED)
            assert (created.status_code, created.json()["state"]) == (201, "running")
            path = f"/workspaces/{created.json()['id']}"
            for verb in ("suspend", "resume?wait=0"):
                assert (await api.request("ann", "POST", f"{path}/{verb}", **VETTED)).status_code in {200, 202}
            assert (await api.request("ann", "GET", path, **VETTED)).status_code == 200
        assert not any(task.done() for task in before)
        hanging.released.set()
        for spent in await asyncio.gather(*before, return_exceptions=True):
            assert isinstance(spent, MonthlySpend | Exception)

    try:
        run_with_api(act, {"name": "one"})
    finally:
        hanging.released.set()
