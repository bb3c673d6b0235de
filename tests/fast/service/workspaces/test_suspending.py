"""A workspace that is resumed while its former pod ends waits for that, and then runs in a new pod."""

from __future__ import annotations

import asyncio

from agentenv.core.workspaces.records import SUSPENDING
from agentenv.core.workspaces.workspace import SUSPENDED_BECAUSE, CreateRequest
from tests.fast.service.kube.apiserver import Object
from tests.fast.service.workspaces.stage import Stage, on_stage

SPACE = "sandbox-standard"
REQUEST = CreateRequest("u-1", "key", "standard", "u-1")


class Controller:
    """The controller of sandboxes and the kubelet, as far as a test lets them act."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage, self.name = stage, name
        self.sandbox: Object = stage.server.objects["sandboxes", SPACE, name]

    def start_pod(self, address: str) -> None:
        labels = {
            "agents.x-k8s.io/claim-uid": self.claim["metadata"]["uid"],
            "sandbox.users.io/workspace": self.claim["metadata"]["name"],
        }
        owner = {"uid": self.sandbox["metadata"]["uid"], "kind": "Sandbox", "name": self.name}
        about = {"name": self.name, "namespace": SPACE, "labels": labels, "ownerReferences": [owner]}
        status = {"phase": "Running", "podIP": address, "conditions": [{"type": "Ready", "status": "True"}]}
        self.stage.server.put("pods", {"metadata": about, "status": status})
        self.set_ready(True, "DependenciesReady", "Pod is Ready", address)

    def begin_to_end(self) -> None:
        pod = self.stage.server.objects["pods", SPACE, self.name]
        pod["metadata"]["deletionTimestamp"] = "2026-11-19T12:00:00Z"
        self.stage.server.put("pods", pod)
        self.set_ready(False, "SandboxSuspended", SUSPENDING)

    def end(self) -> None:
        self.stage.server.drop("pods", SPACE, self.name)
        self.set_ready(False, "SandboxSuspended", "Sandbox is suspended")

    @property
    def mode(self) -> str:
        return self.stage.server.objects["sandboxes", SPACE, self.name]["spec"]["operatingMode"]

    @property
    def claim(self) -> Object:
        (found,) = [row for (plural, _, _), row in self.stage.server.objects.items() if plural == "sandboxclaims"]
        return found

    def set_ready(self, ready: bool, reason: str, message: str, address: str = "10.40.0.9") -> None:
        condition = {"type": "Ready", "status": str(ready), "reason": reason, "message": message}
        status = {"conditions": [condition], "sandbox": {"name": self.name, "podIPs": [address]}}
        self.stage.server.put("sandboxclaims", {**self.claim, "status": status})


async def suspended(stage: Stage) -> tuple[str, Controller]:
    """Return a workspace that was suspended, and whose pod has its grace period."""
    stage.slot("slot-1")
    created = await stage.backend.create(REQUEST, wait=10)
    controller = Controller(stage, "slot-1")
    controller.start_pod("10.40.0.9")
    workspace = await stage.backend.suspend(created.workspace.id, "asked")
    assert (workspace.state, workspace.addresses) == ("suspending", ())
    controller.begin_to_end()
    return workspace.id, controller


def test_a_resume_within_the_grace_period_waits_for_the_former_pod() -> None:
    async def act(stage: Stage) -> None:
        id_, controller = await suspended(stage)
        requested = asyncio.Event()
        resuming = asyncio.create_task(stage.backend.resume(id_, wait=20, on_requested=requested.set))
        # The intention is on the claim, so that another replica or a loop completes it.
        await stage.wait_until(lambda view: (row := view.find(id_)) and row.suspended_because is None)
        await requested.wait()
        assert not resuming.done()
        assert controller.mode == "Suspended", "the controller would take the pod that ends for a ready one"
        controller.end()
        while controller.mode != "Running":
            await asyncio.sleep(0)
        controller.start_pod("10.40.0.10")
        result = await resuming
        assert (result.ready, result.workspace.state) == (True, "running")
        assert result.workspace.addresses == ("10.40.0.10",)

    on_stage(act)


def test_a_resume_that_does_not_wait_so_long_is_under_way() -> None:
    async def act(stage: Stage) -> None:
        id_, controller = await suspended(stage)
        result = await stage.backend.resume(id_, wait=0)
        assert (result.ready, result.workspace.state, result.workspace.addresses) == (False, "suspending", ())
        assert SUSPENDED_BECAUSE not in controller.claim["metadata"]["annotations"]

    on_stage(act)


def test_deleted_pod_is_no_running_workspace_despite_its_claim() -> None:
    async def act(stage: Stage) -> None:
        stage.slot("slot-1")
        created = await stage.backend.create(REQUEST, wait=10)
        controller = Controller(stage, "slot-1")
        controller.start_pod("10.40.0.9")
        id_ = created.workspace.id
        controller.begin_to_end()
        controller.set_ready(True, "DependenciesReady", "Pod is Ready")
        await stage.wait_until(lambda view: (row := view.find(id_)) and row.state == "restarting")
        read = await stage.backend.get(id_)
        assert read is not None
        assert (read.state, read.addresses) == ("restarting", ())

    on_stage(act)
