"""A failed pod, which the sandbox controller leaves as it is, is replaced with the same home."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.core.workspaces.workspace import SUSPENDED_BECAUSE
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.service.loops.healing import replace_failed_pods
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT
from tests.live.service.blocking import Blocking, run
from tests.live.service.conftest import IMAGES, LiveClass
from tests.live.service.lifecycle import Lifecycle


@pytest.fixture
def live_class(live: LiveCluster, cluster_client: Client, file_system: str) -> Iterator[LiveClass]:
    cluster = Blocking.from_kubeconfig(live.plane.kubeconfig())
    live_class_ = LiveClass(f"box{uuid.uuid4().hex[:6]}", cluster_client, cluster, file_system, max_sandboxes=3)
    yield live_class_
    cluster_client.delete(f"/api/v1/namespaces/{live_class_.namespace}")
    cluster.close()


@pytest.fixture
def lifecycle(live_class: LiveClass, live: LiveCluster) -> Iterator[Lifecycle]:
    lifecycle_ = Lifecycle(live_class, live)
    yield lifecycle_
    lifecycle_.delete_all()


def test_evicted_pod_is_replaced_with_its_home(live_class: LiveClass, lifecycle: Lifecycle) -> None:
    pool = live_class.deploy(IMAGES[0])
    assert until(lambda: live_class.is_full(pool), TIMEOUT)
    name = lifecycle.create_workspace(pool)
    volume = lifecycle.volume(name)
    sandbox = (lifecycle.claim(name) or {})["status"]["sandbox"]["name"]
    path = f"/api/v1/namespaces/{live_class.namespace}/pods/{sandbox}"
    first: dict[str, Any] = live_class.client.get(path)
    evicted = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    live_class.client.request("PATCH", f"{path}/status", {"status": evicted}, content="application/merge-patch+json")

    def replaced() -> bool:
        assert run(replace_failed_pods, lifecycle.context(), lambda: True).failures == ()
        pod = live_class.client.find(path)
        return (
            pod is not None
            and pod["metadata"]["uid"] != first["metadata"]["uid"]
            and pod.get("status", {}).get("phase") == "Running"
        )

    assert until(replaced, TIMEOUT, every=0.5)
    assert lifecycle.volume(name) == volume
    assert SUSPENDED_BECAUSE not in lifecycle.notes(name)
    events = live_class.client.get(f"/api/v1/namespaces/{live_class.namespace}/events")["items"]
    (message,) = [event["message"] for event in events if event["reason"] == "PodReplaced"]
    assert "Evicted: The node was low on resource" in message
