"""Grants at create: narrower than the class and the parent, and held in every later request."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fast.core.lifecycle.test_resize import SIZES, SMALL
from tests.fast.service.http.application import ApiClient, run_with_api
from tests.fast.service.kube.apiserver import Object

BOX: Object = {
    "name": "box",
    "capabilities": ["dns", "web"],
    "maxLifetime": "1d",
    "budget": 50,
    "storage": {"kind": "none"},
    "resources": SMALL,
    "sizes": {"medium": SIZES["medium"]},
}
CLOSED: Object = {"name": "closed", "maxLifetime": "1d", "budget": 50}
TEAM = {"team": "vetted"}


async def create(api: ApiClient, **body: Any) -> Any:
    return await api.request("ann", "POST", "/workspaces", {"class": "box", **body}, claims=TEAM)


def kind(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["type"].rpartition(":")[2]


def test_grants_are_stored_and_shown() -> None:
    async def act(api: ApiClient) -> None:
        grants = {"ports": [8080, 80], "capabilities": ["web", "dns"], "size": "small", "life": 3600}
        created = await create(api, key="a", grants=grants)
        assert created.status_code == 201, created.text
        shown = created.json()["grants"]
        assert shown.pop("ends") is not None
        assert shown == {"ports": [80, 8080], "capabilities": ["dns", "web"], "size": "small"}
        again = await create(api, key="a", grants=grants)
        assert (again.status_code, again.json()["grants"]["ends"]) == (200, created.json()["grants"]["ends"])
        assert kind(await create(api, key="a", grants={**grants, "ports": [80]})) == (409, "key-reused")
        assert (await create(api, key="b")).json()["grants"] is None

    run_with_api(act, BOX)


@pytest.mark.parametrize(
    ("grants", "expected", "reason"),
    [
        ({"size": "large"}, (409, "size-not-offered"), "no size large"),
        ({"life": 90_000}, (403, "not-allowed"), "86400 s"),
        ({"ports": [49983]}, (422, "malformed"), "workspaced's own"),
        ({"capabilities": ["dns"]}, (403, "not-allowed"), "may reach"),
        ({"capabilities": []}, (403, "not-allowed"), "may reach"),
    ],
    ids=str,
)
def test_grants_beyond_the_class_are_refused_with_the_reason(
    grants: Object, expected: tuple[int, str], reason: str
) -> None:
    async def act(api: ApiClient) -> None:
        refused = await create(api, grants=grants)
        assert kind(refused) == expected
        assert reason in refused.json()["detail"]
        assert refused.json()["way_out"]

    run_with_api(act, BOX)


def test_unknown_grants_are_refused() -> None:
    async def act(api: ApiClient) -> None:
        for grants in ({"hosts": ["a.example"]}, {"capabilities": ["all"]}, {"ports": [0]}, {"life": 5}):
            assert (await create(api, grants=grants)).status_code == 422

    run_with_api(act, BOX)


def test_size_and_class_stay_within_the_grants() -> None:
    async def act(api: ApiClient) -> None:
        refused = await create(api, size="medium", grants={"size": "small"})
        assert kind(refused) == (409, "size-not-offered")
        created = await api.request(
            "ann", "POST", "/workspaces", {"class": "closed", "grants": {"capabilities": []}}, claims=TEAM
        )
        path = f"/workspaces/{created.json()['id']}"
        assert kind(await api.request("ann", "PATCH", path, {"class": "box"}, claims=TEAM)) == (403, "not-allowed")
        small = (await create(api, key="b", grants={"size": "small"})).json()["id"]
        changed = await api.request("ann", "PATCH", f"/workspaces/{small}", {"size": "medium"}, claims=TEAM)
        assert kind(changed) == (409, "size-not-offered")

    run_with_api(act, BOX, CLOSED)


def test_child_has_no_more_than_its_parent() -> None:
    async def act(api: ApiClient) -> None:
        grants = {"ports": [80, 8080], "capabilities": ["dns", "web"], "size": "small", "life": 3600}
        parent = (await create(api, key="parent", budget=5, grants=grants)).json()

        async def child(**body: Any) -> Any:
            fields = {"parent": parent["id"], "budget": 2, **body}
            return await create(api, key=f"child {sorted(body)}", **fields)

        for wider in ({"ports": [80, 3000]}, {"capabilities": ["git"]}, {"size": "medium"}, {"life": 7200}):
            refused = await child(grants=wider)
            assert kind(refused) == (403, "capability-beyond-parent"), refused.text
            part = next(iter(wider)).replace("life", "ends")
            assert part in refused.json()["detail"]
        assert kind(await child(budget=6)) == (403, "capability-beyond-parent")
        assert kind(await child(budget=None)) == (403, "capability-beyond-parent")
        narrowed = (await child(grants={"ports": [80]})).json()
        assert narrowed["grants"] == {**parent["grants"], "ports": [80]}
        inherited = (await child()).json()
        assert inherited["grants"] == parent["grants"]
        grandchild = await create(api, key="grand", parent=narrowed["id"], budget=1, grants={"ports": [8080]})
        assert kind(grandchild) == (403, "capability-beyond-parent")

    run_with_api(act, BOX)
