"""The API on the live control plane: workspaces are created once, suspended, resumed, shared and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agentenv.rehearsal.controlplane.client import until
from tests.fast.service.http.auth.issuer import FakeIssuer
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT
from tests.live.service.conftest import LiveClass
from tests.live.service.serving import Served, configuration, serving

VETTED = {"claimableBy": {"roles": ["operator"], "tokens": [{"name": "team", "value": "vetted"}]}}


@pytest.fixture
def served(live: LiveCluster, live_class: LiveClass, issuer: FakeIssuer) -> Iterator[Served]:
    live_class.extra_settings = VETTED
    live_class.deploy_until_full()
    configuration_ = configuration(live.plane.kubeconfig(), issuer, [live_class.class_settings()])
    with serving(configuration_, issuer, replicas=2) as replicas:
        yield replicas


def body(live_class: LiveClass, **more: Any) -> dict[str, Any]:
    return {"class": live_class.name, **more}


def test_workspace_is_created_suspended_resumed_and_deleted(served: Served, live_class: LiveClass) -> None:
    with served.client("ann") as ann:
        answer = ann.post("/v1/workspaces", json=body(live_class), params={"wait": 60})
        assert answer.status_code == 201, answer.text
        created = answer.json()
        assert (created["state"], created["cold"]) == ("running", None)
        id_ = created["id"]
        assert answer.headers["Location"] == f"/v1/workspaces/{id_}"
        volume = live_class.home(created["sandbox"])
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert volume["metadata"]["labels"]["sandbox.users.io/user"] == created["owner"]

        again = ann.post("/v1/workspaces", json=body(live_class))
        assert (again.status_code, again.json()["id"]) == (200, id_)

        slept = ann.post(f"/v1/workspaces/{id_}/suspend")
        assert slept.status_code == 200, slept.text
        assert until(lambda: ann.get(f"/v1/workspaces/{id_}").json()["state"] == "suspended", TIMEOUT)
        assert ann.get(f"/v1/workspaces/{id_}").json()["suspended_because"] == "asked"

        woken = ann.post(f"/v1/workspaces/{id_}/resume", params={"wait": 60})
        assert (woken.status_code, woken.json()["state"]) == (200, "running"), woken.text
        assert live_class.home(woken.json()["sandbox"])["metadata"]["uid"] == volume["metadata"]["uid"]

        deleted = ann.delete(f"/v1/workspaces/{id_}")
        assert deleted.status_code == 202
        settled = ann.get(f"/v1/workspaces/{id_}", params={"wait": 60}).json()
        assert settled["state"] == "deleted"
        assert settled["destroy_after"] > settled["deleted_at"]
        assert live_class.client.get(f"/api/v1/persistentvolumes/{volume['metadata']['name']}")


def test_racing_creates_at_two_replicas_create_one_workspace(served: Served, live_class: LiveClass) -> None:
    clients = [served.client("racer", replica) for replica in (0, 1)]

    def create(number: int) -> tuple[int, str]:
        answer = clients[number % 2].post("/v1/workspaces", json=body(live_class), params={"wait": 60})
        return answer.status_code, answer.json().get("id", answer.text)

    with ThreadPoolExecutor(20) as executor:
        answers = list(executor.map(create, range(100)))
    assert {code for code, _ in answers} <= {200, 201}
    assert [code for code, _ in answers].count(201) == 1
    assert len({id_ for _, id_ in answers}) == 1
    assert len(live_class.all("sandboxclaims")) == 1


def test_concurrent_creates_get_separate_sandboxes(served: Served, live_class: LiveClass) -> None:
    def create(number: int) -> dict[str, Any]:
        with served.client(f"user-{number}", number % 2) as somebody:
            return somebody.post("/v1/workspaces", json=body(live_class), params={"wait": 60}).json()

    with ThreadPoolExecutor(8) as executor:
        created = list(executor.map(create, range(8)))
    assert {workspace["state"] for workspace in created} == {"running"}, created
    assert len({workspace["sandbox"] for workspace in created}) == 8
    # The pool had two sandboxes; the other workspaces have the reason of their cold start.
    assert sum(workspace["cold"] is None for workspace in created) >= 2
    assert {workspace["cold"] for workspace in created} - {None} <= {
        "all warm sandboxes of its class are in use",
        "another claim got the last warm sandbox",
    }


def test_swarm_is_created_whole_and_belongs_to_its_owner(
    live: LiveCluster, live_class: LiveClass, issuer: FakeIssuer
) -> None:
    live_class.storage, live_class.extra_settings = "shared", VETTED
    live_class.deploy_until_full()
    configuration_ = configuration(live.plane.kubeconfig(), issuer, [live_class.class_settings()])
    with serving(configuration_, issuer) as served, served.client("ann") as ann, served.client("bob") as bob:
        body = {"class": live_class.name, "task": "build", "count": 2}
        response = ann.post("/v1/swarms", json=body, params={"wait": 60})
        assert response.status_code == 201, response.text
        created = response.json()
        assert (created["state"], created["ready"], len(created["workspaces"])) == ("running", 2, 2)
        for name in created["workspaces"]:
            workspace = ann.get(f"/v1/workspaces/{name}").json()
            assert (workspace["mode"], workspace["state"]) == ("agent", "running")
            volume = live_class.home(workspace["sandbox"])
            assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
            assert bob.get(f"/v1/workspaces/{name}").status_code == 404
        assert ann.post("/v1/swarms", json=body, params={"wait": 60}).json()["workspaces"] == created["workspaces"]
        # Another owner's task of the same name is another swarm.
        assert bob.get("/v1/swarms/build").status_code == 404
        assert bob.delete("/v1/swarms/build").status_code == 404
        many = bob.post("/v1/swarms", json={**body, "count": 400})
        assert (many.status_code, many.json()["type"].rpartition(":")[2]) == (503, "no-room")
        assert ann.delete("/v1/swarms/build").status_code == 202
        assert until(lambda: ann.get("/v1/swarms/build").status_code == 404, TIMEOUT)
