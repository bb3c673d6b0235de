"""The contract of the loops over workspaces, as coroutines that the tests of each backend run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from agentenv.core.ledger.budgets import MonthlySpend, Policy, Rates
from agentenv.core.ledger.rows import Row
from agentenv.core.workspaces.child_budgets import ChildBudget, ChildBudgets
from agentenv.core.workspaces.workspace import Event, Timeout, Workspace
from agentenv.service.ledger.budgets import MonthlyAccounts
from agentenv.service.loops.scheduler import Loop
from agentenv.service.workspaces.backend_protocol import LoopBackend

OWNER = "u-1"
RATES = Rates(Decimal("0.036"), Decimal("0.004"), Decimal("0.0005"))
POLICY = Policy({}, {}, Decimal(3), 80)


class SpentAccounts(MonthlyAccounts):
    """Accounts with what a test says that the owner has spent."""

    def __init__(self, now: Callable[[], datetime], class_name: str) -> None:
        self.policy = replace(POLICY, rates={class_name: RATES})
        self._now, self._class_name, self.dollars = now, class_name, dict[str, str]()

    def now(self) -> datetime:
        return self._now()

    def recently_spent(self, owner: str) -> MonthlySpend:
        assert owner == OWNER
        return MonthlySpend(self.policy, [self._row(id_, amount) for id_, amount in self.dollars.items()])

    async def month_of(self, owner: str) -> MonthlySpend:
        return self.recently_spent(owner)

    def _row(self, id_: str, dollars: str) -> Row:
        seconds = Decimal(dollars) / RATES.core_hour * 3600
        return Row(
            owner=OWNER,
            claim=id_,
            pod="p",
            began=self._now(),
            ended=self._now(),
            sandbox_class=self._class_name,
            workspace=id_,
            cpu_seconds=seconds,
        )


class LoopSubject(ABC):
    """A class with an idle time of 20 minutes, its workspaces, and the loops over them."""

    backend: LoopBackend
    loops: Iterable[Loop]
    accounts: SpentAccounts

    @abstractmethod
    async def create(self, name: str, **fields: Any) -> str:
        """Create a workspace of `OWNER` with these fields, and return its id once it runs."""

    @abstractmethod
    async def change(self, id_: str, **fields: Any) -> None:
        """Change these fields of a workspace, as its owner or a chat application does."""

    @abstractmethod
    async def get(self, id_: str) -> Workspace | None:
        """Return a workspace, also a deleted one whose data is retained."""

    @abstractmethod
    async def delete(self, id_: str, keep_for: timedelta) -> None:
        """Delete a workspace, and wait until it is deleted."""

    @abstractmethod
    async def suspend(self, id_: str) -> None:
        """Suspend a workspace, as its owner does."""

    @abstractmethod
    async def fail(self, id_: str) -> None:
        """Let the sandbox of a workspace fail."""

    @abstractmethod
    async def events(self, id_: str) -> list[Event]:
        """Return the events of a workspace."""

    @abstractmethod
    def pass_by(self, **interval: float) -> None:
        """Let time pass, for every clock."""

    @abstractmethod
    def now(self) -> datetime:
        """Return the current time."""

    @abstractmethod
    async def settle(self) -> None:
        """Let controllers and processes act on what a pass has changed."""

    async def run(self, *names: str) -> None:
        """Run a pass of some loops, which may not fail."""
        loops = {loop.name: loop for loop in self.loops}
        for name in names:
            assert (await loops[name].run(lambda: True)).failures == ()
            await self.settle()

    async def hold(self, parent: str, child: str, amount: str) -> None:
        """Let a child hold a part of its parent's budget from now on."""
        workspace = await self.get(parent)
        assert workspace is not None
        current = await self.backend.reread(workspace, [])
        assert current is not None
        held = ChildBudget(OWNER, Decimal(amount), self.now(), "a")
        assert await current.set_budget(workspace.budget, ChildBudgets({child: held}))

    async def budget(self, id_: str) -> tuple[str | None, dict[str, str], str]:
        """Return a workspace's rest, what its children hold, and what ended ones have spent."""
        workspace = await self.get(id_)
        assert workspace is not None
        children = workspace.child_budgets
        held = {child: f"{each.amount:f}" for child, each in children.held.items()}
        rest = None if workspace.budget is None else f"{workspace.budget.normalize():f}"
        return rest, held, f"{children.spent.normalize():f}"

    async def state(self, id_: str) -> tuple[str, str | None]:
        workspace = await self.get(id_)
        return (workspace.state, workspace.suspended_because) if workspace else ("gone", None)

    async def reasons(self, id_: str) -> list[str]:
        return [event.reason for event in await self.events(id_)]


async def an_idle_workspace_is_suspended(subject: LoopSubject) -> None:
    id_ = await subject.create("a")
    subject.pass_by(minutes=19)
    await subject.run("idle")
    assert await subject.state(id_) == ("running", None)
    subject.pass_by(minutes=5)
    await subject.run("idle")
    assert await subject.state(id_) == ("suspended", "idle")


async def a_workspace_that_says_it_is_busy_is_not_suspended(subject: LoopSubject) -> None:
    id_ = await subject.create("a")
    await subject.change(id_, busy_until=subject.now() + timedelta(hours=2))
    subject.pass_by(hours=1)
    await subject.run("idle")
    assert await subject.state(id_) == ("running", None)


async def a_deadline_suspends_for_good(subject: LoopSubject) -> None:
    id_ = await subject.create("a", deadline=subject.now() + timedelta(minutes=5))
    await subject.run("ending")
    assert await subject.state(id_) == ("running", None)
    subject.pass_by(minutes=6)
    await subject.run("ending", "waking")
    assert await subject.state(id_) == ("suspended", "deadline")


async def a_wake_time_resumes_once(subject: LoopSubject) -> None:
    id_ = await subject.create("a")
    await subject.change(id_, wake_at=subject.now() + timedelta(minutes=8))
    await subject.suspend(id_)
    await subject.run("waking")
    assert (await subject.state(id_))[0] == "suspended"
    subject.pass_by(minutes=9)
    await subject.run("waking")
    workspace = await subject.get(id_)
    assert workspace is not None
    assert (workspace.state, workspace.wake_at) == ("running", None)


async def a_timeout_destroys_a_workspace_with_its_data(subject: LoopSubject) -> None:
    end = subject.now() + timedelta(seconds=60)
    id_ = await subject.create("a", deadline=end, timeout=Timeout(60, "delete"))
    subject.pass_by(seconds=59)
    await subject.run("timeouts")
    assert await subject.state(id_) == ("running", None)
    subject.pass_by(seconds=1)
    await subject.run("timeouts", "destroying")
    assert await subject.state(id_) == ("gone", None)


async def a_child_is_deleted_after_its_parent(subject: LoopSubject) -> None:
    parent = await subject.create("a")
    child = await subject.create("b", parent=parent)
    await subject.run("ending")
    await subject.delete(parent, timedelta(days=1))
    subject.pass_by(minutes=1)
    # A parent that moves to another class does not exist for a moment.
    await subject.run("ending")
    assert await subject.state(child) == ("running", None)
    subject.pass_by(minutes=6)
    await subject.run("ending")
    deleted = await subject.get(child)
    assert deleted is not None
    assert deleted.state == "deleted"
    assert deleted.destroy_after is not None


async def an_ended_child_gives_back_what_it_did_not_spend(subject: LoopSubject) -> None:
    parent = await subject.create("a", budget=Decimal(3))
    child = await subject.create("b", parent=parent, budget=Decimal(2))
    await subject.hold(parent, child, "2")
    subject.pass_by(minutes=20)
    await subject.run("child-budgets")
    assert await subject.budget(parent) == ("3", {child: "2"}, "0")
    subject.accounts.dollars[child] = "0.5"
    await subject.delete(child, timedelta(days=1))
    subject.pass_by(minutes=1)
    await subject.run("child-budgets")
    subject.pass_by(minutes=14)
    await subject.run("child-budgets")
    assert await subject.budget(parent) == ("3", {child: "2"}, "0")
    subject.pass_by(minutes=2)
    await subject.run("child-budgets", "child-budgets")
    assert await subject.budget(parent) == ("4.5", {}, "0.5")
    subject.pass_by(days=31)
    await subject.run("child-budgets", "child-budgets")
    assert await subject.budget(parent) == ("5", {}, "0")


async def a_child_that_was_never_created_gives_back_its_budget(subject: LoopSubject) -> None:
    parent = await subject.create("a", budget=Decimal(3))
    await subject.run("child-budgets")
    await subject.hold(parent, "w-never", "2")
    for minutes, expected in ((1, "3"), (14, "3"), (2, "5")):
        subject.pass_by(minutes=minutes)
        await subject.run("child-budgets")
        assert (await subject.budget(parent))[0] == expected


async def a_parent_without_a_budget_gets_none_back(subject: LoopSubject) -> None:
    parent = await subject.create("a")
    await subject.hold(parent, "w-never", "2")
    await subject.run("child-budgets")
    subject.pass_by(minutes=16)
    await subject.run("child-budgets")
    assert await subject.budget(parent) == (None, {}, "0")


async def retained_data_is_destroyed_when_its_time_is_over(subject: LoopSubject) -> None:
    id_ = await subject.create("a")
    await subject.delete(id_, timedelta(days=1))
    subject.pass_by(hours=23)
    await subject.run("retention", "destroying")
    assert (await subject.state(id_))[0] == "deleted"
    subject.pass_by(hours=2)
    await subject.run("retention", "retention")
    assert await subject.state(id_) == ("gone", None)


async def the_end_of_its_chat_shortens_the_retention_of_a_session(subject: LoopSubject) -> None:
    id_ = await subject.create("a", mode="session", archive="chat-1")
    await subject.delete(id_, timedelta(days=30))
    await subject.change(id_, archive_ended=subject.now())
    await subject.run("retention")
    deleted = await subject.get(id_)
    assert deleted is not None
    assert deleted.destroy_after == subject.now() + timedelta(days=7)


async def near_its_budget_an_owner_is_notified_once(subject: LoopSubject) -> None:
    id_ = await subject.create("a")
    subject.accounts.dollars[id_] = "2.5"
    await subject.run("budgets", "budgets")
    assert await subject.state(id_) == ("running", None)
    assert (await subject.reasons(id_)).count("BudgetNearlySpent") == 1


async def a_spent_budget_suspends_and_its_wake_time_does_not_resume(subject: LoopSubject) -> None:
    id_ = await subject.create("a")
    other = await subject.create("b")
    await subject.change(other, wake_at=subject.now() + timedelta(minutes=1))
    await subject.suspend(other)
    subject.accounts.dollars[id_] = "3"
    await subject.run("budgets", "budgets")
    assert await subject.state(id_) == ("suspended", "budget")
    subject.pass_by(minutes=2)
    await subject.run("waking", "waking")
    assert await subject.state(other) == ("suspended", "budget")
    for each in (id_, other):
        assert (await subject.reasons(each)).count("BudgetSpent") == 1


async def a_failed_sandbox_is_replaced_but_not_again_at_once(subject: LoopSubject) -> None:
    id_ = await subject.create("a")
    await subject.fail(id_)
    await subject.run("healing")
    assert await subject.state(id_) == ("suspended", "failed")
    await subject.run("healing")
    assert await subject.state(id_) == ("running", None)
    assert (await subject.reasons(id_)).count("PodReplaced") == 1
    await subject.fail(id_)
    await subject.run("healing", "healing")
    assert (await subject.state(id_))[0] == "failed"
    subject.pass_by(minutes=1)
    await subject.run("healing", "healing")
    assert await subject.state(id_) == ("running", None)


CONTRACT: tuple[Callable[[LoopSubject], Awaitable[None]], ...] = (
    an_idle_workspace_is_suspended,
    a_workspace_that_says_it_is_busy_is_not_suspended,
    a_deadline_suspends_for_good,
    a_wake_time_resumes_once,
    a_timeout_destroys_a_workspace_with_its_data,
    a_child_is_deleted_after_its_parent,
    an_ended_child_gives_back_what_it_did_not_spend,
    a_child_that_was_never_created_gives_back_its_budget,
    a_parent_without_a_budget_gets_none_back,
    retained_data_is_destroyed_when_its_time_is_over,
    the_end_of_its_chat_shortens_the_retention_of_a_session,
    near_its_budget_an_owner_is_notified_once,
    a_spent_budget_suspends_and_its_wake_time_does_not_resume,
    a_failed_sandbox_is_replaced_but_not_again_at_once,
)
