"""Sizes in the API: those of the class, at create and by PATCH."""

from __future__ import annotations

from typing import Any

from agentenv.core.lifecycle.resize import has_resources, with_resources
from tests.fast.core.lifecycle.test_resize import SIZES, SMALL
from tests.fast.service.http.application import ApiClient, run_with_api
from tests.fast.service.kube.apiserver import Object

SIZED = {"name": "standard", "resources": SMALL, "sizes": SIZES, "storage": {"kind": "none"}}
TEAM = {"team": "vetted"}


async def request(api: ApiClient, method: str, path: str, body: Object | None = None) -> Any:
    return await api.request("ann", method, path, body, claims=TEAM)


def with_pods(api: ApiClient) -> None:
    """Have each sandbox of a claim get a pod, whose node does what is requested."""
    server, of_class = api.stage.server, api.stage.catalog.get("standard")
    containers = with_resources([{"name": "sandbox"}], of_class.sizes["small"])
    fill, put = server.on_create, server.put

    def create_pod(created: Object) -> None:
        fill(created)
        if created.get("kind") != "SandboxClaim":
            return
        metadata = created["metadata"]
        sandbox = server.objects["sandboxes", metadata["namespace"], metadata["name"]]
        sandbox["spec"]["podTemplate"] = {"spec": {"containers": containers}}
        owner = {"uid": sandbox["metadata"]["uid"], "kind": "Sandbox"}
        about = {"name": metadata["name"], "namespace": metadata["namespace"], "ownerReferences": [owner]}
        put("pods", {"metadata": about, "spec": {"containers": containers}, "status": {}})

    def put_pod(plural: str, thing: Object) -> Object:
        if plural == "pods":
            thing = {**thing, "status": {"containerStatuses": thing["spec"]["containers"]}}
        return put(plural, thing)

    server.on_create, server.put = create_pod, put_pod


def test_a_workspace_is_handed_over_in_its_size() -> None:
    async def act(api: ApiClient) -> None:
        with_pods(api)
        created = (await request(api, "POST", "/workspaces", {"class": "standard", "size": "medium"})).json()
        assert (created["state"], created["size"], created["current_size"]) == ("running", "medium", "medium")
        assert created["size_pending"] is None
        sizes = api.stage.catalog.get("standard").sizes
        (pod,) = [document for (plural, _, _), document in api.stage.server.objects.items() if plural == "pods"]
        assert has_resources(pod["spec"]["containers"], sizes["medium"])
        changed = await request(api, "PATCH", f"/workspaces/{created['id']}", {"size": "large"})
        assert (changed.status_code, changed.json()["current_size"]) == (200, "large")
        (pod,) = [document for (plural, _, _), document in api.stage.server.objects.items() if plural == "pods"]
        assert has_resources(pod["spec"]["containers"], sizes["large"])
        back = await request(api, "PATCH", f"/workspaces/{created['id']}", {"size": None})
        assert (back.json()["size"], back.json()["current_size"]) == ("small", "small")

    run_with_api(act, SIZED)


def test_only_sizes_of_the_class_are_offered() -> None:
    async def act(api: ApiClient) -> None:
        with_pods(api)
        listed = (await request(api, "GET", "/classes")).json()["items"]
        assert {row["name"]: row["sizes"] for row in listed} == {
            "standard": ["small", "medium", "large"],
            "plain": ["small"],
        }
        refused = await request(api, "POST", "/workspaces", {"class": "plain", "size": "large"})
        assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (409, "size-not-offered")
        assert (await request(api, "POST", "/workspaces", {"class": "plain", "size": "huge"})).status_code == 422
        created = (await request(api, "POST", "/workspaces", {"class": "standard", "size": "large"})).json()
        moved = await request(api, "PATCH", f"/workspaces/{created['id']}", {"class": "plain"})
        assert moved.json()["type"].rpartition(":")[2] == "size-not-offered"
        assert "small" in moved.json()["way_out"]

    run_with_api(act, SIZED, {"name": "plain", "storage": {"kind": "none"}})


def test_another_size_is_another_request() -> None:
    async def act(api: ApiClient) -> None:
        with_pods(api)
        body = {"class": "standard", "key": "k", "size": "medium"}
        first = await request(api, "POST", "/workspaces", body)
        again = await request(api, "POST", "/workspaces", body)
        assert (first.status_code, again.status_code) == (201, 200)
        other = await request(api, "POST", "/workspaces", {**body, "size": "large"})
        assert other.json()["type"].rpartition(":")[2] == "key-reused"

    run_with_api(act, SIZED)
