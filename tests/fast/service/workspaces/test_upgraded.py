"""Workspaces of a version without workspaced get it when they wake, on the same data; others keep their sandbox."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentenv.core.classes.pods.daemon import WORKSPACED
from agentenv.core.lifecycle.restore import MOVING_TO
from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.core.workspaces.workspace import DELETED_AT, CreateRequest, Timeout, Workspace
from agentenv.service.kube.client import CLAIMS
from agentenv.service.workspaces.restore_requests import WorkspaceRestorer
from tests.fast.service.fake_api_server import Api
from tests.fast.service.kube.apiserver import Object
from tests.fast.service.workspaces.stage import Stage, on_stage
from tests.fast.service.workspaces.test_restore_requests import CATALOG, deleted_workspace
from tests.fast.service.workspaces.test_suspending import SPACE, Controller

IMAGE = "registry.example.com/workspaced@sha256:" + "0" * 64
OLD: Object = {"containers": [{"name": "main", "ports": []}]}
NEW: Object = {"containers": [{"name": "main", "ports": [{"name": WORKSPACED, "containerPort": 49983}]}]}


class NotedRestorer(WorkspaceRestorer):
    """Notes which claims are moved, and to which class."""

    moved: list[tuple[str, str]]

    async def change_class(self, claim: Object, to: Any) -> Workspace:
        self.moved.append((claim["metadata"]["name"], to.name))
        workspace = workspace_of_claim(claim)
        assert workspace is not None
        return workspace


def moved_by_resume(template: Object, class_: Object | None = None, timeout: Timeout | None = None) -> list[str]:
    """Return the classes to which a suspended workspace is moved when it is resumed."""
    moved: list[tuple[str, str]] = []

    async def act(stage: Stage) -> None:
        stage.slot("slot-1")
        request = CreateRequest("u-1", "key", "standard", "u-1", timeout=timeout)
        created = await stage.backend.create(request, wait=10)
        controller = Controller(stage, "slot-1")
        controller.sandbox["spec"]["podTemplate"] = {"spec": template}
        stage.server.put("sandboxes", controller.sandbox)
        controller.start_pod("10.40.0.9")
        id_ = created.workspace.id
        await stage.backend.suspend(id_, "asked")
        controller.end()
        await stage.wait_until(lambda view: (row := view.find(id_)) and row.state == "suspended")
        restorer = NotedRestorer(stage.kube)
        restorer.moved = moved
        stage.backend._restorer = restorer
        await stage.backend.resume(id_, wait=0)
        if not moved:
            assert stage.server.objects["sandboxes", SPACE, "slot-1"]["spec"]["operatingMode"] == "Running"
        assert {name for name, _ in moved} <= {id_}

    on_stage(act, {"name": "standard", **(class_ or {})}, image=IMAGE, workspaced={"image": IMAGE})
    return [to for _, to in moved]


def test_a_workspace_without_workspaced_gets_it_when_it_wakes() -> None:
    assert moved_by_resume(OLD) == ["standard"]


@pytest.mark.parametrize(
    ("template", "class_", "timeout"),
    [
        (NEW, {}, None),
        ({}, {}, None),
        (OLD, {"daemon": "none"}, None),
        (OLD, {"daemon": "image"}, None),
        (OLD, {}, Timeout(60, "suspend", wakes=True)),
    ],
    ids=["has it", "unknown", "its class has none", "its image has another", "a timeout would be lost"],
)
def test_any_other_workspace_keeps_its_sandbox(template: Object, class_: Object, timeout: Timeout | None) -> None:
    assert moved_by_resume(template, class_, timeout) == []


def test_it_is_restored_in_the_current_release_of_its_own_class() -> None:
    server, volume = deleted_workspace(**{DELETED_AT: "2026-11-18T20:00:00Z", MOVING_TO: "one"})
    claim = {
        "metadata": {
            "name": "w-1",
            "namespace": "sandbox-one",
            "uid": "gone",
            "labels": dict(volume["metadata"]["labels"]),
        }
    }
    back = asyncio.run(WorkspaceRestorer(Api(server), timeout=60).change_class(claim, CATALOG.get("one")))
    assert (back.id, back.class_name, server.names(CLAIMS)) == ("w-1", "one", ["w-1"])
