"""The passes over workspaces that stand: who idles goes to sleep, whose hour it is wakes, whose time is over ends.

All of them look for work in what was read a moment ago, and look again before they do anything: what is decided is
decided about what is changed, by its version. A pass goes on until it has done enough, past those who need nothing
after all; and it begins with another one each time, so that those who are always refused keep nobody behind them
waiting.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from agentenv.core.lifecycle.deadline import EndDecision, end_decision
from agentenv.core.lifecycle.idle import Activity, IdleDecision, idle_decision
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.lifecycle.wake import wake_decision
from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.kube.sync_client import CLAIMS, Document, SyncKubeApiError
from agentenv.service.kube.unreadable import ODD, readable
from agentenv.service.loops.activity_sources import ActivitySources
from agentenv.service.loops.context import Context
from agentenv.service.loops.scheduler import PassResult, ShouldContinue
from agentenv.service.workspaces.delete import delete_workspace
from agentenv.service.workspaces.suspend import clear_wake_time, resume, sandbox_of, suspend

# What one pass does at most, and is refused at most; what is left over is the next one's. Sources are asked of as many.
MOST = 50
AGE = 20.0
_NONE = Limits()


def suspend_idle(context: Context, still: ShouldContinue) -> PassResult:
    """Put to sleep who idles, and finish what was begun."""
    limits, now = context.limits(), context.clock.now()
    sources = ActivitySources(context.sources, limits, now)
    seen: dict[str, Sequence[Activity]] = {}

    def sleeps(one: Workspace) -> bool:
        if one.state != "running":
            return False
        begun = one.suspended_because is not None
        return begun or _rest(one, limits, seen.get(one.id, ()), now).sleep

    def asked_about(found: Sequence[Workspace]) -> Iterator[Workspace]:
        for first in range(0, len(found), MOST):
            if first and not still():
                return
            some = found[first : first + MOST]
            seen.update(sources.seen(some))
            yield from filter(sleeps, some)

    def put(one: Workspace, claim: Document) -> bool:
        because = one.suspended_because
        if because is None or because == "idle":
            moment = context.clock.now()
            decided = _rest(one, limits, seen.get(one.id, ()), moment)
            if not decided.sleep:
                # It was begun and not finished, and is used by now.
                return because is not None and resume(context.api, claim, moment) == "done"
        done = suspend(context.api, claim, because or "idle") == "done"
        if done:
            context.told.suspended(one.class_name, because or "idle")
        return done

    found = [one for one in context.attended(AGE) if sleeps(one)]
    return _each(context, still, asked_about(_rotated(found, now)), put)


def wake_due(context: Context, still: ShouldContinue) -> PassResult:
    """Wake whose hour it is, and who should not be asleep."""
    now = context.clock.now()
    found = [one for one in context.attended(AGE) if _acts(one, now)]

    def rouse(one: Workspace, claim: Document) -> bool:
        decided = wake_decision(one, context.clock.now())
        if decided.wake:
            # Who sleeps for no reason was asked for already, and that was looked at then.
            if decided.forget and context.stays_asleep is not None and context.stays_asleep(one, claim):
                return True
            return resume(context.api, claim, context.clock.now()) == "done"
        return decided.forget and clear_wake_time(context.api, claim)

    return _each(context, still, _rotated(found, now), rouse)


def end_expired(context: Context, still: ShouldContinue) -> PassResult:
    """End whose time is over: at a deadline it sleeps, at the end of its class's life it goes and its data stays."""
    limits = context.limits()

    def of(one: Workspace) -> EndDecision:
        known = limits.get(one.class_name, _NONE)
        return end_decision(one, known, context.clock.now())

    found = [one for one in context.attended(AGE) if of(one).do != "nothing"]

    def stop(one: Workspace, claim: Document) -> bool:
        decided = of(one)
        if decided.do == "delete" and decided.keep_for is not None:
            if context.settle is not None:
                context.settle(one.namespace, one.id)
            return delete_workspace(context.api, claim, decided.keep_for, context.clock.now()) == "done"
        if decided.do == "suspend" and suspend(context.api, claim, "deadline") == "done":
            context.told.suspended(one.class_name, "deadline")
            return True
        return False

    return _each(context, still, _rotated(found, context.clock.now()), stop)


def _acts(one: Workspace, now: datetime) -> bool:
    decided = wake_decision(one, now)
    return decided.wake or decided.forget


def _rest(one: Workspace, limits: dict[str, Limits], seen: Sequence[Activity], now: datetime) -> IdleDecision:
    known = limits.get(one.class_name, _NONE)
    return idle_decision(one, known, seen, now)


def _each(
    context: Context,
    still: ShouldContinue,
    chosen: Iterable[Workspace],
    do: Callable[[Workspace, Document], bool],
) -> PassResult:
    """Do it to each, as it is now; one that cannot be is no reason to leave the others."""
    steps = 0
    failures: list[str] = []
    for one, claim in _reread(context, still, chosen, failures):
        try:
            steps += do(one, claim)
        except SyncKubeApiError as refusal:
            if refusal.passes:
                raise
            failures.append(f"{one.id}: {refusal}")
        except ODD as failure:
            failures.append(f"{one.id} cannot be read: {type(failure).__name__}")
        if steps >= MOST or len(failures) >= MOST:
            break
    return PassResult(steps, steps >= MOST, tuple(failures))


def _rotated(found: Sequence[Workspace], now: datetime) -> Sequence[Workspace]:
    # Nothing is remembered from one pass to the next, so what time it is says where to begin.
    start = random.Random(now.timestamp()).randrange(len(found)) if found else 0  # noqa: S311 - no secret
    return [*found[start:], *found[:start]]


def _reread(
    context: Context, still: ShouldContinue, chosen: Iterable[Workspace], failures: list[str]
) -> Iterator[tuple[Workspace, Document]]:
    for one in chosen:
        if not still():
            return
        found = context.api.find(CLAIMS, one.id, one.namespace)
        for claim, now in readable("SandboxClaim", [found] if found else [], workspace_of_claim, failures):
            if now is None or now.claim_uid != one.claim_uid:
                continue
            # A sandbox that is not there yet, or another claim's, is for the next pass.
            if sandbox_of(context.api, claim) is None and now.state in {"running", "suspended"}:
                continue
            yield now, claim
