"""Take part in the leader election, and run the loops while this replica leads, in a process of their own."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from agentenv.core.nodes.fargate_profiles import selectors
from agentenv.service.aws.access_points import Efs
from agentenv.service.aws.targets import TargetGroup
from agentenv.service.catalog import Catalog
from agentenv.service.kube.client import KubeClient
from agentenv.service.kube.leaving_nodes import LeavingNodes
from agentenv.service.ledger.budgets import Budgets
from agentenv.service.ledger.published import PublishedBudgets, publish
from agentenv.service.ledger.setup import accounts_of, home_records_of, recorder_of
from agentenv.service.loops.activity_sources import Prometheus
from agentenv.service.loops.catalog import loops_of_cluster, loops_of_workspaces, metering_loops, serialized
from agentenv.service.loops.context import ActivitySource, cluster_context
from agentenv.service.loops.home_records import HomeRecorder
from agentenv.service.loops.leader_election import Leader
from agentenv.service.loops.scheduler import Scheduler
from agentenv.service.workspaced.activity import WorkspacedActivity
from agentenv.service.workspaced.client import WorkspacedClient
from agentenv.service.workspaced.tokens import TokenSigner
from agentenv.service.workspaces.backend import KubernetesBackend, running_backend

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from agentenv.service.configuration import Configuration
    from agentenv.service.telemetry.metrics import Metrics

TICK = 0.5
# Running passes have so many seconds to end; the next leader continues what they started.
END = 10.0
_LOG = logging.getLogger(__name__)


class LoopsProcess:
    """The loops of one replica, with the watches that update its cache of workspaces."""

    def __init__(self, configuration: Configuration, metrics: Metrics) -> None:
        self._configuration, self._metrics = configuration, metrics
        self.stop = asyncio.Event()
        self.failed = False
        self._is_synced: Callable[[], bool] = lambda: False

    def probes(self) -> Starlette:
        """Return the liveness and readiness probes. A pass that blocks the event loop fails them."""

        async def alive(_: Request) -> Response:
            return PlainTextResponse("alive\n")

        async def ready(_: Request) -> Response:
            synced = self._is_synced()
            return PlainTextResponse("ready\n" if synced else "the watches are not synced\n", 200 if synced else 503)

        return Starlette(routes=[Route("/healthz", alive), Route("/readyz", ready)])

    async def run(self) -> None:
        """Take part in the leader election and run the loops while elected, until stopped or until a watch ends."""
        path = self._configuration.kubeconfig
        # The election has its own client: it does not wait behind a pass, and retries at its own interval.
        election_client, client = KubeClient.from_kubeconfig(path, attempts=1), KubeClient.from_kubeconfig(path)
        leader = Leader(election_client, self._configuration.namespace, self._configuration.replica)
        signer = TokenSigner(client, self._configuration.namespace, leader.clock.now)
        workspaced = WorkspacedClient(signer) if self._configuration.settings.service.workspaced else None
        try:
            await self._run(client, leader, workspaced)
        except Exception:  # noqa: BLE001 - any failure is logged and ends the process
            self.failed = True
            _LOG.exception("the loops failed; the process exits")
        finally:
            for connection in (workspaced, client, election_client):
                if connection is not None:
                    await connection.close()

    async def _run(self, client: KubeClient, leader: Leader, workspaced: WorkspacedClient | None) -> None:
        configuration, metrics = self._configuration, self._metrics
        catalog = Catalog.of(configuration.settings, configuration.vpc_cidrs, configuration.service_cidr)
        recorder, accounts = recorder_of(configuration, client, metrics), accounts_of(configuration)
        published = PublishedBudgets(accounts.policy, metrics, client.clock.now) if accounts else None
        informers = [published.informer(client, configuration.namespace)] if published else []
        nodes = LeavingNodes(client)
        informers.append(nodes.informer())
        backend = KubernetesBackend(client, catalog, metrics, now=client.clock.now, more_informers=informers)
        self._is_synced = backend.is_synced
        context = cluster_context(
            client,
            leader.clock,
            metrics,
            configuration.namespace,
            configuration.replica,
            workspace_snapshot=backend.existing_workspaces,
            points=Efs(configuration.region) if configuration.file_systems else None,
            file_systems=configuration.file_systems,
            targets=TargetGroup(configuration.region, configuration.target_group)
            if configuration.target_group
            else None,
            settle=recorder.settle_workspace if recorder else None,
            pod_reports=backend.view.reports,
            workspaced=workspaced,
            nodes=nodes,
            accounts=accounts,
            fargate=selectors(configuration.settings),
            resizer=backend.resizer,
            emptying_image=configuration.settings.service.image,
        )
        sources: list[ActivitySource] = [WorkspacedActivity(context.backend, workspaced)] if workspaced else []
        if configuration.prometheus:
            sources.append(Prometheus(configuration.prometheus))
        context.sources = sources
        budgets = (
            Budgets(
                context.backend,
                accounts,
                published,
                metrics,
                publish=functools.partial(publish, client, configuration.namespace),
                departed_owners=backend.view.take_departed_owners,
            )
            if accounts and published
            else None
        )
        context.refuse_wake = budgets.refuse_wake if budgets else None
        records = home_records_of(configuration)
        homes = HomeRecorder(context, records) if records else None
        loops = [
            *serialized(
                [
                    *loops_of_workspaces(context, budgets),
                    *loops_of_cluster(context),
                    *metering_loops(context, metrics, recorder, homes),
                ]
            )
        ]
        scheduler = Scheduler(loops, lambda: leader.is_leader() and not self.stop.is_set(), metrics)
        async with running_backend(backend, self._on_watches_ended):
            await lead(leader, scheduler, metrics, self.stop)

    def _on_watches_ended(self) -> None:
        if not self.stop.is_set():
            # A replica whose cache is not updated is replaced by a new one.
            self.failed = True
            _LOG.error("the watches of the cluster ended; the process exits")
            self.stop.set()


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
