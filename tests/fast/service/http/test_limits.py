"""Nobody comes to more than is theirs by a way around: another class, another's name, or what was deleted."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.core.lifecycle.restore import MOVING_TO
from agentenv.core.workspaces.workspace import Workspace
from tests.fast.service.http.application import ApiClient, run_with_api
from tests.fast.service.kube.apiserver import Object

WIDE: Object = {"name": "wide", "budget": 50}
NARROW: Object = {"name": "narrow", "budget": 10}
GATED: Object = {"name": "gated", "claimableBy": {"roles": [], "tokens": [{"name": "level", "value": "high"}]}}
VETTED = {"claims": {"team": "vetted"}}
HIGH = {"claims": {"team": "vetted", "level": "high"}}


class Back(Exception):
    """Somebody is brought back to their files."""


class Returning:
    """Says that somebody is brought back, or sent to another class."""

    async def restore(self, volume: Object, workspace: Workspace) -> Workspace:
        raise Back(workspace.id, volume["metadata"]["name"])

    async def change_class(self, claim: Object, to: Any) -> Workspace:
        raise Back(claim["metadata"]["name"], to.name)

    def choice(self, why: Any) -> Any:
        raise NotImplementedError


async def made(api: ApiClient, who: str, **asked: Any) -> Object:
    answer = await api.request(who, "POST", "/workspaces", asked, **VETTED)
    assert answer.status_code == 201, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("said", "moves"), [({}, False), ({"budget": 20}, False), ({"budget": 10}, True), ({"budget": 5}, True)]
)
def test_a_budget_does_not_come_along_to_a_class_that_gives_less(said: Object, moves: bool) -> None:
    async def act(api: ApiClient) -> None:
        api.stage.backend._restorer = Returning()
        one = await made(api, "ann", **{"class": "wide", "budget": 50})
        asked = "ann", "PATCH", f"/workspaces/{one['id']}", {"class": "narrow", **said}
        if moves:
            with pytest.raises(Back, match="narrow"):
                await api.request(*asked, **VETTED)
        else:
            answer = await api.request(*asked, **VETTED)
            assert (answer.status_code, "10" in answer.json()["detail"]) == (403, True)

    run_with_api(act, WIDE, NARROW)


def test_an_owner_may_lower_what_an_admin_raised_and_no_more_than_that() -> None:
    async def act(api: ApiClient) -> None:
        one = await made(api, "ann", **{"class": "narrow"})
        path = f"/workspaces/{one['id']}"
        boss = {"claims": {"groups": ["bosses"]}}
        assert (await api.request("boss", "PATCH", path, {"budget": 100}, **boss)).status_code == 200
        assert (await api.request("ann", "PATCH", path, {"budget": 101}, **VETTED)).status_code == 403
        assert (await api.request("ann", "PATCH", path, {"budget": 60}, **VETTED)).json()["budget"] == "60"
        assert (await api.request("ann", "PATCH", path, {"budget": 61}, **VETTED)).status_code == 403
        assert (await api.request("ann", "PATCH", path, {"budget": None}, **VETTED)).status_code == 403

    run_with_api(act, NARROW, admins=("bosses",))


@pytest.mark.parametrize("way", ["resume", "create"])
@pytest.mark.parametrize("moving", [False, True])
def test_a_class_that_one_may_not_ask_for_comes_back_by_no_way(way: str, moving: bool) -> None:
    async def act(api: ApiClient) -> None:
        backend, objects = api.stage.backend, api.stage.server.objects
        backend._restorer = Returning()
        one = await made(api, "ann", **{"class": "wide"})
        await api.request("ann", "DELETE", f"/workspaces/{one['id']}", **VETTED)
        [volume] = [row for (kind, _, _), row in objects.items() if kind == "persistentvolumes"]
        if moving:
            volume["metadata"]["annotations"][MOVING_TO] = "gated"
        else:
            volume["spec"]["claimRef"]["namespace"] = "sandbox-gated"
        api.stage.server.put("persistentvolumes", volume)

        async def back(**said: Any) -> Any:
            if way == "resume":
                return await api.request("ann", "POST", f"/workspaces/{one['id']}/resume", **said)
            return await api.request("ann", "POST", "/workspaces", {"class": "wide"}, **said)

        refused = await back(**VETTED)
        assert (refused.status_code, refused.json()["detail"]) == (
            403,
            "the `claimableBy` of class gated does not include you",
        )
        with pytest.raises(Back):
            await back(**HIGH)

    run_with_api(act, WIDE, GATED)


@pytest.mark.parametrize("more", ["shared", "parent"])
def test_who_looks_after_workspaces_does_not_come_into_one_by_asking_for_it(more: str) -> None:
    async def act(api: ApiClient) -> None:
        operator, boss = ({"claims": {"team": "vetted", "groups": [name]}} for name in ("ops", "bosses"))
        bob = (await api.request("bob", "GET", "/me")).json()["owner"]
        own = (await api.request("oscar", "GET", "/me", **operator)).json()["owner"]
        mine = await made(api, "oscar", **{"class": "wide"})
        said = {"shared": {"shared": {own: "rw"}}, "parent": {"parent": mine["id"]}}[more]
        asked = {"class": "wide", "owner": bob, **said}
        refused = await api.request("oscar", "POST", "/workspaces", asked, **operator)
        assert (refused.status_code, more in refused.json()["detail"]) == (403, True)
        if more == "shared":
            assert (await api.request("boss", "POST", "/workspaces", asked, **boss)).status_code == 201
        plain = {"class": "wide", "owner": bob, "key": "another"}
        assert (await api.request("oscar", "POST", "/workspaces", plain, **operator)).status_code == 201
        assert (
            await api.request("oscar", "POST", "/workspaces", {"class": "wide", "key": "own", **said}, **operator)
        ).is_success

    run_with_api(act, WIDE, operators=("ops",), admins=("bosses",))
