"""Replicas on machines with clocks of their own write the API server's time on what they make, keep and delete."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from agentenv.core.values.timestamps import parse_timestamp
from agentenv.core.workspaces.workspace import DELETED_AT, DESTROY_AFTER, LAST_ACTIVE, LEASES
from tests.fast.service.http.application import ApiClient, run_with_api
from tests.fast.service.kube.apiserver import Object

MONTHS, MINUTE = timedelta(days=60), timedelta(minutes=1)


def near(text: str, wanted: datetime) -> bool:
    found = parse_timestamp(text)
    return found is not None and abs(found - wanted) < MINUTE


def test_what_is_written_is_written_by_the_time_that_the_server_told() -> None:
    async def act(api: ApiClient) -> None:
        told = api.stage.server.time = datetime.now(UTC) + MONTHS

        async def ask(method: str, path: str, body: Object | None = None) -> Any:
            return await api.request("u-1", method, f"/workspaces{path}", body, claims={"team": "vetted"})

        made = await ask("POST", "", {"class": "standard"})
        assert made.status_code == 201, made.text
        id_ = made.json()["id"]

        def notes(plural: str, space: str, name: str) -> Object:
            return api.stage.server.objects[plural, space, name]["metadata"]["annotations"]

        leased = await ask("PUT", f"/{id_}/leases/agent", {"mode": "rw", "seconds": 600})
        assert leased.status_code == 200, leased.text
        said = notes("sandboxclaims", "sandbox-standard", id_)
        (lease,) = json.loads(said[LEASES])
        assert near(said[LAST_ACTIVE], told)
        assert near(lease["until"], told + timedelta(seconds=600))
        # To it a deadline of next week is over.
        over = (datetime.now(UTC) + timedelta(days=7)).isoformat()
        assert (await ask("PATCH", f"/{id_}", {"deadline": over})).status_code == 409
        assert (await ask("DELETE", f"/{id_}")).status_code == 202
        kept = notes("persistentvolumes", "", f"pvc-{id_}")
        assert near(kept[DELETED_AT], told)
        assert near(kept[DESTROY_AFTER], told + timedelta(days=30))

    run_with_api(act)
