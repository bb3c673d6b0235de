"""The pass that gives back to parents what their ended children held and did not spend.

A deleted child whose data is retained has ended, too: it takes its budget again when it is restored.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal

from agentenv.core.ledger.published import month_of
from agentenv.core.workspaces.child_budgets import Budget
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.ledger.record import RECORD_EVERY
from agentenv.service.loops.context import LoopContext
from agentenv.service.loops.scheduler import PassResult, ShouldContinue
from agentenv.service.loops.workspace_passes import AGE, each, each_of, gone, rotated
from agentenv.service.workspaces.backend_protocol import CurrentWorkspace

# After so long a create that took a budget has ended, and the ledger has what the child spent last.
GRACE = RECORD_EVERY + timedelta(minutes=5)


async def return_child_budgets(context: LoopContext, should_continue: ShouldContinue) -> PassResult:
    """Give back what ended children did not spend, and in a new month what they spent in the last one."""
    workspaces = await context.backend.recent_workspaces(AGE)
    existing = {workspace.id for workspace in workspaces}
    missing = {child for workspace in workspaces for child in workspace.child_budgets.held} - existing
    classes = await context.backend.limits() if missing else ()
    ended = await gone(context, classes, missing, context.missing_children, GRACE.total_seconds())

    def gives_back(workspace: Workspace) -> bool:
        children = workspace.child_budgets
        old = bool(children.spent) and children.month != month_of(context.clock.now())
        return workspace.state != "deleting" and (old or bool(_ended(context, workspace, ended)))

    async def give_back(current: CurrentWorkspace) -> bool:
        workspace = current.workspace
        if not gives_back(workspace):
            return False
        month = month_of(context.clock.now())
        budget = Budget(workspace.budget or Decimal(0), workspace.child_budgets).of_month(month)
        for child in _ended(context, workspace, ended):
            owner = workspace.child_budgets.held[child].owner
            budget = budget.give_back(child, await _spent(context, owner, child), month)
        # Where an admin has removed the budget, there is none to give back to.
        rest = None if workspace.budget is None else budget.rest
        return await current.set_budget(rest, budget.children)

    candidates = [workspace for workspace in workspaces if gives_back(workspace)]
    return await each(context, should_continue, each_of(rotated(candidates, context.clock.now())), give_back)


def _ended(context: LoopContext, workspace: Workspace, ended: set[str]) -> list[str]:
    """Return the ended children that hold a part; a create that took it lately may not have ended."""
    before = context.clock.now() - GRACE
    held = workspace.child_budgets.held
    return [child for child in held if child in ended and held[child].since <= before]


async def _spent(context: LoopContext, owner: str, child: str) -> Decimal:
    if context.accounts is None:
        return Decimal(0)
    return (await asyncio.to_thread(context.accounts.recently_spent, owner)).of(child)
