"""Sandboxes near their memory limit grow, and requested sizes are given to those that wait for them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from agentenv.core.workspaces.workspace import GRANTS, SIZE
from agentenv.service.kube.client import CLAIMS, PODS
from agentenv.service.loops.context import cluster_context
from agentenv.service.loops.resizing import resize_sandboxes
from agentenv.service.loops.scheduler import PassResult
from agentenv.service.workspaced.client import WorkspacedError
from agentenv.service.workspaces.resize import Resizer
from tests.fast.service.fake_api_server import Api
from tests.fast.service.loops.cluster import SPACE, START, RecordedMetrics, StubClock
from tests.fast.service.workspaces.test_resize import CATALOG, Node

GIB = 2**30


class Inside:
    """A stub of workspaced that reports an amount of memory, or none."""

    def __init__(self, used: int | None) -> None:
        self.used, self.calls = used, 0

    async def used_memory(self, endpoint: Any) -> int:
        assert endpoint.destination == "10.0.0.7:49983"
        self.calls += 1
        if self.used is None:
            raise WorkspacedError("it does not answer")
        return self.used


def pass_over(node: Node, inside: Inside | None = None) -> PassResult:
    pod = node.pod
    assert pod is not None
    ports = [{"name": "workspaced", "containerPort": 49983}]
    containers = [{**row, "ports": ports} for row in pod["spec"]["containers"]]
    node.api.put(PODS, {**pod, "spec": {"containers": containers}, "status": {**pod["status"], "podIP": "10.0.0.7"}})
    resizer = Resizer(Api(node.api), CATALOG, now=lambda: START, pause=node.pause, clock=lambda: node.elapsed)
    context = cluster_context(
        Api(node.api),
        StubClock(lambda: START),
        RecordedMetrics(),
        "default",
        "r1",
        workspaced=cast("Any", inside),
        resizer=resizer,
    )
    return asyncio.run(resize_sandboxes(context, lambda: True))


def test_sandbox_near_its_limit_grows_with_an_event() -> None:
    node = Node()
    assert pass_over(node, Inside(int(1.9 * GIB))).steps == 1
    assert (node.workspace.size, node.workspace.current_size) == ("medium", "medium")
    assert node.pod_has("medium")
    assert node.reasons() == ["NearMemoryLimit", "Resized"]


def test_one_with_memory_left_or_without_an_answer_stays() -> None:
    for used in (GIB, None):
        node, inside = Node(), Inside(used)
        assert pass_over(node, inside) == PassResult(0, more=False)
        assert (node.workspace.size, inside.calls) == ("small", 1)


def test_sandbox_does_not_grow_beyond_its_grants() -> None:
    node = Node()
    metadata = node.claim["metadata"]
    annotations = {**metadata.get("annotations", {}), GRANTS: '{"size":"small"}'}
    node.api.put(CLAIMS, {**node.claim, "metadata": {**metadata, "annotations": annotations}})
    assert pass_over(node, inside := Inside(2 * GIB)) == PassResult(0, more=False)
    assert (node.workspace.size, inside.calls) == ("small", 0)


def test_largest_sandbox_is_not_measured() -> None:
    node = Node()
    node.request("large")
    assert pass_over(node, inside := Inside(4 * GIB)).steps == 1
    assert pass_over(node, inside).steps == 0
    assert inside.calls == 0


def test_sandbox_refused_by_its_node_does_not_grow_again() -> None:
    node = Node(refuses=True)
    assert pass_over(node, inside := Inside(2 * GIB)).steps == 1
    assert node.workspace.size_pending is not None
    assert pass_over(node, inside) == PassResult(0, more=False)
    assert (node.workspace.size, inside.calls) == ("medium", 1)


def test_request_of_a_killed_replica_is_completed() -> None:
    node = Node()
    node.request("large")
    assert pass_over(node).steps == 1
    assert node.workspace.current_size == "large"


def test_a_size_that_the_class_has_no_more_is_left_alone() -> None:
    node = Node()
    node.api.put(CLAIMS, {**node.claim, "metadata": {**node.claim["metadata"], "annotations": {SIZE: "huge"}}})
    assert pass_over(node) == PassResult(0, more=False)
    assert node.api.find(CLAIMS, "w-1", SPACE)
