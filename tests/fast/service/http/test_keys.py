"""API keys over HTTP: their routes, both headers, and the scope that each route needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.routing import APIRoute

from agentenv.service.gateway import access_cache
from agentenv.service.http.app import application
from agentenv.service.http.dependencies import AuthenticatedRoute
from tests.fast.service.http.application import ApiClient, run_with_api

if TYPE_CHECKING:
    import pytest

TEAM = {"team": "vetted"}
# Routes that a key may call without the scope `admin`, besides those that only read.
SCOPES = {
    "createWorkspace": "create",
    "createSwarm": "create",
    "suspendWorkspace": "use",
    "attach": "use",
    "detach": "use",
    "resumeWorkspace": "wake",
}


async def new_key(api: ApiClient, *scopes: str, subject: str = "alice") -> dict[str, Any]:
    body = {"name": "laptop", "scopes": list(scopes)}
    response = await api.request(subject, "POST", "/keys", body, claims=TEAM)
    assert response.status_code == 201, response.text
    return response.json()


async def by_key(api: ApiClient, key: str, method: str, path: str, body: Any = None) -> Any:
    return await api.client.request(method, f"/v1{path}", json=body, headers={"X-API-Key": key})


def test_a_key_is_shown_once_listed_without_its_secret_and_revoked() -> None:
    async def act(api: ApiClient) -> None:
        created = await new_key(api, "wake", "read")
        assert created["scopes"] == ["read", "wake"]
        listed = (await api.request("alice", "GET", "/keys")).json()["items"]
        assert listed == [{name: value for name, value in created.items() if name != "key"}]
        assert (await api.request("mallory", "GET", "/keys")).json()["items"] == []
        key = created["key"]
        for headers in ({"X-API-Key": key}, {"Authorization": f"Bearer {key}"}):
            assert (await api.client.get("/v1/workspaces", headers=headers)).status_code == 200
        assert (await api.request("mallory", "DELETE", f"/keys/{created['id']}")).status_code == 404
        assert (await api.request("alice", "DELETE", f"/keys/{created['id']}")).status_code == 200
        assert (await by_key(api, key, "GET", "/workspaces")).status_code == 401

    run_with_api(act)


def test_a_key_has_its_scopes_and_the_classes_of_its_owner() -> None:
    async def act(api: ApiClient) -> None:
        reader, creator = (await new_key(api, "read"))["key"], (await new_key(api, "create"))["key"]
        refused = await by_key(api, reader, "POST", "/workspaces", {"class": "standard"})
        assert refused.status_code == 403
        assert "'create'" in refused.json()["detail"]
        created = await by_key(api, creator, "POST", "/workspaces", {"class": "standard"})
        assert created.status_code == 201, created.text
        id_ = created.json()["id"]
        assert (await by_key(api, creator, "GET", f"/workspaces/{id_}")).status_code == 403
        assert (await by_key(api, reader, "GET", f"/workspaces/{id_}")).status_code == 200
        for method, path in (("DELETE", ""), ("PATCH", ""), ("POST", "/suspend"), ("POST", "/resume")):
            assert (await by_key(api, reader, method, f"/workspaces/{id_}{path}", {})).status_code == 403, path
        response = await api.request("bob", "POST", "/keys", {"name": "x", "scopes": ["create"]})
        other = await by_key(api, response.json()["key"], "POST", "/workspaces", {"class": "standard"})
        assert other.json()["type"].endswith("class-not-claimable")

    run_with_api(act)


def test_guessed_keys_of_an_address_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_cache, "REFRESH_PAUSE_SECONDS", 0.0)

    async def act(api: ApiClient) -> None:
        codes = [(await by_key(api, f"e2b_{number:052x}", "GET", "/workspaces")).status_code for number in range(80)]
        assert codes[:60] == [401] * 60
        assert codes[-1] == 429
        valid = (await new_key(api, "read"))["key"]
        assert (await by_key(api, valid, "GET", "/workspaces")).status_code == 200

    run_with_api(act)


def test_every_route_names_the_scope_that_a_key_needs() -> None:
    routers = [getattr(included, "original_router", None) for included in application().routes]
    routes = [route for router in routers if router for route in router.routes if isinstance(route, APIRoute)]
    scopes = {route.operation_id: route.scope for route in routes if isinstance(route, AuthenticatedRoute)}
    reads = {route.operation_id for route in routes if (route.methods or set()) <= {"GET", "HEAD"}}
    assert len(scopes) > 20
    assert {name: scope for name, scope in scopes.items() if scope != "admin" and name not in reads} == SCOPES
    assert {scopes[name] for name in reads & scopes.keys()} == {"read"}


def test_the_key_of_a_link_admits_to_its_workspace_alone() -> None:
    async def act(api: ApiClient) -> None:
        async def workspace(key: str) -> str:
            body = {"class": "standard", "key": key}
            return (await api.request("alice", "POST", "/workspaces", body, claims=TEAM)).json()["id"]

        mine, other = await workspace("mine"), await workspace("other")

        async def link(*scopes: str, subject: str = "alice", to: str = mine) -> Any:
            body = {"name": "chat", "scopes": list(scopes), "workspace": to}
            return await api.request(subject, "POST", "/keys", body, claims=TEAM)

        for refused, status in (
            (await link("read", "admin"), 422),
            (await link("read", "create"), 422),
            (await link("read", subject="mallory"), 404),
            (await link("read", to="w-" + "a" * 26), 404),
        ):
            assert refused.status_code == status, refused.text
        created = (await link("read", "use")).json()
        assert created["workspace"] == mine
        [listed] = (await api.request("alice", "GET", "/keys")).json()["items"]
        assert (listed["id"], listed["workspace"]) == (created["id"], mine)
        events = (await api.request("alice", "GET", f"/workspaces/{mine}/events")).json()["items"]
        assert any(row["reason"] == "LinkCreated" and created["id"] in row["message"] for row in events)
        key = created["key"]
        assert (await by_key(api, key, "GET", f"/workspaces/{mine}")).status_code == 200
        lease = {"mode": "rw", "seconds": 60}
        assert (await by_key(api, key, "PUT", f"/workspaces/{mine}/leases/chat", lease)).status_code == 200
        assert (await by_key(api, key, "POST", f"/workspaces/{mine}/resume")).status_code == 403
        for method, path in (
            ("GET", f"/workspaces/{other}"),
            ("GET", "/workspaces"),
            ("GET", "/events"),
            ("GET", "/keys"),
            ("GET", "/usage"),
            ("POST", "/workspaces"),
            ("DELETE", f"/workspaces/{mine}"),
            ("PATCH", f"/workspaces/{mine}"),
            ("GET", f"/workspaces/{mine}/links"),
            ("GET", f"/workspaces/{mine}/entries"),
            ("POST", f"/workspaces/{mine}/suspend"),
        ):
            answer = await by_key(api, key, method, path, {} if method in {"POST", "PATCH"} else None)
            assert answer.status_code in {403, 404}, (method, path, answer.text)
        assert (await api.client.get("/e2b/sandboxes", headers={"X-API-Key": key})).status_code == 403
        look = (await link("read")).json()["key"]
        assert (await by_key(api, look, "PUT", f"/workspaces/{mine}/leases/chat", lease)).status_code == 403
        assert (await api.request("alice", "DELETE", f"/keys/{created['id']}")).status_code == 200
        assert (await by_key(api, key, "GET", f"/workspaces/{mine}")).status_code == 401

    run_with_api(act)
