"""The table of loops with their intervals.

A loop that is added here is started, timed and counted, and its failures do not affect the others.
"""

from __future__ import annotations

from asyncio import Lock
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from agentenv.service.home_metering import measured_bytes
from agentenv.service.ledger.budgets import ENFORCE_EVERY
from agentenv.service.ledger.record import RECORD_EVERY
from agentenv.service.loops.audit import audit_access_points
from agentenv.service.loops.child_budgets import return_child_budgets
from agentenv.service.loops.context import Context, LoopContext
from agentenv.service.loops.fargate_pods import replace_missed_pods
from agentenv.service.loops.gateway_targets import register_targets
from agentenv.service.loops.healing import replace_failed_pods
from agentenv.service.loops.moving import move_workspaces
from agentenv.service.loops.resizing import resize_sandboxes
from agentenv.service.loops.restarts import record_restarts
from agentenv.service.loops.retention import apply_retention, destroy_on_request
from agentenv.service.loops.scheduler import Loop, PassResult, ShouldContinue
from agentenv.service.loops.slots import maintain_slots
from agentenv.service.loops.workspace_passes import end_expired, end_timed_out, suspend_idle, wake_due
from agentenv.service.workspaced.publish import maintain_keys
from agentenv.service.workspaces.make_room import give_back_slots, yield_slots
from agentenv.service.workspaces.retain_volume import retain_all_volumes
from agentenv.service.workspaces.retire_releases import retire_releases

if TYPE_CHECKING:
    from agentenv.service.ledger.budgets import Budgets
    from agentenv.service.ledger.record import LedgerRecorder
    from agentenv.service.loops.home_records import HomeRecorder
    from agentenv.service.telemetry.metrics import Metrics


FULL_SCAN_LOOPS = frozenset(
    {"keeping", "releases", "retention", "slots", "audit", "sizes", "ledger", "budgets", "homes"}
)


def serialized(loops: Iterable[Loop]) -> Iterator[Loop]:
    """Yield the loops; those that read all objects share a lock, so that only one at a time holds them in memory.

    One of these that hangs delays the others: the price of the lower memory limit.
    """
    turn = Lock()
    return (replace(loop, turn=turn) if loop.name in FULL_SCAN_LOOPS else loop for loop in loops)


def loops_of_workspaces(context: LoopContext, budgets: Budgets | None = None) -> list[Loop]:
    """Return the loops over workspaces, by whichever backend."""
    loops = [
        Loop("waking", 5, lambda should_continue: wake_due(context, should_continue)),
        Loop("healing", 3, lambda should_continue: replace_failed_pods(context, should_continue)),
        Loop("idle", 30, lambda should_continue: suspend_idle(context, should_continue)),
        Loop("ending", 60, lambda should_continue: end_expired(context, should_continue)),
        Loop("child-budgets", 60, lambda should_continue: return_child_budgets(context, should_continue)),
        Loop("timeouts", 2, lambda should_continue: end_timed_out(context, should_continue)),
        Loop("retention", 600, lambda should_continue: apply_retention(context, should_continue)),
        Loop("destroying", 5, lambda should_continue: destroy_on_request(context, should_continue)),
    ]
    if budgets is None:
        return loops

    async def enforce(_: ShouldContinue) -> PassResult:
        result = await budgets.enforce_all()
        return PassResult(result.noticed + result.suspended, failures=result.failures)

    return [*loops, Loop("budgets", ENFORCE_EVERY.total_seconds(), enforce)]


def loops_of_cluster(context: Context) -> list[Loop]:
    """Return the loops over the objects of Kubernetes and EFS."""
    loops = [
        Loop("restarts", 3, lambda should_continue: record_restarts(context, should_continue)),
        Loop("keeping", 600, lambda should_continue: retain_volumes(context, should_continue)),
        Loop("releases", 300, lambda should_continue: retire_old_releases(context, should_continue)),
        Loop("slots", 600, lambda should_continue: maintain_slots(context, should_continue)),
        Loop("room", 60, lambda should_continue: give_back_slots(context, should_continue)),
        Loop("yielding", 5, lambda should_continue: yield_slots(context, should_continue)),
        Loop("audit", 900, lambda should_continue: audit_access_points(context, should_continue)),
    ]
    if context.fargate:
        loops.append(Loop("fargate", 60, lambda should_continue: replace_missed_pods(context, should_continue)))
    resizing = Loop("resizing", 15, lambda should_continue: resize_sandboxes(context, should_continue))
    loops += [resizing] if context.resizer else []
    if (nodes := context.nodes) is not None:
        loops.append(Loop("moving", 2, lambda should_continue: move_workspaces(context, nodes, should_continue)))
    if (targets := context.targets) is not None:
        # A rollout of the gateway waits for it, and so does a pod that has just been replaced.
        loops.append(Loop("targets", 5, lambda should_continue: register_targets(context, targets, should_continue)))
    keys = Loop("keys", 15, lambda should_continue: maintain_keys(context, should_continue))
    return [*loops, keys] if context.workspaced else loops


def metering_loops(
    context: Context, metrics: Metrics, recorder: LedgerRecorder | None, homes: HomeRecorder | None = None
) -> Iterator[Loop]:
    """Yield the loops that record the ledger and homes, if there is a table, and the one that meters home volumes."""

    async def sizes(_: ShouldContinue) -> PassResult:
        metrics.volumes(await measured_bytes(context.api))
        return PassResult()

    yield Loop("sizes", 300, sizes)
    if recorder is not None:

        async def ledger(_: ShouldContinue) -> PassResult:
            return PassResult(failures=(await recorder.record_all()).failures)

        yield Loop("ledger", RECORD_EVERY.total_seconds(), ledger)
    if homes is not None:
        yield Loop("homes", 120, homes.record_all)


async def retain_volumes(context: Context, _: ShouldContinue) -> PassResult:
    """Retain the volumes of all claimed sandboxes, also where the replica that served a claim was killed."""
    results = await retain_all_volumes(context.api)
    refused = tuple(f"{result.claim}: {result.why}" for result in results if result.outcome == "refused")
    return PassResult(sum(result.outcome == "kept" for result in results), failures=refused)


async def retire_old_releases(context: Context, _: ShouldContinue) -> PassResult:
    """Retire old releases, one step at a time."""
    results = await retire_releases(context.api, act=True, clock=lambda: context.clock.now().replace(microsecond=0))
    refused = tuple(reason for result in results for reason in result.refused)
    return PassResult(sum(len(result.done) for result in results), failures=refused)
