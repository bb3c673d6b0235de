"""Workspaces leave nodes that go away: Spot's two minutes, drained nodes, and nodes that are gone.

The taint is Karpenter's `DisruptedNoScheduleTaint` (pkg/apis/v1/taints.go). Its eviction queue leaves pods that may not
be disrupted to the end of the instance (pkg/controllers/node/termination/terminator/eviction.go).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from agentenv.core.lifecycle.moving import LeavingNode, leaving_node
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.core.workspaces.workspace import BUSY_UNTIL, SUSPENDED_BECAUSE, WAKE_AT, Workspace
from agentenv.service.kube.client import CLAIMS, EVENTS, PODS, SANDBOXES, Document
from agentenv.service.kube.leaving_nodes import GONE_SECONDS, WAITING_SECONDS, LeavingNodes
from agentenv.service.loops.moving import move_workspaces
from tests.fast.service.fake_api_server import Api, Killed, run
from tests.fast.service.loops.cluster import SPACE, Cluster, always

SPOT = LeavingNode("n1", spot=True)
ON_DEMAND = LeavingNode("n1", spot=False)
GONE = LeavingNode("n1", spot=True, gone=True)


@dataclass
class Nodes:
    """The nodes that go away, and the pods of a simulated cluster on them."""

    cluster: Cluster
    rows: list[LeavingNode] = field(default_factory=list[LeavingNode])

    def leaving(self) -> Sequence[LeavingNode]:
        return self.rows

    async def pods(self, node: str) -> Sequence[Document]:
        found = self.cluster.server.list(PODS)
        return [pod for pod in found if pod["spec"]["nodeName"] == node]

    async def end_pod(self, pod: Document) -> bool:
        return self.cluster.server.delete(PODS, {"metadata": {"name": pod["metadata"]["name"], "namespace": SPACE}})


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.workspace()
    put_pod(cluster)
    return cluster


@pytest.fixture
def nodes(cluster: Cluster) -> Nodes:
    return Nodes(cluster, [SPOT])


def put_pod(cluster: Cluster, node: str = "n1") -> None:
    claim, sandbox = (
        cluster.server.objects[kind, SPACE, name] for kind, name in ((CLAIMS, "w-1"), (SANDBOXES, "box-w-1"))
    )
    labels = {"sandbox.users.io/workspace": "w-1", "agents.x-k8s.io/claim-uid": claim["metadata"]["uid"]}
    owner = {"uid": sandbox["metadata"]["uid"], "kind": "Sandbox"}
    about = {"name": "box-w-1", "namespace": SPACE, "labels": labels, "ownerReferences": [owner]}
    cluster.server.put(PODS, {"metadata": about, "spec": {"nodeName": node}})


def move(cluster: Cluster, nodes: Nodes) -> int:
    done = run(move_workspaces, cluster.context(), nodes, always)
    assert done.failures == ()
    return done.steps


def workspace(cluster: Cluster) -> Workspace:
    found = workspace_of_claim(cluster.server.find(CLAIMS, "w-1", SPACE) or {})
    assert found is not None
    return found


def reasons(cluster: Cluster) -> list[str]:
    return [event["reason"] for (kind, _, _), event in cluster.server.objects.items() if kind is EVENTS]


def test_a_workspace_leaves_a_spot_node_in_time_and_resumes_on_another(cluster: Cluster, nodes: Nodes) -> None:
    assert move(cluster, nodes) == 1
    assert (cluster.mode(), workspace(cluster).state) == ("Suspended", "moving")
    cluster.settle()
    assert workspace(cluster).state == "moving"
    assert move(cluster, nodes) == 0, "its pod has its grace period"
    del cluster.server.objects[PODS, SPACE, "box-w-1"]
    assert move(cluster, nodes) == 1
    put_pod(cluster, "n2")
    cluster.settle()
    assert (cluster.mode(), workspace(cluster).state) == ("Running", "running")
    assert move(cluster, nodes) == 0
    assert reasons(cluster) == ["Moving"]
    assert cluster.metrics.slept == [("box", "moving")]


@pytest.mark.parametrize("change", [1, 2, 3, 4, 5])
def test_an_interrupted_move_is_completed_by_later_passes(cluster: Cluster, nodes: Nodes, change: int) -> None:
    def dies(number: int) -> None:
        if number == change:
            raise Killed

    cluster.server.before = dies
    for _ in range(3):
        try:
            move(cluster, nodes)
        except Killed:
            cluster.server.before = lambda _: None
        cluster.settle()
        if cluster.mode() == "Suspended":
            cluster.server.objects.pop((PODS, SPACE, "box-w-1"), None)
    if (row := workspace(cluster)).state == "suspended":
        # A resume that was interrupted between its writes is completed by the loop `waking`.
        assert row.suspended_because is None
        assert row.last_active == cluster.now
    else:
        assert (cluster.mode(), row.state) == ("Running", "running")


def test_a_suspended_workspace_stays_where_it_is(cluster: Cluster, nodes: Nodes) -> None:
    cluster.note(suspended_because="asked")
    cluster.server.objects[SANDBOXES, SPACE, "box-w-1"]["spec"]["operatingMode"] = "Suspended"
    cluster.settle()
    assert move(cluster, nodes) == 0
    assert cluster.notes()[SUSPENDED_BECAUSE] == "asked"


def test_work_on_a_node_that_waits_for_it_is_not_interrupted_but_warned(cluster: Cluster, nodes: Nodes) -> None:
    nodes.rows = [ON_DEMAND]
    cluster.note(busy_until=format_timestamp(cluster.now.replace(hour=13)))
    assert move(cluster, nodes) == 1
    assert move(cluster, nodes) == 0, "it is warned once"
    assert (cluster.mode(), reasons(cluster)) == ("Running", ["NodeLeaving"])
    cluster.note(busy_until=None)
    assert move(cluster, nodes) == 1
    assert cluster.mode() == "Suspended"
    assert BUSY_UNTIL not in cluster.notes()


def test_the_pod_of_a_node_that_is_gone_is_not_waited_for(cluster: Cluster, nodes: Nodes) -> None:
    nodes.rows = [GONE]
    cluster.server.objects[CLAIMS, SPACE, "w-1"]["status"]["sandbox"]["podIPs"] = ["10.0.0.9"]
    assert move(cluster, nodes) == 1
    assert PODS not in {kind for kind, _, _ in cluster.server.objects}
    assert (workspace(cluster).state, workspace(cluster).addresses) == ("moving", ())
    cluster.settle()
    assert move(cluster, nodes) == 1
    assert cluster.mode() == "Running"


def test_pod_of_another_claim_of_the_name_moves_no_workspace(cluster: Cluster, nodes: Nodes) -> None:
    cluster.server.objects[PODS, SPACE, "box-w-1"]["metadata"]["labels"]["agents.x-k8s.io/claim-uid"] = "former"
    assert move(cluster, nodes) == 0
    assert cluster.mode() == "Running"


def test_a_later_time_to_wake_stays(cluster: Cluster, nodes: Nodes) -> None:
    at = format_timestamp(cluster.now.replace(day=20))
    cluster.note(wake_at=at)
    move(cluster, nodes)
    del cluster.server.objects[PODS, SPACE, "box-w-1"]
    cluster.settle()
    move(cluster, nodes)
    assert (cluster.mode(), cluster.notes()[WAKE_AT]) == ("Running", at)


def node(name: str, *, taint: str = "", capacity: str = "spot") -> Document:
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    return {"metadata": {"name": name, "labels": {"karpenter.sh/capacity-type": capacity}}, "spec": {"taints": taints}}


def test_node_ends_once_karpenter_taints_it() -> None:
    assert leaving_node(node("n1")) is None
    assert leaving_node(node("n1", taint="node.kubernetes.io/unschedulable")) is None
    assert leaving_node(node("n1", taint="karpenter.sh/disrupted")) == SPOT
    assert leaving_node(node("n1", taint="karpenter.sh/disrupted", capacity="on-demand")) == ON_DEMAND


def test_nodes_that_wait_are_read_seldom_and_those_that_are_gone_for_a_while() -> None:
    now = 1000.0
    nodes = LeavingNodes(Api(None), lambda: now)  # type: ignore[arg-type]
    nodes.put(node("n1", taint="karpenter.sh/disrupted", capacity="on-demand"))
    nodes.put(node("n2", taint="karpenter.sh/disrupted"))
    assert [row.name for row in nodes.leaving()] == ["n1", "n2"]
    assert [row.name for row in nodes.leaving()] == ["n2"]
    now += WAITING_SECONDS + 1
    assert [row.name for row in nodes.leaving()] == ["n1", "n2"]
    nodes.drop(("", "n2"))
    assert [(row.name, row.gone) for row in nodes.leaving()] == [("n2", True)]
    now += GONE_SECONDS + 1
    assert [row.name for row in nodes.leaving()] == ["n1"]
