"""The endpoint of a workspace is its own ready pod, and nothing while it does not run."""

from __future__ import annotations

from typing import Any

from agentenv.service.kube.view import ClusterView
from agentenv.service.workspaces.backend_protocol import Endpoint
from tests.fast.service.kube.test_view import claim

SPACE = "sandbox-standard"


def running(name: str, **changed: Any) -> dict[str, Any]:
    document = claim(name)
    ready = {"type": "Ready", "status": "True"}
    document["status"] = {"conditions": [ready], "sandbox": {"name": f"box-{name}"}, **changed}
    return document


def pod(name: str, of: str, *, ready: bool = True, address: str = "10.0.0.7", **metadata: Any) -> dict[str, Any]:
    labels = {"agents.x-k8s.io/claim-uid": f"{SPACE}/{of}"}
    return {
        "metadata": {"name": name, "namespace": SPACE, "uid": f"pod-{name}", "labels": labels, **metadata},
        "spec": {"containers": [{"ports": [{"name": "workspaced", "containerPort": 49983}]}]},
        "status": {"podIP": address, "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def test_a_running_workspace_is_reached_at_its_ready_pod() -> None:
    view = ClusterView()
    view.put_claim(running("w-1"))
    assert view.endpoint("w-1") is None
    view.put_pod(pod("box-w-1", "w-1", ready=False))
    assert view.endpoint("w-1") is None
    view.put_pod(pod("box-w-1", "w-1"))
    assert view.endpoint("w-1") == Endpoint("pod-box-w-1", f"{SPACE}/w-1", "10.0.0.7", 49983)
    view.put_claim({**running("w-1"), "status": {"conditions": [{"type": "Ready", "reason": "SandboxSuspended"}]}})
    assert view.endpoint("w-1") is None


def test_a_pod_that_ends_is_not_reached() -> None:
    view = ClusterView()
    view.put_claim(running("w-1"))
    for end in (
        lambda: view.put_pod(pod("box-w-1", "w-1", deletionTimestamp="2026-11-19T12:00:00Z")),
        lambda: view.drop_pod((SPACE, "box-w-1")),
        lambda: view.put_pod(pod("box-w-1", "w-1", ready=False)),
    ):
        view.put_pod(pod("box-w-1", "w-1"))
        assert view.endpoint("w-1")
        end()
        assert view.endpoint("w-1") is None


def test_the_pod_of_a_claim_before_this_one_is_not_reached() -> None:
    view = ClusterView()
    view.put_claim(running("w-1"))
    view.put_pod(pod("box", "w-other"))
    assert view.endpoint("w-1") is None
    view.put_pod(pod("box-w-1", "w-1"))
    claimed_again = running("w-1")
    claimed_again["metadata"]["uid"] = "another"
    view.put_claim(claimed_again)
    assert view.endpoint("w-1") is None


def test_a_ready_pod_without_workspaced_is_known() -> None:
    view = ClusterView()
    view.put_claim(running("w-1"))
    without = {**pod("box-w-1", "w-1"), "spec": {"containers": [{"ports": [{"name": "http", "containerPort": 80}]}]}}
    view.put_pod({**without, "status": {}})
    assert not view.lacks_workspaced("w-1")
    view.put_pod(without)
    assert (view.lacks_workspaced("w-1"), view.lacks_workspaced("w-2")) == (True, False)
    assert view.endpoint("w-1") is None
    view.drop_pod((SPACE, "box-w-1"))
    view.put_pod(pod("new", "w-1"))
    assert not view.lacks_workspaced("w-1")


def test_the_end_of_the_old_pod_leaves_the_new_one() -> None:
    view = ClusterView()
    view.put_claim(running("w-1"))
    view.put_pod(pod("old", "w-1"))
    view.put_pod(pod("new", "w-1", address="10.0.0.8"))
    view.drop_pod((SPACE, "old"))
    endpoint = view.endpoint("w-1")
    assert endpoint is not None
    assert endpoint.address == "10.0.0.8"
