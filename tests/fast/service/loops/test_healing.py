"""Failed pods are replaced: the workspace is suspended, and resumed once the pod is gone."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.core.workspaces.workspace import SUSPENDED_BECAUSE
from agentenv.service.kube.client import CLAIMS, EVENTS, PODS, Document
from agentenv.service.loops.healing import replace_failed_pods, why_failed
from tests.fast.service.fake_api_server import Killed, run
from tests.fast.service.loops.cluster import SPACE, Cluster, always

EVICTED = {
    "phase": "Failed",
    "reason": "Evicted",
    "message": 'Usage of EmptyDir volume "tmp" exceeds the limit "1Gi".',
}


def fail(cluster: Cluster, status: Document | None = None) -> None:
    """Let the pod of the workspace fail, and its claim report it."""
    about = {"name": "box-w-1", "namespace": SPACE}
    cluster.server.put(PODS, {"metadata": about, "status": status or EVICTED})
    claim = cluster.server.find(CLAIMS, "w-1", SPACE)
    assert claim is not None
    failed = [{"type": "Ready", "status": "False", "reason": "PodFailed", "message": "the pod failed"}]
    cluster.server.put(CLAIMS, {**claim, "status": {**claim["status"], "conditions": failed}})


def remove_pod(cluster: Cluster) -> None:
    """Delete the pod, as the controller does for a suspended sandbox."""
    del cluster.server.objects[PODS, SPACE, "box-w-1"]
    cluster.settle()


def events(cluster: Cluster) -> list[tuple[str, str]]:
    found = [event for (kind, _, _), event in cluster.server.objects.items() if kind is EVENTS]
    return [(event["reason"], event["message"]) for event in found]


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.workspace()
    return cluster


def heal(cluster: Cluster) -> int:
    return run(replace_failed_pods, cluster.context(), always).steps


def test_failed_pod_is_replaced_with_an_event_with_the_reason(cluster: Cluster) -> None:
    assert heal(cluster) == 0
    fail(cluster)
    assert heal(cluster) == 1
    assert (cluster.mode(), cluster.notes()[SUSPENDED_BECAUSE]) == ("Suspended", "failed")
    assert heal(cluster) == 0  # its pod is not gone yet
    remove_pod(cluster)
    assert heal(cluster) == 1
    assert (cluster.mode(), cluster.notes().get(SUSPENDED_BECAUSE)) == ("Running", None)
    ((reason, message),) = events(cluster)
    assert reason == "PodReplaced"
    assert "Evicted: Usage of EmptyDir" in message
    assert cluster.metrics.slept == [("box", "failed")]


@pytest.mark.parametrize("change", [1, 2, 3])
def test_an_interrupted_replacement_is_completed_by_later_passes(cluster: Cluster, change: int) -> None:
    fail(cluster)

    def dies(number: int) -> None:
        if number == change:
            raise Killed

    cluster.server.before = dies
    with pytest.raises(Killed):
        heal(cluster)
    cluster.server.before = lambda _: None
    cluster.advance(120)
    heal(cluster)
    assert cluster.mode() == "Suspended"
    remove_pod(cluster)
    heal(cluster)
    assert cluster.mode() == "Running"


@pytest.mark.parametrize("change", [1, 2, 3])
def test_an_overtaken_replacement_is_made_by_the_next_pass(cluster: Cluster, change: int) -> None:
    fail(cluster)

    def overtakes(number: int) -> None:
        if number == change:
            cluster.server.before = lambda _: None
            cluster.note(last_active="2026-11-19T12:00:00.000Z")

    cluster.server.before = overtakes
    heal(cluster)
    heal(cluster)
    assert cluster.mode() == "Suspended"
    remove_pod(cluster)
    assert heal(cluster) == 1
    assert cluster.mode() == "Running"


def test_a_pod_that_fails_again_at_once_is_left_for_a_minute(cluster: Cluster) -> None:
    fail(cluster)
    heal(cluster)
    remove_pod(cluster)
    heal(cluster)
    fail(cluster)
    cluster.advance(30)
    assert heal(cluster) == 0
    cluster.advance(31)
    assert heal(cluster) == 1


def test_a_workspace_that_cannot_have_a_pod_is_left(cluster: Cluster) -> None:
    fail(cluster, {"phase": "Pending"})
    assert heal(cluster) == 0
    assert cluster.mode() == "Running"


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"reason": "NodeShutdown", "message": "Node is shutting down"}, "NodeShutdown: Node is shutting down"),
        ({"containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled"}}}]}, "OOMKilled"),
        ({}, "no reason is known"),
    ],
)
def test_the_reason_is_that_of_the_kubelet_or_of_the_container(status: dict[str, Any], why: str) -> None:
    assert why_failed({"status": status}) == why
