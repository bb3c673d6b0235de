"""Tests that the workspace service can do all of its work with the guardrails in force, with its own permissions."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from lightkube import KubeConfig
from lightkube.config.client_adapter import AsyncClient, ConnectionParams

from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.core.workspaces.workspace import Changes, CreateRequest, Lease, Workspace
from agentenv.service.catalog import Catalog
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import CLAIMS, VOLUMES, KubeApiError, KubeClient
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.backend import KubernetesBackend, running_backend
from agentenv.service.workspaces.eager_retention import retain_volume
from tests.live.controlplane.objects import TIMEOUT
from tests.live.guardrails.conftest import stage_settings
from tests.live.guardrails.guarded import CLASS, INSIDER, SERVICE, Guarded, claim


def acting_as(guarded: Guarded, user: str) -> KubeClient:
    """Return the client of another user, with all rights that the guardrails leave."""
    config: Any = KubeConfig.from_file(guarded.live.plane.kubeconfig())
    client: Any = AsyncClient(config.get(), ConnectionParams(timeout=httpx2.Timeout(10.0)))
    client.headers["Impersonate-User"] = user
    return KubeClient(client)


@pytest.mark.parametrize("who", [SERVICE])
def test_service_claims_retains_and_deletes(guarded: Guarded, who: str) -> None:
    async def work() -> None:
        kube = acting_as(guarded, who)
        backend = KubernetesBackend(kube, Catalog(stage_settings()), Metrics())
        try:
            async with running_backend(backend), asyncio.timeout(4 * TIMEOUT):
                while not backend.is_synced():
                    await asyncio.sleep(0.05)
                await _use_workspace(kube, backend)
        finally:
            await kube.close()

    asyncio.run(work())


async def _use_workspace(kube: KubeClient, backend: KubernetesBackend) -> None:
    request = CreateRequest("u-served", "user", CLASS, "u-served", labels={"team": "red"})
    created = await backend.create(request, wait=TIMEOUT)
    assert created.ready, created
    id_ = created.workspace.id
    volume = await kube.find(VOLUMES, str(created.workspace.volume))
    assert volume is not None
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    until = datetime.now(UTC) + timedelta(minutes=1)
    assert (await backend.attach(id_, Lease("u-served/agent", "rw", until))).leases
    assert not (await backend.detach(id_, "u-served/agent")).leases
    changed = await backend.update(id_, Changes(labels={"team": "blue"}, deadline=until), wait=0)
    assert changed.workspace.labels == {"team": "blue"}
    await backend.suspend(id_, "asked")
    assert (await _settled(backend, id_, "suspended")).state == "suspended"
    assert (await backend.resume(id_, wait=TIMEOUT)).ready
    await backend.delete(id_, keep_for=timedelta(days=1))
    assert (await _settled(backend, id_, "deleted")).state == "deleted"
    retained = await kube.find(VOLUMES, str(created.workspace.volume))
    assert retained is not None
    # The volume is deleted with the test.
    await kube.patch(VOLUMES, retained, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})


async def _settled(backend: KubernetesBackend, id_: str, state: str) -> Workspace:
    found = await backend.settled(id_, wait=TIMEOUT)
    while found is not None and found.state != state:
        await asyncio.sleep(0.1)
        found = await backend.get(id_)
    assert found is not None
    return found


def test_other_users_may_not_do_what_the_service_may(guarded: Guarded) -> None:
    async def attempt() -> None:
        kube = acting_as(guarded, INSIDER)
        backend = KubernetesBackend(kube, Catalog(stage_settings()), Metrics())
        try:
            async with running_backend(backend), asyncio.timeout(TIMEOUT):
                while not backend.is_synced():
                    await asyncio.sleep(0.05)
                # Anyone may create a claim, but only the service sets its records.
                with pytest.raises(Problem, match="claim-record"):
                    await backend.create(CreateRequest("u-insider", "user", CLASS, "u-insider"), wait=TIMEOUT)
                bare = await kube.create(CLAIMS, claim(guarded, "insider", user="u-insider"))
                workspace = workspace_of_claim(bare or {})
                assert bare is not None
                assert workspace is not None
                try:
                    ready = await backend.reader.ready(workspace, TIMEOUT)
                    # Only the service may retain its volume.
                    with pytest.raises(KubeApiError, match="workspace service"):
                        await retain_volume(kube, backend.view, ready)
                finally:
                    left = await backend.reader.claim("insider")
                    assert left is not None
                    await kube.delete(CLAIMS, left)
        finally:
            await kube.close()

    asyncio.run(attempt())
