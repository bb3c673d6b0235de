"""Sharing over HTTP: ports, links, aliases and tokens are their owner's to change, within what the class allows."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from agentenv.core.gateway.access_records import RESTS_FOR, Alias
from agentenv.core.gateway.api_keys import matches
from agentenv.core.workspaces.workspace import PortSharing
from agentenv.service.http.sharing import MOST_ALIASES
from tests.fast.service.http.application import ApiClient, run_with_api

TEAM = {"team": "vetted"}
DOMAIN = "workspaces.example.net"
IMAGE = f"registry.example.com/a@sha256:{'0' * 64}"
SERVICE: dict[str, Any] = {
    "image": IMAGE,
    "workspaced": {"image": IMAGE},
    "issuer": "https://login.example.com",
    "domain": "os.example.com",
    "certificate": "arn:aws:acm:us-east-1:111122223333:certificate/c",
    "workspaceDomain": DOMAIN,
}
OPEN = {"name": "standard", "sharing": ["private", "team", "link", "public"]}


async def created(api: ApiClient, subject: str = "alice") -> str:
    response = await api.request(subject, "POST", "/workspaces", {"class": "standard"}, claims=TEAM)
    assert response.status_code == 201, response.text
    return response.json()["id"]


def run(act: Any, of_class: dict[str, Any] | None = None) -> None:
    run_with_api(act, of_class or OPEN, stack=SERVICE, operators=("ops",), admins=("root",))


async def share(api: ApiClient, id_: str, port: int, subject: str = "alice", **body: Any) -> Any:
    return await api.request(subject, "PUT", f"/workspaces/{id_}/ports/{port}", body)


def test_an_owner_shares_a_port_and_takes_it_back() -> None:
    async def act(api: ApiClient) -> None:
        id_ = await created(api)
        shared = (await share(api, id_, 3000, sharing="team", teams=["research"], wake=True)).json()
        assert shared == {
            "port": 3000,
            "sharing": "team",
            "teams": ["research"],
            "wake": True,
            "url": f"https://3000-{id_}.{DOMAIN}/",
        }
        assert (await api.request("alice", "GET", f"/workspaces/{id_}/ports")).json() == {"items": [shared]}
        workspace = await api.dependencies.backend.get(id_)
        assert workspace is not None
        assert workspace.ports == {3000: PortSharing("team", ("research",), wake=True)}
        assert (await share(api, id_, 3000, sharing="private")).status_code == 200
        assert (await api.request("alice", "GET", f"/workspaces/{id_}/ports")).json() == {"items": []}

    run(act)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"sharing": "team"}, 422),
        ({"sharing": "private", "teams": ["x"]}, 422),
        ({"sharing": "everybody"}, 422),
        ({"sharing": "public"}, 409),
        ({"sharing": "link"}, 409),
    ],
)
def test_a_port_is_shared_as_its_class_allows(body: dict[str, Any], status: int) -> None:
    async def act(api: ApiClient) -> None:
        id_ = await created(api)
        assert (await share(api, id_, 3000, **body)).status_code == status
        assert (await share(api, id_, 49983, sharing="team", teams=["x"])).status_code == 409
        assert (await share(api, id_, 65536, sharing="private")).status_code == 422

    run(act, {"name": "standard", "sharing": ["private", "team"]})


def test_others_change_nothing_and_learn_nothing() -> None:
    async def act(api: ApiClient) -> None:
        id_ = await created(api)
        missing = "w-a0" + "z" * 26
        for method, path, body in (
            ("GET", "ports", None),
            ("PUT", "ports/3000", {"sharing": "public"}),
            ("POST", "links", {"port": 3000}),
            ("GET", "links", None),
            ("DELETE", f"links/{'0' * 16}", None),
            ("PUT", "alias", {"alias": "shop"}),
            ("DELETE", "alias", None),
            ("POST", "revoke-tokens", None),
            ("POST", "break-glass", {"reason": "an incident"}),
            ("GET", "entries", None),
        ):
            theirs = await api.request("mallory", method, f"/workspaces/{id_}/{path}", body)
            nobodys = await api.request("mallory", method, f"/workspaces/{missing}/{path}", body)
            assert (theirs.status_code, theirs.json()) == (404, nobodys.json()), path

    run(act)


def test_a_link_is_shown_once_and_revoked() -> None:
    async def act(api: ApiClient) -> None:
        id_ = await created(api)
        refused = await api.request("alice", "POST", f"/workspaces/{id_}/links", {"port": 3000})
        assert refused.status_code == 409
        await share(api, id_, 3000, sharing="link")
        link = (await api.request("alice", "POST", f"/workspaces/{id_}/links", {"port": 3000, "expires_in": 60})).json()
        parts = urlsplit(link["url"])
        assert parts.netloc == f"3000-{id_}.{DOMAIN}"
        name, _, secret = dict(parse_qsl(parts.query))["token"].partition(".")
        access = api.dependencies.access_records
        assert access is not None
        record = access.link(name)
        assert record is not None
        assert matches(secret, record.digest)
        assert secret not in repr(record)
        listed = (await api.request("alice", "GET", f"/workspaces/{id_}/links")).json()["items"]
        assert [row["id"] for row in listed] == [link["id"]]
        assert "url" not in listed[0]
        for seconds in (29, 31 * 86_400):
            body = {"port": 3000, "expires_in": seconds}
            assert (await api.request("alice", "POST", f"/workspaces/{id_}/links", body)).status_code == 422
        assert (await api.request("alice", "DELETE", f"/workspaces/{id_}/links/{link['id']}")).status_code == 200
        assert access.link(name) is None

    run(act)


def test_an_alias_stays_its_owners_until_an_admin_frees_it() -> None:
    async def act(api: ApiClient) -> None:
        mine, theirs = await created(api), await created(api, "bob")

        async def alias(subject: str, method: str, id_: str, path: str = "", **body: Any) -> int:
            claims = {"groups": ["root"]} if subject == "root" else None
            url = f"/workspaces/{id_}/alias{path}"
            return (await api.request(subject, method, url, body or None, claims=claims)).status_code

        assert await alias("alice", "PUT", mine, alias="shop", port=8000) == 200
        assert await alias("bob", "PUT", theirs, alias="shop") == 409
        assert await alias("alice", "DELETE", mine) == 204
        assert await alias("alice", "DELETE", mine) == 404
        assert await alias("bob", "PUT", theirs, alias="shop") == 409
        assert await alias("alice", "PUT", mine, alias="shop") == 200
        assert await alias("alice", "DELETE", mine, "?free=true") == 403
        assert await alias("root", "DELETE", mine, "?free=true") == 204
        access = api.dependencies.access_records
        assert access is not None
        freed = access.freed_at("shop")
        assert freed is not None
        for subject, id_ in (("bob", theirs), ("alice", mine)):
            assert await alias(subject, "PUT", id_, alias="shop") == 409, "it rests for a day"
        nobodys = Alias("shop", "", "", 8000, freed, freed=freed - RESTS_FOR)
        await access.put(nobodys)
        assert await alias("bob", "PUT", theirs, alias="shop") == 200
        assert access.freed_at("shop") == nobodys.freed
        for name in ("w-shop", "1shop", "api", "xn--shop", "Shop", "a", "shop-", "sandbox"):
            assert await alias("bob", "PUT", theirs, alias=name) == 422, name
        assert await alias("bob", "PUT", theirs, alias="stall") == 200
        assert access.alias("shop") is not None
        assert access.alias_of(theirs) == access.alias("stall")

    run(act)


def test_an_owner_keeps_a_limited_number_of_aliases() -> None:
    async def act(api: ApiClient) -> None:
        id_ = await created(api)
        codes = [
            (await api.request("alice", "PUT", f"/workspaces/{id_}/alias", {"alias": f"shop-{number}"})).status_code
            for number in range(MOST_ALIASES + 1)
        ]
        assert codes == [200] * MOST_ALIASES + [409]
        assert (await api.request("alice", "PUT", f"/workspaces/{id_}/alias", {"alias": "shop-0"})).status_code == 200

    run(act)


def test_revoking_tokens_raises_the_generation() -> None:
    async def act(api: ApiClient) -> None:
        id_ = await created(api)
        for generation in (1, 2):
            assert (await api.request("alice", "POST", f"/workspaces/{id_}/revoke-tokens")).status_code == 200
            workspace = await api.dependencies.backend.get(id_)
            assert workspace is not None
            assert workspace.token_generation == generation

    run(act)


def test_an_operator_breaks_the_glass_and_the_owner_sees_why() -> None:
    async def act(api: ApiClient) -> None:
        id_ = await created(api)
        path, operator = f"/workspaces/{id_}/break-glass", {"groups": ["ops"]}
        assert (await api.request("alice", "POST", path, {"reason": "my own workspace"})).status_code == 403
        assert (await api.request("olga", "POST", path, {"reason": "short"}, claims=operator)).status_code == 422
        broken = await api.request("olga", "POST", path, {"reason": "incident 4711: disk"}, claims=operator)
        assert broken.status_code == 201
        access = api.dependencies.access_records
        assert access is not None
        caller = (await api.request("olga", "GET", "/me", claims=operator)).json()
        assert access.break_glass(id_, caller["owner"]) is not None
        events = (await api.request("alice", "GET", f"/workspaces/{id_}/events")).json()["items"]
        assert any("incident 4711" in event["message"] for event in events)

    run(act)


def test_a_workspace_is_shared_with_teams() -> None:
    async def act(api: ApiClient) -> None:
        id_ = await created(api)
        body = {"shared": {"team:research": "ro"}}
        assert (await api.request("alice", "PATCH", f"/workspaces/{id_}", body)).status_code == 200
        path = f"/workspaces/{id_}"
        assert (await api.request("bob", "GET", path)).status_code == 404
        assert (await api.request("bob", "GET", path, claims={"groups": ["research"]})).status_code == 200
        for key in ("team:", "team:\n", "TEAM:x"):
            refused = await api.request("alice", "PATCH", path, {"shared": {key: "ro"}})
            assert refused.status_code == 422, key

    run(act)
