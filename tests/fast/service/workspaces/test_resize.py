"""A workspace gets its size in place, or with its next pod where its node refuses, whatever is killed between."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from agentenv.core.lifecycle.resize import has_resources
from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.core.workspaces.workspace import RESIZES, SIZE, SIZE_PENDING, Workspace
from agentenv.service.catalog import Catalog
from agentenv.service.kube.client import CLAIMS, EVENTS, PODS, SANDBOXES, Kind, KubeApiError
from agentenv.service.workspaces.resize import Resizer
from agentenv.service.workspaces.suspend import resume, suspend
from tests.fast.core.lifecycle.test_resize import SIZES, SMALL, containers
from tests.fast.service.fake_api_server import Api, FakeApiServer, Killed, run
from tests.fast.service.loops.cluster import OWNER, SPACE, START
from tests.fast.service.workspaces.stage import settings_of

Object = dict[str, Any]
CATALOG = Catalog(settings_of({"name": "box", "resources": SMALL, "sizes": SIZES}))
BOX = CATALOG.get("box")
INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "node has 2 cores"}


class Node:
    """An API server with one workspace and its pod, and the kubelet of that pod, which acts during waits."""

    def __init__(self, *, refuses: bool = False, answers: bool = True) -> None:
        self.api, self.refuses, self.answers = FakeApiServer(), refuses, answers
        self.now, self.elapsed = START, 0.0
        labels = {"sandbox.users.io/user": OWNER, "sandbox.users.io/class": "box"}
        self.api.put(
            CLAIMS,
            {
                "apiVersion": "extensions.agents.x-k8s.io/v1beta1",
                "metadata": {"name": "w-1", "namespace": SPACE, "labels": labels, "annotations": {}},
                "status": {"sandbox": {"name": "box-1"}, "conditions": [{"type": "Ready", "status": "True"}]},
            },
        )
        uid = self.claim["metadata"]["uid"]
        metadata = {"name": "box-1", "namespace": SPACE, "ownerReferences": [{"uid": uid, "kind": "SandboxClaim"}]}
        template = {"spec": {"containers": containers()}}
        self.api.put(SANDBOXES, {"metadata": metadata, "spec": {"operatingMode": "Running", "podTemplate": template}})
        self.start_pod()

    def end_pod(self) -> None:
        """Do the work of the controller for a suspended sandbox."""
        del self.api.objects[PODS, SPACE, "box-1"]
        suspended = {"type": "Ready", "status": "False", "reason": "SandboxSuspended"}
        self.api.put(CLAIMS, {**self.claim, "status": {**self.claim["status"], "conditions": [suspended]}})

    def start_pod(self) -> None:
        sandbox = self.api.find(SANDBOXES, "box-1", SPACE) or {}
        self.api.put(
            PODS,
            {
                "metadata": {
                    "name": "box-1",
                    "namespace": SPACE,
                    "ownerReferences": [{"uid": sandbox["metadata"]["uid"], "kind": "Sandbox"}],
                },
                "spec": sandbox["spec"]["podTemplate"]["spec"],
                "status": {"containerStatuses": sandbox["spec"]["podTemplate"]["spec"]["containers"]},
            },
        )

    @property
    def claim(self) -> Object:
        return self.api.find(CLAIMS, "w-1", SPACE) or {}

    @property
    def workspace(self) -> Workspace:
        workspace = workspace_of_claim(self.claim)
        assert workspace is not None
        return workspace

    @property
    def pod(self) -> Object | None:
        return self.api.find(PODS, "box-1", SPACE)

    def template_has(self, size: Any) -> bool:
        sandbox = self.api.find(SANDBOXES, "box-1", SPACE) or {}
        return has_resources(sandbox["spec"]["podTemplate"]["spec"]["containers"], BOX.sizes[size])

    def pod_has(self, size: Any) -> bool:
        return has_resources((self.pod or {"spec": {"containers": []}})["spec"]["containers"], BOX.sizes[size])

    def request(self, size: str | None, **annotations: str | None) -> None:
        changes = {"metadata": {"annotations": {SIZE: size, **annotations}}}
        assert self.api.patch(CLAIMS, self.claim, changes)

    def reasons(self) -> list[str]:
        return sorted(event["reason"] for event in self.api.list(EVENTS))

    async def pause(self, seconds: float) -> None:
        self.elapsed += seconds
        pod = self.pod
        if pod is None or not self.answers:
            return
        small = has_resources(pod["spec"]["containers"], BOX.sizes["small"])
        status = {"containerStatuses": pod["spec"]["containers"], "conditions": []}
        if self.refuses and not small:
            status = {"conditions": [{**INFEASIBLE, "observedGeneration": pod["metadata"]["generation"]}]}
        self.api.put(PODS, {**pod, "status": {**pod["status"], **status}})

    def resize(self) -> Workspace:
        resizer = Resizer(Api(self.api), CATALOG, now=lambda: self.now, pause=self.pause, clock=lambda: self.elapsed)
        return run(resizer.resize, self.workspace)


def test_a_sandbox_is_resized_in_place_and_so_is_its_next_pod() -> None:
    node = Node()
    node.request("medium")
    assert node.workspace.resizing
    resized = node.resize()
    assert (resized.size, resized.current_size, resized.size_pending) == ("medium", "medium", None)
    assert node.pod_has("medium")
    assert node.template_has("medium")
    assert node.reasons() == ["Resized"]
    (row,) = json.loads(node.claim["metadata"]["annotations"][RESIZES])
    assert Decimal(row["cpu"].removesuffix("m")) == 100
    assert row["memory"] == "512Mi"
    before = node.claim
    assert node.resize() == resized
    assert node.claim == before, "nothing is written twice"


def test_a_node_that_refuses_gives_the_size_to_the_next_pod() -> None:
    node = Node(refuses=True)
    node.request("large")
    waiting = node.resize()
    assert (waiting.size, waiting.current_size) == ("large", "small")
    assert waiting.size_pending == "Infeasible: node has 2 cores"
    assert not waiting.resizing
    assert node.pod_has("small"), "what it does not get is not reserved for it"
    assert node.template_has("large")
    assert node.reasons() == ["ResizeRefused"]
    assert node.resize() == waiting, "the node is not asked again"
    assert run(suspend, node.api, node.claim, "asked") == "done"
    node.end_pod()
    assert run(resume, node.api, node.claim, START, requested=True) == "done"
    assert (node.workspace.current_size, node.workspace.size_pending) == ("large", None)


def test_a_pod_that_was_created_again_meanwhile_has_the_size() -> None:
    node = Node(refuses=True)
    node.request("large")
    node.resize()
    node.start_pod()
    assert node.resize().current_size == "large"


def test_a_request_that_is_withdrawn_leaves_the_next_pod_as_it_was() -> None:
    node = Node(refuses=True)
    node.request("large")
    node.resize()
    node.request(None, **{SIZE_PENDING: "its sandbox is being resized"})
    assert node.resize().size_pending is None
    assert node.template_has("small")
    assert node.pod_has("small")


def test_suspended_workspace_has_its_new_size_when_resumed() -> None:
    node = Node()
    pod = node.pod
    assert pod is not None
    node.api.delete(PODS, pod)
    node.request("medium")
    assert node.resize().current_size == "medium"
    assert node.template_has("medium")


def test_without_an_answer_the_request_stays() -> None:
    node = Node(answers=False)
    node.request("medium")
    waiting = node.resize()
    assert (waiting.current_size, waiting.size_pending, waiting.resizing) == ("small", None, True)
    assert node.elapsed >= 5
    assert not node.template_has("medium")
    node.answers = True
    assert node.resize().current_size == "medium"


def test_a_denied_request_is_withdrawn() -> None:
    class Full(Api):
        async def patch(self, kind: Kind, existing: Any, changes: Any) -> Any:
            if kind.subresource == "resize":
                raise KubeApiError("exceeded quota: sandbox", 403, "Forbidden")
            return await super().patch(kind, existing, changes)

    node = Node()
    node.request("medium")
    resizer = Resizer(Full(node.api), CATALOG, now=lambda: START, pause=node.pause)
    denied = run(resizer.resize, node.workspace)
    assert (denied.size, denied.current_size, denied.size_pending) == ("small", "small", None)
    assert node.template_has("small"), "its next pod would be denied too"
    assert node.reasons() == ["ResizeDenied"]


@pytest.mark.parametrize("refuses", [False, True])
def test_a_resize_that_was_killed_at_any_write_is_completed(refuses: bool) -> None:
    for last in range(1, 9):
        node = Node(refuses=refuses)
        node.request("large")
        changes = node.api._changes

        def kill(number: int, until: int = changes + last) -> None:
            if number == until:
                raise Killed

        node.api.before = kill
        try:
            node.resize()
        except Killed:
            node.api.before = lambda _: None
            node.now = START + timedelta(seconds=30)
        finished = node.resize()
        assert finished.current_size == ("small" if refuses else "large"), last
        assert (finished.size_pending is not None) == refuses
        assert node.pod_has("small" if refuses else "large")
        assert node.template_has("large")
