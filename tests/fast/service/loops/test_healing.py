"""Failed pods are replaced: the workspace is suspended, and resumed once the pod is gone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agentenv.core.workspaces.pod_report import PodReport
from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.core.workspaces.workspace import SUSPENDED_BECAUSE, LastEnd
from agentenv.service.kube.client import CLAIMS, EVENTS, PODS, Document
from agentenv.service.loops.healing import replace_failed_pods
from agentenv.service.loops.restarts import record_restarts
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


def killed(cluster: Cluster, restarts: int, seconds_ago: float = 5) -> PodReport:
    end = LastEnd("OOMKilled", 137, cluster.now - timedelta(seconds=seconds_ago))
    return PodReport("pod-uid", "w-1", restarts, end)


def test_a_restart_is_an_event_and_counted_once_by_all_replicas(cluster: Cluster) -> None:
    workspace = workspace_of_claim(cluster.server.find(CLAIMS, "w-1", SPACE) or {})
    assert workspace is not None
    for restarts in (1, 1, 2):
        reports = [(workspace, killed(cluster, restarts))]
        # Two leaders one after the other, neither of which knows what the other recorded.
        for _ in range(2):
            context = cluster.context(pod_reports=lambda reports=reports: reports)
            run(record_restarts, context, always)
            assert run(record_restarts, context, always).steps == 0
    assert [reason for reason, _ in events(cluster)] == ["Restarted"] * 2
    assert all("out of memory (OOMKilled), exit code 137" in message for _, message in events(cluster))
    assert cluster.metrics.restarts == [("box", "out-of-memory")] * 2


def test_a_restart_of_long_ago_is_no_news_for_a_new_leader(cluster: Cluster) -> None:
    workspace = workspace_of_claim(cluster.server.find(CLAIMS, "w-1", SPACE) or {})
    assert workspace is not None
    reports = [(workspace, killed(cluster, 1, seconds_ago=3600))]
    assert run(record_restarts, cluster.context(pod_reports=lambda: reports), always).steps == 0
    assert events(cluster) == []
