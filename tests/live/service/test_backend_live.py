"""The backend of a cluster and its swarms do what those of every backend do, with a real API server and controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from agentenv.rehearsal.controlplane.client import until
from agentenv.service.catalog import Catalog
from agentenv.service.kube.client import KubeClient
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.backend import KubernetesBackend, running_backend
from agentenv.service.workspaces.swarm_tasks import SwarmTasks
from tests.fast.config.stack_samples import settings
from tests.fast.service.workspaces.backend_contract import CONTRACT, Subject
from tests.fast.service.workspaces.swarms_contract import CONTRACT as CONTRACT_OF_SWARMS
from tests.fast.service.workspaces.swarms_contract import LIFECYCLE, SwarmSubject
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT
from tests.live.service.conftest import IMAGES, LiveClass

SECONDS = 60.0


@pytest.mark.parametrize("holds", CONTRACT, ids=lambda holds: holds.__name__)
def test_backend_fulfills_the_contract(
    holds: Callable[[Subject], Awaitable[None]], live_class: LiveClass, live: LiveCluster
) -> None:
    live_class.deploy_until_full()
    catalog = Catalog(settings({"sandboxClasses": [live_class.class_settings(IMAGES[0])]}))

    async def act(backend: KubernetesBackend, _: KubeClient) -> None:
        await holds(Subject(backend, live_class.name, SECONDS))

    on_cluster(live, catalog, act)


@pytest.mark.parametrize("holds", [*CONTRACT_OF_SWARMS, *LIFECYCLE], ids=lambda holds: holds.__name__)
def test_swarms_fulfill_the_contract(
    holds: Callable[[SwarmSubject], Awaitable[None]], live_class: LiveClass, live: LiveCluster
) -> None:
    live_class.size, live_class.storage, live_class.max_sandboxes = 0, "shared", 4
    live_class.deploy(IMAGES[0])
    assert until(lambda: live_class.get("resourcequotas", "sandbox", "/api/v1").get("status", {}).get("hard"), TIMEOUT)
    of_class = live_class.class_settings(IMAGES[0])
    catalog = Catalog(settings({"sandboxClasses": [of_class, {**of_class, "name": f"{live_class.name}-2"}]}))

    async def act(backend: KubernetesBackend, kube: KubeClient) -> None:
        subject = SwarmSubject(
            backend,
            live_class.name,
            SECONDS,
            swarms=SwarmTasks(kube.without_retries(), catalog, backend.view, now=kube.clock.now),
            other_class=f"{live_class.name}-2",
        )
        await holds(subject)
        for task in ("a", "b", "crawl"):
            await subject.swarms.end(subject.owner, task, destroy=True)

    on_cluster(live, catalog, act)


def on_cluster(
    live: LiveCluster, catalog: Catalog, act: Callable[[KubernetesBackend, KubeClient], Awaitable[None]]
) -> None:
    async def run() -> None:
        kube = KubeClient.from_kubeconfig(live.plane.kubeconfig())
        backend = KubernetesBackend(kube, catalog, Metrics(), now=kube.clock.now)
        try:
            async with asyncio.timeout(SECONDS * 3), running_backend(backend):
                while not backend.is_synced():
                    await asyncio.sleep(0)
                await act(backend, kube)
        finally:
            await kube.close()

    asyncio.run(run())
