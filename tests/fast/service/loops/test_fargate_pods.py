"""Pods that the webhook of their Fargate profile missed are replaced, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.core.nodes.fargate_profiles import CONTROLLERS, Selector, selectors
from agentenv.core.values.timestamps import format_timestamp
from agentenv.service.kube.client import EVENTS, PODS
from agentenv.service.loops.catalog import loops_of_cluster
from agentenv.service.loops.fargate_pods import replace_missed_pods
from agentenv.service.loops.scheduler import PassResult
from tests.fast.config.stack_samples import settings
from tests.fast.service.fake_api_server import run
from tests.fast.service.loops.cluster import START, Cluster, always

COREDNS = CONTROLLERS["coredns"]
OWNED = [{"kind": "ReplicaSet", "name": "coredns-1", "uid": "r", "controller": True}]


def pod(cluster: Cluster, name: str = "coredns-1-a", /, **changes: Any) -> None:
    """Create a pod that waits for a node, with changes of its parts."""
    metadata = {
        "name": name,
        "namespace": "kube-system",
        "labels": dict(COREDNS.labels),
        "creationTimestamp": format_timestamp(START),
        "ownerReferences": OWNED,
        **changes.get("metadata", {}),
    }
    spec = {"schedulerName": "default-scheduler", **changes.get("spec", {})}
    cluster.server.put(
        PODS, {"metadata": metadata, "spec": spec, "status": changes.get("status", {"phase": "Pending"})}
    )


def replace(cluster: Cluster, *selected: Selector) -> PassResult:
    return run(replace_missed_pods, cluster.context(fargate=selected or (COREDNS,)), always)


def test_a_missed_pod_is_deleted_after_five_minutes_with_an_event_and_a_count() -> None:
    cluster = Cluster()
    pod(cluster)
    cluster.advance(299)
    assert replace(cluster) == PassResult()
    cluster.advance(1)
    assert replace(cluster) == PassResult(1)
    assert cluster.server.names(PODS) == []
    assert cluster.metrics.missed == ["kube-system"]
    ((event),) = [document for (kind, _, _), document in cluster.server.objects.items() if kind is EVENTS]
    assert (event["reason"], event["type"]) == ("FargateMissed", "Warning")
    assert (event["involvedObject"]["name"], event["metadata"]["namespace"]) == ("coredns-1-a", "kube-system")


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": {"schedulerName": "fargate-scheduler"}},
        {"spec": {"nodeName": "n1"}},
        {"status": {"phase": "Running"}},
        {"metadata": {"ownerReferences": []}},
        {"metadata": {"ownerReferences": [{**OWNED[0], "controller": False}]}},
        {"metadata": {"deletionTimestamp": format_timestamp(START)}},
        {"metadata": {"labels": {"k8s-app": "other"}}},
        {"metadata": {"namespace": "elsewhere"}},
    ],
    ids=lambda changes: str(next(iter(changes.values()))),
)
def test_other_pods_stay(changes: dict[str, Any]) -> None:
    cluster = Cluster()
    pod(cluster, **changes)
    cluster.advance(3600)
    assert replace(cluster) == PassResult()
    assert len(cluster.server.names(PODS)) == 1


def test_a_pod_that_is_placed_meanwhile_stays() -> None:
    cluster = Cluster()
    pod(cluster)
    cluster.advance(600)
    cluster.server.before = lambda number: pod(cluster, spec={"nodeName": "n1"}) if number == 1 else None
    assert replace(cluster) == PassResult()
    assert (cluster.server.names(PODS), cluster.metrics.missed) == (["coredns-1-a"], [])


def test_a_pass_replaces_ten_pods_at_most() -> None:
    cluster = Cluster()
    for number in range(12):
        pod(cluster, f"coredns-1-{number}")
    cluster.advance(600)
    assert [replace(cluster).steps, replace(cluster).steps] == [10, 2]


def test_the_pods_of_all_profiles_of_an_environment_are_selected() -> None:
    assert selectors(settings()) == list(CONTROLLERS.values())
    on_nodes = settings(
        {"cluster": {"publicAccessCidrs": ["203.0.113.0/24"], "sandboxController": {"place": "system"}}}
    )
    assert CONTROLLERS["agent-sandbox"] not in selectors(on_nodes)
    loops = loops_of_cluster(Cluster().context(fargate=selectors(on_nodes)))
    assert "fargate" in {loop.name for loop in loops}
