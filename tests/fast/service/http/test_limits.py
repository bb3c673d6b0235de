"""Class changes, creation for others and restores do not give a caller more than the settings allow."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.core.lifecycle.restore import MOVING_TO
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.workspaces.restore_requests import WorkspaceRestorer
from tests.fast.service.http.application import ApiClient, run_with_api
from tests.fast.service.kube.apiserver import Object

WIDE: Object = {"name": "wide", "budget": 50}
NARROW: Object = {"name": "narrow", "budget": 10}
GATED: Object = {"name": "gated", "claimableBy": {"roles": [], "tokens": [{"name": "level", "value": "high"}]}}
VETTED = {"claims": {"team": "vetted"}}
HIGH = {"claims": {"team": "vetted", "level": "high"}}


class RestoreStartedError(Exception):
    """A restore or a change of class has started."""


class FakeRestorer(WorkspaceRestorer):
    """Raises where a restore or a change of class would start."""

    async def restore(self, volume: Object, workspace: Workspace) -> Workspace:
        raise RestoreStartedError(workspace.id, volume["metadata"]["name"])

    async def change_class(self, claim: Object, to: Any) -> Workspace:
        raise RestoreStartedError(claim["metadata"]["name"], to.name)


async def create(api: ApiClient, who: str, **body: Any) -> Object:
    response = await api.request(who, "POST", "/workspaces", body, **VETTED)
    assert response.status_code == 201, response.text
    return response.json()


@pytest.mark.parametrize(
    ("fields", "changes"), [({}, False), ({"budget": 20}, False), ({"budget": 10}, True), ({"budget": 5}, True)]
)
def test_a_budget_above_the_new_classs_budget_is_refused(fields: Object, changes: bool) -> None:
    async def act(api: ApiClient) -> None:
        api.stage.backend._restorer = FakeRestorer(api.stage.kube)
        workspace = await create(api, "ann", **{"class": "wide", "budget": 50})
        body = "ann", "PATCH", f"/workspaces/{workspace['id']}", {"class": "narrow", **fields}
        if changes:
            with pytest.raises(RestoreStartedError, match="narrow"):
                await api.request(*body, **VETTED)
        else:
            response = await api.request(*body, **VETTED)
            assert (response.status_code, "10" in response.json()["detail"]) == (403, True)

    run_with_api(act, WIDE, NARROW)


def test_an_owner_may_lower_a_budget_that_an_admin_raised() -> None:
    async def act(api: ApiClient) -> None:
        workspace = await create(api, "ann", **{"class": "narrow"})
        path = f"/workspaces/{workspace['id']}"
        admin = {"claims": {"groups": ["bosses"]}}
        assert (await api.request("boss", "PATCH", path, {"budget": 100}, **admin)).status_code == 200
        assert (await api.request("ann", "PATCH", path, {"budget": 101}, **VETTED)).status_code == 403
        assert (await api.request("ann", "PATCH", path, {"budget": 60}, **VETTED)).json()["budget"] == "60"
        assert (await api.request("ann", "PATCH", path, {"budget": 61}, **VETTED)).status_code == 403
        assert (await api.request("ann", "PATCH", path, {"budget": None}, **VETTED)).status_code == 403

    run_with_api(act, NARROW, admins=("bosses",))


@pytest.mark.parametrize("route", ["resume", "create"])
@pytest.mark.parametrize("moving", [False, True])
def test_a_workspace_of_an_inaccessible_class_cannot_be_restored(route: str, moving: bool) -> None:
    async def act(api: ApiClient) -> None:
        backend, objects = api.stage.backend, api.stage.server.objects
        backend._restorer = FakeRestorer(api.stage.kube)
        workspace = await create(api, "ann", **{"class": "wide"})
        await api.request("ann", "DELETE", f"/workspaces/{workspace['id']}", **VETTED)
        [volume] = [row for (kind, _, _), row in objects.items() if kind == "persistentvolumes"]
        if moving:
            volume["metadata"]["annotations"][MOVING_TO] = "gated"
        else:
            volume["spec"]["claimRef"]["namespace"] = "sandbox-gated"
        api.stage.server.put("persistentvolumes", volume)

        async def restore(**fields: Any) -> Any:
            if route == "resume":
                return await api.request("ann", "POST", f"/workspaces/{workspace['id']}/resume", **fields)
            return await api.request("ann", "POST", "/workspaces", {"class": "wide"}, **fields)

        refused = await restore(**VETTED)
        assert (refused.status_code, refused.json()["detail"]) == (
            403,
            "the `claimableBy` of class gated does not include you",
        )
        with pytest.raises(RestoreStartedError):
            await restore(**HIGH)

    run_with_api(act, WIDE, GATED)


@pytest.mark.parametrize("field", ["shared", "parent"])
def test_an_operator_gets_no_access_to_a_workspace_by_creating_it(field: str) -> None:
    async def act(api: ApiClient) -> None:
        operator, admin = ({"claims": {"team": "vetted", "groups": [name]}} for name in ("ops", "bosses"))
        bob = (await api.request("bob", "GET", "/me")).json()["owner"]
        own_owner = (await api.request("oscar", "GET", "/me", **operator)).json()["owner"]
        own_workspace = await create(api, "oscar", **{"class": "wide"})
        fields = {"shared": {"shared": {own_owner: "rw"}}, "parent": {"parent": own_workspace["id"], "budget": 1}}[
            field
        ]
        body = {"class": "wide", "owner": bob, **fields}
        refused = await api.request("oscar", "POST", "/workspaces", body, **operator)
        assert (refused.status_code, field in refused.json()["detail"]) == (403, True)
        if field == "shared":
            assert (await api.request("boss", "POST", "/workspaces", body, **admin)).status_code == 201
        body = {"class": "wide", "owner": bob, "key": "another"}
        assert (await api.request("oscar", "POST", "/workspaces", body, **operator)).status_code == 201
        assert (
            await api.request("oscar", "POST", "/workspaces", {"class": "wide", "key": "own", **fields}, **operator)
        ).is_success

    run_with_api(act, WIDE, operators=("ops",), admins=("bosses",))
