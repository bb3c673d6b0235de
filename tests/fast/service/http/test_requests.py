"""Valid values in requests: classes, owners, tasks and times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentenv.core.lifecycle.clock_skew import FURTHEST
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.http.schemas import WorkspaceShape
from agentenv.service.workspaces.swarm_tasks import SwarmTasks, task_name
from tests.fast.service.http.application import ApiClient, run_with_api
from tests.fast.service.kube.apiserver import Object

VETTED = {"claims": {"team": "vetted"}}
OPERATOR = {"claims": {"team": "vetted", "groups": ["ops"]}}
SECRET: Object = {"name": "secret", "claimableBy": {"roles": [], "tokens": [{"name": "level", "value": "high"}]}}


async def create(api: ApiClient, subject: str = "ann", **body: Any) -> Object:
    response = await api.request(subject, "POST", "/workspaces", {"class": "standard", **body}, **VETTED)
    assert response.status_code in {200, 201}, response.text
    return response.json()


async def set_task(api: ApiClient, workspace: Object, name: str) -> None:
    """Make a workspace one of a task, by the labels of its claim."""
    claim = api.stage.server.objects["sandboxclaims", "sandbox-standard", workspace["id"]]
    for section in (claim["metadata"], claim["spec"]["additionalPodMetadata"]):
        section["labels"]["sandbox.users.io/task"] = name
    api.stage.server.put("sandboxclaims", claim)
    await api.stage.wait_until(lambda view: (row := view.find(workspace["id"])) and row.task)


def test_an_unknown_class_does_not_reveal_the_others() -> None:
    async def act(api: ApiClient) -> None:
        refused = await api.request("ann", "POST", "/workspaces", {"class": "unknown"}, **VETTED)
        assert refused.status_code == 404
        assert "secret" not in refused.text
        assert "/v1/classes" in refused.json()["way_out"]

    run_with_api(act, {"name": "standard"}, SECRET)


@pytest.mark.parametrize("field", ["owner", "shared"])
def test_an_owner_is_an_id_that_a_caller_can_have(field: str) -> None:
    async def act(api: ApiClient) -> None:
        bob = (await api.request("bob", "GET", "/me")).json()["owner"]

        async def send(owner: str) -> int:
            body = {"class": "standard", field: owner if field == "owner" else {owner: "ro"}}
            return (await api.request("oscar", "POST", "/workspaces", body, **OPERATOR)).status_code

        assert await send("bob") == 422
        assert await send(bob[:-1]) == 422
        assert await send(bob) == 201

    run_with_api(act, operators=("ops",))


def test_a_workspace_is_shared_with_ids_of_owners() -> None:
    async def act(api: ApiClient) -> None:
        workspace = await create(api)
        path = f"/workspaces/{workspace['id']}"
        bob = (await api.request("bob", "GET", "/me")).json()["owner"]
        assert (await api.request("ann", "PATCH", path, {"shared": {"bob": "ro"}})).status_code == 422
        assert (await api.request("ann", "PATCH", path, {"shared": {bob: "ro"}})).status_code == 200

    run_with_api(act)


def test_busy_until_is_a_day_ahead_at_most() -> None:
    async def act(api: ApiClient) -> None:
        workspace = await create(api)
        path, now = f"/workspaces/{workspace['id']}", api.dependencies.now()

        async def send(until: str) -> int:
            return (await api.request("ann", "PATCH", path, {"busy_until": until})).status_code

        assert await send("9999-01-01T00:00:00Z") == 422
        assert await send((now + FURTHEST + timedelta(minutes=5)).isoformat()) == 422
        assert await send((now + FURTHEST - timedelta(minutes=5)).isoformat()) == 200

    run_with_api(act)


def test_a_repeated_request_may_have_other_labels_and_another_deadline() -> None:
    async def act(api: ApiClient) -> None:
        tomorrow, later = ((api.dependencies.now() + timedelta(days=days)).isoformat() for days in (1, 2))
        first = await create(api, labels={"chat": "1"}, deadline=tomorrow)
        again = await create(api, labels={"chat": "2"}, deadline=later)
        assert (again["id"], again["labels"]) == (first["id"], {"chat": "1"})
        body = {"class": "standard", "idle_after": 600}
        assert (await api.request("ann", "POST", "/workspaces", body, **VETTED)).status_code == 409

    run_with_api(act)


def test_workspaces_are_listed_by_the_name_of_their_task() -> None:
    async def act(api: ApiClient) -> None:
        owner = (await api.request("ann", "GET", "/me")).json()["owner"]
        workspace = await create(api)
        await set_task(api, workspace, task_name(owner, "build-it"))

        async def ids(query: str, subject: str = "ann", **more: Any) -> list[str]:
            response = await api.request(subject, "GET", f"/workspaces?{query}", **more)
            assert response.status_code == 200, response.text
            assert {row["task"] for row in response.json()["items"]} <= {"build-it"}
            return [row["id"] for row in response.json()["items"]]

        assert await ids("task=build-it") == [workspace["id"]]
        assert await ids("task=build") == []
        assert await ids("task=build-it", "bob") == []
        assert await ids(f"task=build-it&owner={owner}", "oscar", **OPERATOR) == [workspace["id"]]
        refused = await api.request("oscar", "GET", "/workspaces?task=build-it&everybody=true", **OPERATOR)
        assert refused.status_code == 422

    run_with_api(act, operators=("ops",))


def test_a_task_of_another_origin_keeps_its_name() -> None:
    workspace = Workspace("w-1", "u-1", "standard", "agent", "running", task="nightly-2026")
    assert WorkspaceShape.of(workspace, datetime.now(UTC)).task == "nightly-2026"


def test_sessions_are_ended_by_their_owner_or_an_operator() -> None:
    async def act(api: ApiClient) -> None:
        bob = (await api.request("bob", "GET", "/me")).json()["owner"]
        ann = (await create(api, mode="session", session="chat-1"))["owner"]
        await create(api, "bob", mode="session", session="chat-1")

        async def end(subject: str, body: Object, **more: Any) -> Any:
            response = await api.request(subject, "POST", "/sessions/ended", {"session": "chat-1", **body}, **more)
            return response.json()["workspaces"] if response.status_code == 200 else response.status_code

        assert await end("eve", {"owner": ann}) == 403
        assert await end("eve", {}) == 0
        assert await end("oscar", {"owner": ann}, **OPERATOR) == 1
        assert await end("oscar", {"owner": ann}, **OPERATOR) == 0
        assert await end("bob", {"owner": bob}) == 1

    run_with_api(act, {"name": "standard", "modes": ["user", "session"]}, operators=("ops",))


def test_swarms_are_listed_by_task() -> None:
    async def act(api: ApiClient) -> None:
        stage = api.stage
        api.dependencies.swarms = SwarmTasks(stage.kube, stage.catalog, stage.backend.view)
        owner = (await api.request("ann", "GET", "/me")).json()["owner"]
        names = {f"t-{number}": task_name(owner, f"t-{number}") for number in (1, 2, 3)}
        for task, name in [*names.items(), ("raw", "raw-task")]:
            await set_task(api, await create(api, key=task), name)

        async def tasks(subject: str = "ann", query: str = "") -> tuple[list[str], str | None]:
            page = (await api.request(subject, "GET", f"/swarms{query}")).json()
            return [row["task"] for row in page["items"]], page["after"]

        assert await tasks() == (["t-1", "t-2", "t-3"], None)
        assert await tasks(query="?limit=2") == (["t-1", "t-2"], "t-2")
        assert await tasks(query="?limit=2&after=t-2") == (["t-3"], None)
        assert await tasks("bob") == ([], None)

    run_with_api(act)
