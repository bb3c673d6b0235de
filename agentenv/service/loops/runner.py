"""The loops of one replica: stands for election, and runs them for as long as it leads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agentenv.service.aws.access_points import Efs
from agentenv.service.kube.sync_client import SyncKubeClient
from agentenv.service.ledger.setup import budgets_of, recorder_of
from agentenv.service.loops.activity_sources import Prometheus
from agentenv.service.loops.catalog import loops_of, loops_with_ledger, serialized
from agentenv.service.loops.context import Context
from agentenv.service.loops.leader_election import Leader
from agentenv.service.loops.scheduler import Scheduler

if TYPE_CHECKING:
    from agentenv.core.workspaces.workspace import Workspace
    from agentenv.service.configuration import Configuration
    from agentenv.service.ledger.budgets import Budgets
    from agentenv.service.ledger.record import LedgerRecorder
    from agentenv.service.telemetry.metrics import Metrics

TICK = 0.5
# Passes under way are told to stop by then; what they have begun the next leader goes on with.
END = 10.0
_LOG = logging.getLogger(__name__)


def run_loops(
    configuration: Configuration,
    metrics: Metrics,
    stop: threading.Event,
    workspace_snapshot: Callable[[], Sequence[Workspace] | None],
) -> None:
    """Take part in the leader election and run the loops while elected, until stopped."""
    path = configuration.kubeconfig
    # One for the election alone: it is not to wait behind a pass.
    election_client, client = (
        SyncKubeClient.from_kubeconfig(path) if path else SyncKubeClient.from_service_account() for _ in range(2)
    )
    try:
        leader = Leader(election_client, configuration.namespace, configuration.replica)
        recorder, budgets = recorder_of(configuration, client, metrics), budgets_of(configuration, client, metrics)
        context = context_of(
            configuration,
            metrics,
            client,
            leader,
            recorder=recorder,
            budgets=budgets,
            workspace_snapshot=workspace_snapshot,
        )
        loops = [*serialized([*loops_of(context), *loops_with_ledger(context, metrics, recorder, budgets)])]
        lead(leader, Scheduler(loops, lambda: leader.is_leader() and not stop.is_set(), metrics), metrics, stop)
    finally:
        for connection in (client, election_client):
            connection.close()


def context_of(
    configuration: Configuration,
    metrics: Metrics,
    api: SyncKubeClient,
    leader: Leader,
    *,
    recorder: LedgerRecorder | None,
    budgets: Budgets | None,
    workspace_snapshot: Callable[[], Sequence[Workspace] | None],
) -> Context:
    """What the passes work with."""
    points = Efs(configuration.region) if configuration.file_systems else None
    sources = (Prometheus(configuration.prometheus),) if configuration.prometheus else ()
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
    )


def lead(leader: Leader, scheduler: Scheduler, metrics: Metrics, stop: threading.Event) -> None:
    """Renew the lease and start passes, in turns."""
    election = threading.Thread(target=_run_election, args=(leader, stop), name="election", daemon=True)
    election.start()
    was_leader = False
    try:
        while not stop.wait(TICK):
            is_leader = leader.is_leader()
            if is_leader != was_leader:
                metrics.leader(leads=is_leader)
                _LOG.info("leads the loops" if is_leader else "no longer leads the loops")
                was_leader = is_leader
            scheduler.turn()
    finally:
        scheduler.join(END)
        election.join(leader.terms.renews + 1)
        leader.resign()
        metrics.leader(leads=False)


def _run_election(leader: Leader, stop: threading.Event) -> None:
    while not stop.is_set():
        leader.renew()
        stop.wait(leader.terms.renews)
