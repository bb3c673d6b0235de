"""The passes over existing workspaces: suspend idle ones, resume those that are due, end expired ones.

Candidates come from a cache. Before a pass acts on a candidate, it reads it again, and each action requires what was
read. A pass skips candidates that need no action any more, until it has done enough steps. It starts
at a random candidate, so that those whose requests always fail do not block the others.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime

from agentenv.core.lifecycle.deadline import EndDecision, end_decision, timeout_is_over
from agentenv.core.lifecycle.idle import Activity, IdleDecision, idle_decision
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.lifecycle.wake import wake_decision
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.loops.activity_sources import ActivitySources
from agentenv.service.loops.context import LoopContext
from agentenv.service.loops.scheduler import PassResult, ShouldContinue, isolated
from agentenv.service.workspaces.backend_protocol import CurrentWorkspace

# The limit of steps, and of failures, in a pass; the next pass does the rest. It is also the batch size of activity
# queries.
MOST = 50
AGE = 20.0
# Children are ended so many seconds after their parent.
PARENT_GRACE = 300.0
_NONE = Limits()


async def suspend_idle(context: LoopContext, should_continue: ShouldContinue) -> PassResult:
    """Suspend idle workspaces, and complete suspensions that were interrupted."""
    limits, now = await context.backend.limits(), context.clock.now()
    sources = ActivitySources(context.sources, limits, now)
    seen: dict[str, Sequence[Activity]] = {}

    def is_idle(workspace: Workspace) -> bool:
        if workspace.state not in {"running", "suspending"}:
            return False
        started = workspace.suspended_because is not None
        return started or _rest(workspace, limits, seen.get(workspace.id, ()), now).sleep

    async def with_activity(candidates: Sequence[Workspace]) -> AsyncIterator[Workspace]:
        for first in range(0, len(candidates), MOST):
            if first and not should_continue():
                return
            batch = candidates[first : first + MOST]
            seen.update(await sources.seen(batch))
            for workspace in filter(is_idle, batch):
                yield workspace

    async def suspend_one(current: CurrentWorkspace) -> bool:
        workspace = current.workspace
        because = workspace.suspended_because
        if because is None or because == "idle":
            at = context.clock.now()
            decision = _rest(workspace, limits, seen.get(workspace.id, ()), at)
            if not decision.sleep:
                # The suspension was interrupted, and the workspace was used since.
                return because is not None and await current.resume() == "done"
        suspended = await current.suspend(because or "idle") == "done"
        if suspended:
            context.metrics.suspended(workspace.class_name, because or "idle")
        return suspended

    candidates = [workspace for workspace in await context.backend.recent_workspaces(AGE) if is_idle(workspace)]
    return await each(context, should_continue, with_activity(rotated(candidates, now)), suspend_one)


async def wake_due(context: LoopContext, should_continue: ShouldContinue) -> PassResult:
    """Resume workspaces at their wake time, and those that are suspended without a reason."""
    now = context.clock.now()
    candidates = [workspace for workspace in await context.backend.recent_workspaces(AGE) if _acts(workspace, now)]

    async def resume_one(current: CurrentWorkspace) -> bool:
        decision = wake_decision(current.workspace, context.clock.now())
        if decision.wake:
            # A workspace suspended without a reason was resumed by a request, which checked the budget.
            if decision.forget and context.refuse_wake is not None and await context.refuse_wake(current):
                return True
            return await current.resume() == "done"
        return decision.forget and await current.clear_wake_time()

    return await each(context, should_continue, each_of(rotated(candidates, now)), resume_one)


async def end_expired(context: LoopContext, should_continue: ShouldContinue) -> PassResult:
    """End expired workspaces: suspend them at their deadline, delete them at the end of their class's lifetime.

    Descendants of a workspace that is gone are deleted too, and those of one past its deadline suspended.
    """
    limits = await context.backend.limits()
    deleted = await _gone_parents(context, limits)
    workspaces = await context.backend.recent_workspaces(AGE)
    children: dict[str, list[str]] = {}
    for workspace in workspaces:
        children.setdefault(workspace.parent or "", []).append(workspace.id)
    gone = deleted | _descendants(deleted, children)
    # One with a timeout is only paused.
    over = {each.id for each in workspaces if each.suspended_because == "deadline" and each.timeout is None}
    over |= _descendants(over, children)

    def decision_of(workspace: Workspace) -> EndDecision:
        class_limits = limits.get(workspace.class_name, _NONE)
        return end_decision(
            workspace,
            class_limits,
            context.clock.now(),
            parent_is_gone=workspace.parent in gone,
            parent_is_over=workspace.parent in over,
        )

    return await _end(context, should_continue, decision_of)


async def end_timed_out(context: LoopContext, should_continue: ShouldContinue) -> PassResult:
    """End workspaces whose timeout is over. It needs no limits of classes, so that it can run every few seconds."""

    def decision_of(workspace: Workspace) -> EndDecision:
        now = context.clock.now()
        over = context.clock.known and timeout_is_over(workspace, now)
        return end_decision(workspace, _NONE, now) if over else EndDecision("nothing", "its end is in the future")

    return await _end(context, should_continue, decision_of)


async def _end(
    context: LoopContext, should_continue: ShouldContinue, decision_of: Callable[[Workspace], EndDecision]
) -> PassResult:
    workspaces = await context.backend.recent_workspaces(AGE)
    candidates = [workspace for workspace in workspaces if decision_of(workspace).do != "nothing"]

    async def end_one(current: CurrentWorkspace) -> bool:
        workspace = current.workspace
        decision = decision_of(workspace)
        if decision.do == "delete" and decision.keep_for is not None:
            if context.settle is not None:
                await context.settle(workspace)
            return await current.delete(decision.keep_for)
        if decision.do == "suspend" and await current.suspend("deadline") == "done":
            context.metrics.suspended(workspace.class_name, "deadline")
            return True
        return False

    return await each(context, should_continue, each_of(rotated(candidates, context.clock.now())), end_one)


def _descendants(ids: Iterable[str], children: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the descendants of workspaces, by the children of each."""
    found: set[str] = set()
    open_ = list(ids)
    while open_:
        new = set(children.get(open_.pop(), ())) - found
        found |= new
        open_ += new
    return found


async def _gone_parents(context: LoopContext, classes: Iterable[str]) -> set[str]:
    """Return the parents of workspaces that exist in no class, and did not for a while.

    A parent that moves to another class does not exist for a moment.
    """
    workspaces = await context.backend.recent_workspaces(AGE)
    existing = {workspace.id for workspace in workspaces}
    missing = {workspace.parent for workspace in workspaces if workspace.parent} - existing
    return await gone(context, classes, missing, context.missing_parents, PARENT_GRACE)


async def gone(
    context: LoopContext, classes: Iterable[str], missing: Iterable[str], since: dict[str, float], grace: float
) -> set[str]:
    """Return the missing workspaces that exist in no class, and did not for so many seconds.

    `since` remembers when each was first missing.
    """
    now = context.monotonic()
    first = {id_: since.get(id_, now) for id_ in missing}
    since.clear()
    since.update(first)
    overdue = [id_ for id_, began in first.items() if now - began >= grace]
    # The cache may lack it
    return {id_ for id_ in overdue[:MOST] if not await context.backend.exists(id_, classes)}


def _acts(workspace: Workspace, now: datetime) -> bool:
    decision = wake_decision(workspace, now)
    return decision.wake or decision.forget


def _rest(workspace: Workspace, limits: Mapping[str, Limits], seen: Sequence[Activity], now: datetime) -> IdleDecision:
    class_limits = limits.get(workspace.class_name, _NONE)
    return idle_decision(workspace, class_limits, seen, now)


async def each(
    context: LoopContext,
    should_continue: ShouldContinue,
    workspaces: AsyncIterator[Workspace],
    action: Callable[[CurrentWorkspace], Awaitable[bool]],
) -> PassResult:
    """Run the action on each workspace as it is now; a failure of one does not stop the others."""
    steps = 0
    failures: list[str] = []
    async for workspace in workspaces:
        if steps >= MOST or len(failures) >= MOST or not should_continue():
            break
        with isolated(failures, workspace.id):
            current = await context.backend.reread(workspace, failures)
            steps += current is not None and await action(current)
    return PassResult(steps, steps >= MOST, tuple(failures))


async def each_of(workspaces: Sequence[Workspace]) -> AsyncIterator[Workspace]:
    for workspace in workspaces:
        yield workspace


def rotated(workspaces: Sequence[Workspace], now: datetime) -> Sequence[Workspace]:
    # Passes have no state in common: the start is chosen by the time.
    start = random.Random(now.timestamp()).randrange(len(workspaces)) if workspaces else 0  # noqa: S311 - no secret
    return [*workspaces[start:], *workspaces[:start]]
