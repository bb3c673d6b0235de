"""The backend of a cluster does what every backend does, against a real API server and controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from agentenv.service.catalog import Catalog
from agentenv.service.kube.client import KubeClient
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.backend import KubernetesBackend, running_backend
from tests.fast.config.stack_samples import settings
from tests.fast.service.workspaces.backend_contract import CONTRACT, Subject
from tests.live.conftest import LiveCluster
from tests.live.service.conftest import IMAGES, LiveClass

SECONDS = 60.0


@pytest.mark.parametrize("holds", CONTRACT, ids=lambda holds: holds.__name__)
def test_backend_fulfills_the_contract(
    holds: Callable[[Subject], Awaitable[None]], live_class: LiveClass, live: LiveCluster
) -> None:
    live_class.deploy_until_full()
    catalog = Catalog(settings({"sandboxClasses": [live_class.class_settings(IMAGES[0])]}))

    async def run() -> None:
        kube = KubeClient.from_kubeconfig(live.plane.kubeconfig())
        now = kube.clock.now
        backend = KubernetesBackend(kube, catalog, Metrics(), now=now)
        try:
            async with asyncio.timeout(SECONDS * 3), running_backend(backend):
                while not backend.is_synced():
                    await asyncio.sleep(0)
                await holds(Subject(backend, live_class.name, SECONDS))
        finally:
            await kube.close()

    asyncio.run(run())
