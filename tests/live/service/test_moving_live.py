"""A workspace leaves a node that goes away, and one that is gone, with its home, in the real control plane."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.core.classes.names import WORKSPACE_LABEL
from agentenv.core.lifecycle.moving import DISRUPTED
from agentenv.core.nodes.tiers import CAPACITY_LABEL, labels, taints, wall_of
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape
from agentenv.service.kube.client import KubeClient
from agentenv.service.kube.leaving_nodes import LeavingNodes
from agentenv.service.loops.moving import move_workspaces
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT, is_ready
from tests.live.service.blocking import run
from tests.live.service.conftest import LiveClass
from tests.live.service.lifecycle import Lifecycle


@pytest.fixture
def second_node(live: LiveCluster, cluster_client: Client) -> Iterator[str]:
    """Create a second node for the class before its pods are scheduled; it is deleted after them, as they end on it."""
    wall, name = wall_of("verified"), f"spot-{uuid.uuid4().hex[:6]}"
    marks = tuple(f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in taints(wall))
    own = {**labels(wall), CAPACITY_LABEL: "on-demand"}
    live.plane.add_nodes([NodeShape(name, "us-east-1a", "m7g.xlarge", "16", "60Gi", labels=own, taints=marks)])
    yield name
    cluster_client.delete(f"/api/v1/nodes/{name}")


@pytest.mark.parametrize("gone", [False, True], ids=["interrupted", "gone"])
def test_workspace_moves_with_its_home(
    live_class: LiveClass, second_node: str, lifecycle: Lifecycle, cluster_client: Client, *, gone: bool
) -> None:
    pool = live_class.deploy_until_full()
    name = lifecycle.create_workspace(pool)
    volume = lifecycle.volume(name)
    path = f"/api/v1/namespaces/{live_class.namespace}/pods/{lifecycle.sandbox(name)}"
    first: dict[str, Any] = cluster_client.get(path)
    assert first["metadata"]["labels"][WORKSPACE_LABEL] == name
    former = f"/api/v1/nodes/{first['spec']['nodeName']}"
    node = cluster_client.get(former)
    api = live_class.cluster.api
    assert isinstance(api, KubeClient)
    nodes = LeavingNodes(api)
    taint = {"key": DISRUPTED, "effect": "NoSchedule"}
    if gone:
        cluster_client.delete(former)
        nodes.drop(("", node["metadata"]["name"]))
    else:
        cluster_client.merge(former, {"spec": {"taints": [*node["spec"]["taints"], taint]}})
        nodes.put({**node, "spec": {**node["spec"], "taints": [taint]}})
    context = lifecycle.context()

    def moved() -> bool:
        assert run(move_workspaces, context, nodes, lambda: True).failures == ()
        pod = cluster_client.find(path)
        return pod is not None and pod["metadata"]["uid"] != first["metadata"]["uid"] and is_ready(cluster_client, path)

    try:
        assert until(moved, TIMEOUT, every=0.5)
    finally:
        if gone:
            cluster_client.create_if_missing(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": node["metadata"]["name"], "labels": node["metadata"]["labels"]},
                    "spec": {"taints": node["spec"]["taints"], "providerID": node["spec"]["providerID"]},
                    "status": node["status"],
                }
            )
        else:
            cluster_client.merge(former, {"spec": {"taints": node["spec"]["taints"]}})
    assert cluster_client.get(path)["spec"]["nodeName"] != first["spec"]["nodeName"]
    assert lifecycle.volume(name) == volume
    events = cluster_client.get(f"/api/v1/namespaces/{live_class.namespace}/events")["items"]
    (message,) = [event["message"] for event in events if event["reason"] == "Moving"]
    assert node["metadata"]["name"] in message
