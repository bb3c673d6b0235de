"""A Spot loss in the rehearsal goes as on AWS: a warning, a taint, a drain, and the end of the instance.

From Karpenter 1.14: `pkg/controllers/interruption` deletes the NodeClaim, `pkg/controllers/node/termination` taints and
drains, and leaves pods that may not be disrupted until the instance ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from agentenv.rehearsal.controlplane.client import Client
from agentenv.rehearsal.controlplane.nodes import node_claims
from agentenv.rehearsal.controlplane.nodes.interruptions import SECONDS, Interruptions, queue_of, send_warning
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape

Object = dict[str, Any]
SHAPE = NodeShape("box-a", "us-east-1a", "m7g.large", "2", "8Gi", taints=("sandbox=x:NoSchedule",))


@dataclass
class Queue:
    """An SQS queue, by the methods that the simulation calls."""

    messages: list[Object] = field(default_factory=list[Object])

    def get_queue_url(self, **request: str) -> Object:
        return {"QueueUrl": f"https://sqs/{request['QueueName']}"}

    def send_message(self, **request: str) -> None:
        self.messages.append({"Body": request["MessageBody"], "ReceiptHandle": str(len(self.messages))})

    def receive_message(self, **_: Any) -> Object:
        return {"Messages": [*self.messages]} if self.messages else {}

    def delete_message(self, **request: str) -> None:
        self.messages = [row for row in self.messages if row["ReceiptHandle"] != request["ReceiptHandle"]]


@dataclass
class Cluster:
    """A node with pods, of which evicted ones disappear at once."""

    node: Object = field(default_factory=SHAPE.node)
    pods: list[Object] = field(default_factory=list[Object])
    deleted: list[str] = field(default_factory=list[str])
    events: list[str] = field(default_factory=list[str])

    def get(self, path: str, **_: str) -> Object:
        return {"items": [self.node] if path == "/api/v1/nodes" else [*self.pods]}

    def find(self, path: str) -> Object | None:
        return self.node if path == "/api/v1/nodes/box-a" else None

    def merge(self, path: str, changes: Object) -> None:
        assert path == "/api/v1/nodes/box-a"
        self.node["spec"] |= changes["spec"]

    def delete(self, path: str) -> None:
        self.deleted.append(path)

    def create(self, thing: Object) -> None:
        self.events.append(thing["reason"])

    def request(self, method: str, path: str, body: Object) -> None:
        assert (method, path.rpartition("/")[2], body["kind"]) == ("POST", "eviction", "Eviction")
        self.pods = [pod for pod in self.pods if pod["metadata"]["name"] != body["metadata"]["name"]]


def pod(name: str, **metadata: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "sandbox-box", **metadata}}


CLAIMED = pod("claimed", annotations={"karpenter.sh/do-not-disrupt": "true"})
SLOT = pod("slot")
DAEMON = pod("daemon", ownerReferences=[{"kind": "DaemonSet"}])


@pytest.fixture
def times() -> list[float]:
    return [0.0]


def warned(cluster: Cluster, times: list[float]) -> Interruptions:
    """Return the interruptions after a warning of the node."""
    cluster.node["metadata"]["uid"] = "node-uid"
    interruptions, queue = Interruptions(cast("Client", cluster), lambda: times[0]), Queue()
    assert interruptions.placed(SHAPE).name == "box-a"
    send_warning(queue, "https://sqs/interruptions", cluster.node["spec"]["providerID"].rpartition("/")[2])
    for _ in range(2):
        interruptions.receive(queue, "interruptions")
    assert queue.messages == []
    assert cluster.deleted == [f"{node_claims.PATH}/box-a"]
    assert cluster.events == ["SpotInterrupted"]
    return interruptions


def test_warned_node_is_tainted_and_drained_of_what_may_be_disrupted(times: list[float]) -> None:
    cluster = Cluster(pods=[CLAIMED, SLOT, DAEMON])
    interruptions = warned(cluster, times)
    assert not interruptions.is_over("box-a")
    assert [row["key"] for row in cluster.node["spec"]["taints"]] == ["sandbox", "karpenter.sh/disrupted"]
    assert cluster.pods == [CLAIMED, DAEMON], "a claimed sandbox runs until the instance ends"
    times[0] = SECONDS - 1
    assert not interruptions.is_over("box-a")
    times[0] = SECONDS
    assert interruptions.is_over("box-a")


def test_node_without_pods_ends_before_its_time(times: list[float]) -> None:
    cluster = Cluster(pods=[SLOT, DAEMON])
    interruptions = warned(cluster, times)
    assert not interruptions.is_over("box-a")
    assert interruptions.is_over("box-a")


def test_place_of_an_interrupted_node_gets_another_node(times: list[float]) -> None:
    interruptions = warned(Cluster(), times)
    assert interruptions.placed(SHAPE).name == "box-a-1"
    assert interruptions.is_interrupted("box-a")
    assert interruptions.is_over("never-warned")


def test_queue_is_that_of_the_controller() -> None:
    environment = [{"name": "CLUSTER_NAME", "value": "c"}, {"name": "INTERRUPTION_QUEUE", "value": "spot-events"}]
    with_queue = {"spec": {"template": {"spec": {"containers": [{"name": "controller", "env": environment}]}}}}
    assert queue_of(with_queue) == "spot-events"
    assert queue_of({"spec": {"template": {"spec": {"containers": [{"name": "controller"}]}}}}) == ""
