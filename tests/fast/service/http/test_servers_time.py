"""Replicas write timestamps by the API server's clock, whatever their machine's clock says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from agentenv.core.values.timestamps import parse_timestamp
from agentenv.core.workspaces.workspace import DELETED_AT, DESTROY_AFTER, LAST_ACTIVE, LEASES
from tests.fast.service.http.application import ApiClient, run_with_api
from tests.fast.service.kube.apiserver import Object

MONTHS, MINUTE = timedelta(days=60), timedelta(minutes=1)


def is_near(text: str, expected: datetime) -> bool:
    timestamp = parse_timestamp(text)
    return timestamp is not None and abs(timestamp - expected) < MINUTE


def test_timestamps_are_of_the_api_servers_clock() -> None:
    async def act(api: ApiClient) -> None:
        server_time = api.stage.server.time = datetime.now(UTC) + MONTHS

        async def request(method: str, path: str, body: Object | None = None) -> Any:
            return await api.request("u-1", method, f"/workspaces{path}", body, claims={"team": "vetted"})

        created = await request("POST", "", {"class": "standard"})
        assert created.status_code == 201, created.text
        id_ = created.json()["id"]

        def annotations(plural: str, namespace: str, name: str) -> Object:
            return api.stage.server.objects[plural, namespace, name]["metadata"]["annotations"]

        leased = await request("PUT", f"/{id_}/leases/agent", {"mode": "rw", "seconds": 600})
        assert leased.status_code == 200, leased.text
        claim_annotations = annotations("sandboxclaims", "sandbox-standard", id_)
        (lease,) = json.loads(claim_annotations[LEASES])
        assert is_near(claim_annotations[LAST_ACTIVE], server_time)
        assert is_near(lease["until"], server_time + timedelta(seconds=600))
        # By its clock a deadline of next week is in the past.
        over = (datetime.now(UTC) + timedelta(days=7)).isoformat()
        assert (await request("PATCH", f"/{id_}", {"deadline": over})).status_code == 409
        assert (await request("DELETE", f"/{id_}")).status_code == 202
        volume_annotations = annotations("persistentvolumes", "", f"pvc-{id_}")
        assert is_near(volume_annotations[DELETED_AT], server_time)
        assert is_near(volume_annotations[DESTROY_AFTER], server_time + timedelta(days=30))

    run_with_api(act)
