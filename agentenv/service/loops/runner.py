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
    told_of: Callable[[], Sequence[Workspace] | None],
) -> None:
    """Stand for election and run the loops whenever elected, until told to stop; `told_of` is the API's own view."""
    path = configuration.kubeconfig
    # One for the election alone: it is not to wait behind a pass.
    asking, working = (SyncKubeClient.of_file(path) if path else SyncKubeClient.from_within() for _ in range(2))
    try:
        leader = Leader(asking, configuration.namespace, configuration.replica)
        keeper, budgets = recorder_of(configuration, working, metrics), budgets_of(configuration, working, metrics)
        context = context_of(configuration, metrics, working, leader, keeper=keeper, budgets=budgets, told_of=told_of)
        loops = [*serialized([*loops_of(context), *loops_with_ledger(context, metrics, keeper, budgets)])]
        lead(leader, Scheduler(loops, lambda: leader.leads() and not stop.is_set(), metrics), metrics, stop)
    finally:
        for one in (working, asking):
            one.close()


def context_of(
    configuration: Configuration,
    metrics: Metrics,
    api: SyncKubeClient,
    leader: Leader,
    *,
    keeper: LedgerRecorder | None,
    budgets: Budgets | None,
    told_of: Callable[[], Sequence[Workspace] | None],
) -> Context:
    """What the passes work with."""
    points = Efs(configuration.region) if configuration.file_systems else None
    sources = (Prometheus(configuration.prometheus),) if configuration.prometheus else ()
    return Context(
        api=api,
        clock=leader.clock,
        told=metrics,
        namespace=configuration.namespace,
        replica=configuration.replica,
        points=points,
        file_systems=configuration.file_systems,
        sources=sources,
        settle=keeper.settle if keeper else None,
        stays_asleep=budgets.stays_asleep if budgets else None,
        told_of=told_of,
    )


def lead(leader: Leader, scheduler: Scheduler, metrics: Metrics, stop: threading.Event) -> None:
    """Renew the lease and start passes, in turns."""
    election = threading.Thread(target=_run_election, args=(leader, stop), name="election", daemon=True)
    election.start()
    was = False
    try:
        while not stop.wait(TICK):
            leads = leader.leads()
            if leads != was:
                metrics.leader(leads=leads)
                _LOG.info("leads the loops" if leads else "no longer leads the loops")
                was = leads
            scheduler.turn()
    finally:
        scheduler.join(END)
        election.join(leader.terms.renews + 1)
        leader.resign()
        metrics.leader(leads=False)


def _run_election(leader: Leader, stop: threading.Event) -> None:
    while not stop.is_set():
        leader.stand()
        stop.wait(leader.terms.renews)
