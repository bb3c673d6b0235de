"""Take part in the leader election, and run the loops while this replica leads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agentenv.service.aws.access_points import Efs
from agentenv.service.kube.client import KubeClient
from agentenv.service.ledger.setup import budgets_of, recorder_of
from agentenv.service.loops.activity_sources import Prometheus
from agentenv.service.loops.catalog import loops_of, loops_with_ledger, serialized
from agentenv.service.loops.context import ActivitySource, Context
from agentenv.service.loops.leader_election import Leader
from agentenv.service.loops.scheduler import Scheduler
from agentenv.service.workspaced.activity import WorkspacedActivity
from agentenv.service.workspaced.client import WorkspacedClient
from agentenv.service.workspaced.tokens import TokenSigner

if TYPE_CHECKING:
    from agentenv.core.workspaces.workspace import Workspace
    from agentenv.service.configuration import Configuration
    from agentenv.service.ledger.budgets import Budgets
    from agentenv.service.ledger.record import LedgerRecorder
    from agentenv.service.telemetry.metrics import Metrics

TICK = 0.5
# Running passes have so many seconds to end; the next leader continues what they started.
END = 10.0
_LOG = logging.getLogger(__name__)


async def run_loops(
    configuration: Configuration,
    metrics: Metrics,
    stop: asyncio.Event,
    workspace_snapshot: Callable[[], Sequence[Workspace] | None],
) -> None:
    """Take part in the leader election and run the loops while elected, until stopped."""
    # The election has a connection of its own, and does not wait behind a pass. It retries by its own interval.
    election_client = KubeClient.from_kubeconfig(configuration.kubeconfig, attempts=1)
    client = KubeClient.from_kubeconfig(configuration.kubeconfig)
    leader = Leader(election_client, configuration.namespace, configuration.replica)
    signer = TokenSigner(client, configuration.namespace, leader.clock.now)
    workspaced = WorkspacedClient(signer) if configuration.settings.service.workspaced else None
    try:
        recorder, budgets = recorder_of(configuration, client, metrics), budgets_of(configuration, client, metrics)
        context = context_of(
            configuration,
            metrics,
            client,
            leader,
            recorder=recorder,
            budgets=budgets,
            workspace_snapshot=workspace_snapshot,
            workspaced=workspaced,
        )
        loops = [*serialized([*loops_of(context), *loops_with_ledger(context, metrics, recorder, budgets)])]
        await lead(leader, Scheduler(loops, lambda: leader.is_leader() and not stop.is_set(), metrics), metrics, stop)
    finally:
        for connection in (workspaced, client, election_client):
            if connection is not None:
                await connection.close()


def context_of(
    configuration: Configuration,
    metrics: Metrics,
    api: KubeClient,
    leader: Leader,
    *,
    recorder: LedgerRecorder | None,
    budgets: Budgets | None,
    workspace_snapshot: Callable[[], Sequence[Workspace] | None],
    workspaced: WorkspacedClient | None,
) -> Context:
    """Return what the passes work with."""
    points = Efs(configuration.region) if configuration.file_systems else None
    sources: list[ActivitySource] = [WorkspacedActivity(api, workspaced)] if workspaced else []
    if configuration.prometheus:
        sources.append(Prometheus(configuration.prometheus))
    return Context(
        api=api,
        clock=leader.clock,
        metrics=metrics,
        namespace=configuration.namespace,
        replica=configuration.replica,
        points=points,
        file_systems=configuration.file_systems,
        sources=sources,
        settle=recorder.settle if recorder else None,
        refuse_wake=budgets.refuse_wake if budgets else None,
        workspace_snapshot=workspace_snapshot,
        workspaced=workspaced is not None,
    )


async def lead(leader: Leader, scheduler: Scheduler, metrics: Metrics, stop: asyncio.Event) -> None:
    """Renew the lease and start passes, until stopped."""
    election = asyncio.create_task(_run_election(leader, stop), name="election")
    was_leader = False
    try:
        while not await _stopped(stop, TICK):
            is_leader = leader.is_leader()
            if is_leader != was_leader:
                metrics.leader(leads=is_leader)
                _LOG.info("leads the loops" if is_leader else "no longer leads the loops")
                was_leader = is_leader
            scheduler.turn()
    finally:
        # The lease is renewed until the passes have ended.
        await scheduler.join(END)
        await scheduler.cancel()
        election.cancel()
        await asyncio.gather(election, return_exceptions=True)
        await leader.resign()
        metrics.leader(leads=False)


async def _run_election(leader: Leader, stop: asyncio.Event) -> None:
    while not stop.is_set():
        await leader.renew()
        await _stopped(stop, leader.terms.renews)


async def _stopped(stop: asyncio.Event, seconds: float) -> bool:
    """Wait for so many seconds; return early, and true, where the loops are stopped."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()
