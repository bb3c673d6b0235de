"""New workspaces have the environment's cell in their ids; those that are older than cells are found by their key."""

from __future__ import annotations

from dataclasses import replace

from agentenv.core.workspaces.workspace import CreateRequest, workspace_id
from tests.fast.service.http.application import ApiClient, run_with_api

TEAM = {"team": "vetted"}


async def create(api: ApiClient, key: str) -> str:
    response = await api.request("alice", "POST", "/workspaces", {"class": "standard", "key": key}, claims=TEAM)
    assert response.status_code in {200, 201}, response.text
    return response.json()["id"]


def test_a_new_workspace_has_the_cell_and_is_created_once() -> None:
    async def act(api: ApiClient) -> None:
        owner = (await api.request("alice", "GET", "/me")).json()["owner"]
        id_ = await create(api, "a")
        assert id_ == workspace_id(owner, "key/a", "b7")
        assert await create(api, "a") == id_

    run_with_api(act, {"name": "standard"}, stack={"cell": "b7"})


def test_a_workspace_that_is_older_than_cells_is_found_by_its_key() -> None:
    async def act(api: ApiClient) -> None:
        owner = (await api.request("alice", "GET", "/me")).json()["owner"]
        request = CreateRequest(owner, "key/a", "standard", owner)
        older = (await api.dependencies.backend.create(request, wait=5)).workspace
        assert older.id == workspace_id(owner, "key/a")
        await api.stage.wait_until(lambda view: view.find(older.id))
        assert await create(api, "a") == older.id
        assert await create(api, "b") == workspace_id(owner, "key/b", "a0")
        for path in ("", "/events", "/ports"):
            assert (await api.request("alice", "GET", f"/workspaces/{older.id}{path}")).status_code == 200

    run_with_api(act, {"name": "standard"})


def test_ids_of_cells_differ() -> None:
    request = CreateRequest("u-1", "key/a", "standard", "u-1")
    ids = {replace(request, cell=cell).id for cell in ("", "a0", "a1", "b0")}
    assert len(ids) == 4
