"""The passes over workspaces that stand: who idles goes to sleep, whose hour it is wakes, whose time is over ends.

All of them look for work in what was read a moment ago, and look again before they do anything: what is decided is
decided about what is changed, by its version.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from model.lifecycle.ending import End, end
from model.lifecycle.idle import Rest, Seen, rest
from model.lifecycle.limits import Limits
from model.lifecycle.waking import alarm
from model.workspaces import Workspace
from service.cluster import CLAIMS, Document, RefusedError
from service.letting_go import let_go
from service.loops.context import Attended, Context, attended
from service.loops.scheduler import Done, Still
from service.sleeping import forget_hour, put_to_sleep, sandbox_of, wake

# What one pass does at most; what is left over is the next one's.
MOST = 50
AGE = 20.0
_NONE = Limits()


def idle(context: Context, still: Still) -> Done:
    """Put to sleep who idles, and finish what was begun."""
    limits, now = context.limits(), context.clock.now()
    found: list[Attended] = []
    for one in context.attended(AGE):
        if one.workspace.state != "running":
            continue
        begun = one.workspace.suspended_because is not None
        if begun or _rest(one, limits, (), now).sleep:
            found.append(one)
    asked = found[:MOST]
    seen = _seen(context, [one.workspace for one in asked], limits, now)

    def put(one: Attended, claim: Document) -> bool:
        because = one.workspace.suspended_because
        if because is None or because == "idle":
            moment = context.clock.now()
            decided = _rest(one, limits, seen.get(one.workspace.id, ()), moment)
            if not decided.sleep:
                # It was begun and not finished, and is used by now.
                return because is not None and wake(context.api, claim, moment) == "done"
        done = put_to_sleep(context.api, claim, because or "idle") == "done"
        if done:
            context.told.suspended(one.workspace.class_name, because or "idle")
        return done

    return _each(context, still, asked, put, more=len(found) > MOST)


def waking(context: Context, still: Still) -> Done:
    """Wake whose hour it is, and who should not be asleep."""
    now = context.clock.now()
    found = [one for one in context.attended(AGE) if _acts(one, now)]

    def rouse(one: Attended, claim: Document) -> bool:
        decided = alarm(one.workspace, context.clock.now(), asleep_since=one.turned)
        if decided.wake:
            return wake(context.api, claim, context.clock.now()) == "done"
        return decided.forget and forget_hour(context.api, claim)

    return _each(context, still, found[:MOST], rouse, more=len(found) > MOST)


def ending(context: Context, still: Still) -> Done:
    """End whose time is over: at a deadline it sleeps, at the end of its class's life it goes and its data stays."""
    limits = context.limits()

    def of(one: Attended) -> End:
        known = limits.get(one.workspace.class_name, _NONE)
        return end(one.workspace, known, context.clock.now(), archive_ended=one.archive_ended)

    found = [one for one in context.attended(AGE) if of(one).do != "nothing"]

    def stop(one: Attended, claim: Document) -> bool:
        decided = of(one)
        if decided.do == "delete" and decided.keep_for is not None:
            if context.settle is not None:
                context.settle(one.workspace.namespace, one.workspace.id)
            return let_go(context.api, claim, decided.keep_for, context.clock.now()) == "done"
        if decided.do == "suspend" and put_to_sleep(context.api, claim, "deadline") == "done":
            context.told.suspended(one.workspace.class_name, "deadline")
            return True
        return False

    return _each(context, still, found[:MOST], stop, more=len(found) > MOST)


def _acts(one: Attended, now: datetime) -> bool:
    decided = alarm(one.workspace, now, asleep_since=one.turned)
    return decided.wake or decided.forget


def _rest(one: Attended, limits: dict[str, Limits], seen: Sequence[Seen], now: datetime) -> Rest:
    known = limits.get(one.workspace.class_name, _NONE)
    return rest(one.workspace, known, seen, now, up_since=one.turned)


def _seen(
    context: Context, asked: Sequence[Workspace], limits: dict[str, Limits], now: datetime
) -> dict[str, list[Seen]]:
    """What all sources know of those that would sleep otherwise; a source that fails does not know."""
    found: dict[str, list[Seen]] = {one.id: [] for one in asked}
    for source in context.sources if asked else ():
        told: Mapping[str, Seen] = {}
        with contextlib.suppress(Exception):  # whatever it is, it has not seen them
            told = source.seen(asked, limits, now)
        for one in asked:
            found[one.id].append(told.get(one.id, Seen(source.name, known=False)))
    return found


def _each(
    context: Context,
    still: Still,
    chosen: Sequence[Attended],
    do: Callable[[Attended, Document], bool],
    *,
    more: bool,
) -> Done:
    """Do it to each, as it is now; one that cannot be is no reason to leave the others."""
    steps = 0
    failures: list[str] = []
    for one, claim in _fresh(context, still, chosen):
        try:
            steps += do(one, claim)
        except RefusedError as refusal:
            if refusal.passes:
                raise
            failures.append(f"{one.workspace.id}: {refusal}")
    return Done(steps, more and steps > 0, tuple(failures))


def _fresh(context: Context, still: Still, chosen: Sequence[Attended]) -> Iterator[tuple[Attended, Document]]:
    for one in chosen:
        if not still():
            return
        claim = context.api.find(CLAIMS, one.workspace.id, one.workspace.namespace)
        now = attended(claim) if claim is not None else None
        if claim is not None and now is not None and now.workspace.claim_uid == one.workspace.claim_uid:
            # A sandbox that is not there yet, or another claim's, is for the next pass.
            if sandbox_of(context.api, claim) is None and now.workspace.state in {"running", "suspended"}:
                continue
            yield now, claim
