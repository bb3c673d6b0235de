"""A failed pod, which the sandbox controller leaves as it is, is replaced with the same home."""

from __future__ import annotations

from typing import Any

from agentenv.core.workspaces.workspace import SUSPENDED_BECAUSE
from agentenv.rehearsal.controlplane.client import until
from agentenv.service.loops.healing import replace_failed_pods
from tests.live.controlplane.objects import TIMEOUT
from tests.live.service.blocking import run
from tests.live.service.conftest import LiveClass
from tests.live.service.lifecycle import Lifecycle


def test_evicted_pod_is_replaced_with_its_home(live_class: LiveClass, lifecycle: Lifecycle) -> None:
    pool = live_class.deploy_until_full()
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
