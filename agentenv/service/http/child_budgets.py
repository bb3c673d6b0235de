"""The budget of a child comes out of its parent's: taken before the child is created or restored, in one write.

A create that is killed after it took the budget has created a child that holds it, or none: then the loop
`child-budgets` gives it back. A create that is refused gives it back itself.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal

from agentenv.core.ledger.published import month_of
from agentenv.core.workspaces.child_budgets import Budget, ChildBudget
from agentenv.core.workspaces.workspace import Changes, CreateRequest, Workspace
from agentenv.service.aws.clients import AwsUnavailableError
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.auth.permissions import require
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.problems import Problem

_CENT = Decimal("0.01")


async def spent_by(dependencies: Dependencies, workspace: Workspace) -> tuple[Decimal, Decimal]:
    """Return what a workspace has spent this month, and what its owner has spent in all."""
    if dependencies.accounts is None:
        return Decimal(0), Decimal(0)
    try:
        month = await dependencies.accounts.month_of(workspace.owner)
    except AwsUnavailableError as failure:
        raise Problem("unavailable", "the ledger does not answer", "retry in a few seconds", retry_after=2) from failure
    return month.of(workspace.id), month.total


@contextlib.asynccontextmanager
async def paid_by_parent(dependencies: Dependencies, caller: Caller, request: CreateRequest) -> AsyncGenerator[None]:
    """Take the budget of a new child from its parent; give it back where the create within the context is refused."""
    attempt = None
    if request.parent is not None:
        existing = await dependencies.backend.get(request.id)
        if existing is None or existing.state == "deleted":
            parent = await dependencies.backend.get(request.parent)
            await _refuse_descendant(dependencies, request.id, parent)
            child = _Child(request.id, request.owner, request.budget)
            attempt = await _take(dependencies, _living(parent, request.parent), child, caller)
    try:
        yield
    except Problem as problem:
        # After an uncertain answer the child may exist, or be created yet: the loop decides later.
        if attempt is not None and request.parent is not None and problem.kind != "unavailable":
            with contextlib.suppress(Problem):
                await _give_back(dependencies, request.parent, request.id, attempt)
        raise


async def take_again(dependencies: Dependencies, restored: Workspace, parent: Workspace | None) -> None:
    """Take the budget of a child that is restored from its parent, which must exist."""
    if restored.parent is None:
        return
    parent = _living(parent, restored.parent)
    if restored.budget is None or _budget(dependencies, parent) is None:
        return
    amount = restored.budget + restored.child_budgets.total
    try:
        await _take(dependencies, parent, _Child(restored.id, restored.owner, amount))
    except Problem as problem:
        # In a recovered environment the child still holds its part of a parent that nobody has used yet.
        if problem.kind != "not-found" or restored.state == "deleted":
            raise


async def refuse_raise(dependencies: Dependencies, child: Workspace, budget: Decimal | None) -> None:
    """Raise a `Problem` where the budget of a child would rise above what it took from its parent."""
    if child.parent is None or child.budget is None or (budget is not None and budget <= child.budget):
        return
    parent = await dependencies.backend.get(child.parent)
    if parent is not None and _budget(dependencies, parent) is not None:
        detail = f"its budget came out of that of its parent {parent.id} when it was created"
        raise Problem("capability-beyond-parent", detail, f"choose {child.budget:f} or less, or create another child")


@dataclass(frozen=True)
class _Child:
    id: str
    owner: str
    budget: Decimal | None


async def _take(
    dependencies: Dependencies, parent: Workspace, child: _Child, caller: Caller | None = None
) -> str | None:
    """Take a child's budget from its parent. Return the attempt's name if it may be given back, else None."""
    limit = _budget(dependencies, parent)
    if limit is None:
        return None
    if caller is not None:
        require(caller, "change", parent)
    spent, _ = await spent_by(dependencies, parent)
    amount = child.budget
    if amount is None:
        raise _too_little(parent, limit - spent)
    now, attempt = dependencies.now(), secrets.token_hex(4)
    taken = ChildBudget(child.owner, amount, now, attempt)
    joined = False

    def take(budget: Budget) -> Budget:
        nonlocal joined
        before = budget.children.held.get(child.id)
        joined = before is not None and before.attempt != attempt
        after = budget.take(child.id, taken, spent, month_of(now), restored=caller is None)
        if after is None:
            raise _too_little(parent, budget.of_month(month_of(now)).rest - spent)
        return after

    before = Budget(limit, parent.child_budgets)
    passed_on = take(before).children.total - before.of_month(month_of(now)).children.total
    if parent.parent is not None and passed_on:
        # First, so that the parent's own parent counts it as spent, however this ends.
        await _change(dependencies, parent.parent, lambda budget: budget.pass_on(parent.id, passed_on))
    await _change(dependencies, parent.id, take)
    return None if joined else attempt


async def _give_back(dependencies: Dependencies, parent: str, child: str, attempt: str) -> None:
    """Give back what an attempt took, unless another one took it over or the child exists."""
    existing = await dependencies.backend.get(child)
    if existing is not None and existing.state != "deleted":
        return

    def give_back(budget: Budget) -> Budget:
        held = budget.children.held.get(child)
        if held is None or held.attempt != attempt:
            return budget
        return budget.give_back(child, Decimal(0), month_of(dependencies.now()))

    await _change(dependencies, parent, give_back)


async def _change(dependencies: Dependencies, id_: str, change: Callable[[Budget], Budget]) -> None:
    """Change the budget of a workspace in one step; one without a limit is left alone."""

    def build(workspace: Workspace) -> Changes:
        rest = _budget(dependencies, workspace)
        if rest is None:
            return Changes()
        before = Budget(rest, workspace.child_budgets)
        after = change(before)
        return Changes() if after == before else Changes(budget=after.rest, child_budgets=after.children)

    await dependencies.backend.change(id_, build)


async def _refuse_descendant(dependencies: Dependencies, id_: str, parent: Workspace | None) -> None:
    """Raise a `Problem` where the parent of a new workspace descends from an earlier one of its id."""
    above = parent
    while above is not None and above.id != id_:
        above = await dependencies.backend.get(above.parent) if above.parent else None
    if above is not None and parent is not None:
        detail = f"{parent.id} is {id_}, or descends from it, so it cannot be its parent"
        raise Problem("wrong-state", detail, "choose another parent, or another key")


def _living(parent: Workspace | None, id_: str) -> Workspace:
    if parent is None or parent.state in {"deleting", "deleted"}:
        raise Problem("wrong-state", f"the parent {id_} was deleted, and its children end with it", "restore it first")
    return parent


def _budget(dependencies: Dependencies, workspace: Workspace) -> Decimal | None:
    """Return the budget of a workspace: its own, else that of its class. The cap of its owner is shared already."""
    if workspace.budget is not None:
        return workspace.budget
    of_class = dependencies.catalog.classes.get(workspace.class_name)
    return of_class.plan.settings.budget if of_class is not None else None


def _too_little(parent: Workspace, left: Decimal) -> Problem:
    left = max(Decimal(0), left)
    shown = f"{left.quantize(_CENT, ROUND_DOWN).normalize():f}"
    detail = f"the parent {parent.id} has {shown} dollars of its monthly budget left, which its child's comes out of"
    return Problem("capability-beyond-parent", detail, f"set `budget` to {shown} or less")
