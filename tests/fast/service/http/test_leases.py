"""Leases over the API: of callers that a workspace is shared with, and of its owner."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from agentenv.core.values.timestamps import parse_timestamp
from tests.fast.service.http.application import ApiClient, run_with_api


def test_a_reader_cannot_keep_a_workspace_running_and_its_owner_may_end_the_lease() -> None:
    async def act(api: ApiClient) -> None:
        async def request(caller: str, method: str, path: str, body: Any = None) -> Any:
            return await api.request(caller, method, f"/workspaces{path}", body, claims={"team": "vetted"})

        created = await request("u-1", "POST", "", {"class": "standard"})
        assert created.status_code == 201, created.text
        id_ = created.json()["id"]
        guests = {(await api.request(name, "GET", "/me")).json()["owner"]: access for name, access in GUESTS.items()}
        reader, writer = guests
        assert (await request("u-1", "PATCH", f"/{id_}", {"shared": guests})).status_code == 200
        read = await request("u-2", "PUT", f"/{id_}/leases/me", {"mode": "ro", "seconds": 86_400})
        (lease,) = read.json()["leases"]
        until = parse_timestamp(lease["until"])
        assert until is not None
        assert until < datetime.now(UTC) + timedelta(minutes=3)
        response = await request("u-3", "PUT", f"/{id_}/leases/me", {"mode": "rw", "seconds": 3600})
        assert len(response.json()["leases"]) == 2
        # Nobody but the owner and admins ends the leases of others.
        assert (await request("u-3", "DELETE", f"/{id_}/leases/me?of={reader}")).status_code == 403
        ended = await request("u-1", "DELETE", f"/{id_}/leases/me?of={reader}")
        assert [each["holder"] for each in ended.json()["leases"]] == [f"{writer}/me"]
        unshared = await request("u-1", "PATCH", f"/{id_}", {"shared": {}})
        assert unshared.json()["leases"] == []

    run_with_api(act)


GUESTS = {"u-2": "ro", "u-3": "rw"}
