"""Which loops there are, and how often each makes a pass.

A row a loop: add one here and it runs, is timed and counted, and fails alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

from agentenv.service.home_metering import measured_bytes
from agentenv.service.ledger.budgets import HOLD_EVERY
from agentenv.service.ledger.record import KEEP_EVERY
from agentenv.service.loops.audit import auditing
from agentenv.service.loops.context import Context
from agentenv.service.loops.retention import destroying, retention
from agentenv.service.loops.scheduler import Done, Loop, Still
from agentenv.service.loops.slots import slots
from agentenv.service.loops.workspace_passes import ending, idle, waking
from agentenv.service.workspaces.retain_volume import keep_all
from agentenv.service.workspaces.retire_releases import retire

if TYPE_CHECKING:
    from agentenv.service.ledger.budgets import Budgets
    from agentenv.service.ledger.record import Keeper
    from agentenv.service.telemetry.metrics import Metrics


OF_EVERYBODY = frozenset({"keeping", "releases", "retention", "slots", "audit", "sizes", "ledger", "budgets"})


def in_turn(loops: Iterable[Loop]) -> Iterator[Loop]:
    """The same, and those that look at everybody wait for each other: what each of them holds is held one at a time.

    One that hangs keeps the others of these from theirs: so much memory is spared at the price of that.
    """
    turn = Lock()
    return (replace(one, turn=turn) if one.name in OF_EVERYBODY else one for one in loops)


def loops_of(context: Context) -> list[Loop]:
    """Those that need the cluster and EFS alone."""
    return [
        Loop("waking", 15, lambda still: waking(context, still)),
        Loop("idle", 30, lambda still: idle(context, still)),
        Loop("ending", 60, lambda still: ending(context, still)),
        Loop("keeping", 600, lambda still: keeping(context, still)),
        Loop("releases", 300, lambda still: releases(context, still)),
        Loop("retention", 600, lambda still: retention(context, still)),
        Loop("destroying", 5, lambda still: destroying(context, still)),
        Loop("slots", 600, lambda still: slots(context, still)),
        Loop("audit", 900, lambda still: auditing(context, still)),
    ]


def loops_with_ledger(
    context: Context, metrics: Metrics, keeper: Keeper | None, budgets: Budgets | None
) -> Iterator[Loop]:
    """Those that write the ledger and act on it, where there is one, and show what homes were measured to hold."""

    def sizes(_: Still) -> Done:
        metrics.volumes(measured_bytes(context.api))
        return Done()

    yield Loop("sizes", 300, sizes)
    if keeper is not None:

        def ledger(_: Still) -> Done:
            return Done(failures=keeper.keep_all().failures)

        yield Loop("ledger", KEEP_EVERY.total_seconds(), ledger)
    if budgets is not None:

        def hold(_: Still) -> Done:
            held = budgets.hold_all()
            return Done(held.noticed + held.suspended, failures=held.failures)

        yield Loop("budgets", HOLD_EVERY.total_seconds(), hold)


def keeping(context: Context, _: Still) -> Done:
    """Have the volumes of all claimed sandboxes stay, where whoever claimed them was cut short."""
    found = keep_all(context.api)
    refused = tuple(f"{one.claim}: {one.why}" for one in found if one.outcome == "refused")
    return Done(sum(one.outcome == "kept" for one in found), failures=refused)


def releases(context: Context, _: Still) -> Done:
    """Let old releases go, a step at a time."""
    found = retire(context.api, act=True, clock=lambda: context.clock.now().replace(microsecond=0))
    refused = tuple(words for one in found for words in one.refused)
    return Done(sum(len(one.done) for one in found), failures=refused)
