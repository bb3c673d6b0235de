"""A failed pod, which the sandbox controller leaves as it is, is replaced with the same home."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.core.workspaces.workspace import SUSPENDED_BECAUSE
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.service.loops.healing import replace_failed_pods
from tests.live.conftest import World
from tests.live.controlplane.things import PATIENCE
from tests.live.service.blocking import Blocking, run
from tests.live.service.conftest import IMAGES, Box
from tests.live.service.lifecycle import Stage


@pytest.fixture
def box(world: World, ground: Client, system: str) -> Iterator[Box]:
    cluster = Blocking.from_kubeconfig(world.plane.kubeconfig())
    box_ = Box(f"box{uuid.uuid4().hex[:6]}", ground, cluster, system, most=3)
    yield box_
    ground.delete(f"/api/v1/namespaces/{box_.space}")
    cluster.close()


@pytest.fixture
def stage(box: Box, world: World) -> Iterator[Stage]:
    stage_ = Stage(box, world)
    yield stage_
    stage_.clear()


def test_an_evicted_pod_is_replaced_with_its_home(box: Box, stage: Stage) -> None:
    pool = box.deploy(IMAGES[0])
    assert until(lambda: box.full(pool), PATIENCE)
    name = stage.make(pool)
    volume = stage.volume(name)
    sandbox = (stage.claim(name) or {})["status"]["sandbox"]["name"]
    path = f"/api/v1/namespaces/{box.space}/pods/{sandbox}"
    first: dict[str, Any] = box.client.get(path)
    evicted = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    box.client.request("PATCH", f"{path}/status", {"status": evicted}, content="application/merge-patch+json")

    def replaced() -> bool:
        assert run(replace_failed_pods, stage.context(), lambda: True).failures == ()
        pod = box.client.find(path)
        return (
            pod is not None
            and pod["metadata"]["uid"] != first["metadata"]["uid"]
            and pod.get("status", {}).get("phase") == "Running"
        )

    assert until(replaced, PATIENCE, every=0.5)
    assert stage.volume(name) == volume
    assert SUSPENDED_BECAUSE not in stage.notes(name)
    events = box.client.get(f"/api/v1/namespaces/{box.space}/events")["items"]
    (message,) = [event["message"] for event in events if event["reason"] == "PodReplaced"]
    assert "Evicted: The node was low on resource" in message
