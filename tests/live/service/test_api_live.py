"""The API on the live control plane: workspaces made once, kept, put to sleep, woken, shared and taken away."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agentenv.rehearsal.controlplane.client import until
from tests.fast.service.http.auth.issuer import FakeIssuer
from tests.live.conftest import World
from tests.live.controlplane.things import PATIENCE
from tests.live.service.conftest import IMAGES, Box
from tests.live.service.serving import Served, configuration, serving

VETTED = {"claimableBy": {"roles": ["operator"], "tokens": [{"name": "team", "value": "vetted"}]}}


@pytest.fixture(scope="module")
def issuer() -> Iterator[FakeIssuer]:
    made = FakeIssuer()
    yield made
    made.close()


@pytest.fixture
def served(world: World, box: Box, issuer: FakeIssuer) -> Iterator[Served]:
    box.more = VETTED
    pool = box.deploy(IMAGES[0])
    assert until(lambda: box.full(pool), PATIENCE)
    told = configuration(world.plane.kubeconfig(), issuer, [box.said()])
    with serving(told, issuer, replicas=2) as replicas:
        yield replicas


def asked(box: Box, **more: Any) -> dict[str, Any]:
    return {"class": box.name, **more}


def test_one_is_made_kept_put_to_sleep_woken_and_taken_away(served: Served, box: Box) -> None:
    with served.client("ann") as ann:
        answer = ann.post("/v1/workspaces", json=asked(box), params={"wait": 60})
        assert answer.status_code == 201, answer.text
        made = answer.json()
        assert (made["state"], made["cold"]) == ("running", None)
        id_ = made["id"]
        assert answer.headers["Location"] == f"/v1/workspaces/{id_}"
        volume = box.home(made["sandbox"])
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert volume["metadata"]["labels"]["sandbox.users.io/user"] == made["owner"]

        again = ann.post("/v1/workspaces", json=asked(box))
        assert (again.status_code, again.json()["id"]) == (200, id_)

        slept = ann.post(f"/v1/workspaces/{id_}/suspend")
        assert slept.status_code == 200, slept.text
        assert until(lambda: ann.get(f"/v1/workspaces/{id_}").json()["state"] == "suspended", PATIENCE)
        assert ann.get(f"/v1/workspaces/{id_}").json()["suspended_because"] == "asked"

        woken = ann.post(f"/v1/workspaces/{id_}/resume", params={"wait": 60})
        assert (woken.status_code, woken.json()["state"]) == (200, "running"), woken.text
        assert box.home(woken.json()["sandbox"])["metadata"]["uid"] == volume["metadata"]["uid"]

        gone = ann.delete(f"/v1/workspaces/{id_}")
        assert gone.status_code == 202
        settled = ann.get(f"/v1/workspaces/{id_}", params={"wait": 60}).json()
        assert settled["state"] == "deleted"
        assert settled["destroy_after"] > settled["deleted_at"]
        assert box.client.get(f"/api/v1/persistentvolumes/{volume['metadata']['name']}")


def test_a_hundred_racing_creates_at_two_replicas_make_one(served: Served, box: Box) -> None:
    clients = [served.client("racer", replica) for replica in (0, 1)]

    def ask(number: int) -> tuple[int, str]:
        answer = clients[number % 2].post("/v1/workspaces", json=asked(box), params={"wait": 60})
        return answer.status_code, answer.json().get("id", answer.text)

    with ThreadPoolExecutor(20) as hands:
        answers = list(hands.map(ask, range(100)))
    assert {code for code, _ in answers} <= {200, 201}
    assert [code for code, _ in answers].count(201) == 1
    assert len({id_ for _, id_ in answers}) == 1
    assert len(box.all("sandboxclaims")) == 1


def test_many_at_once_are_all_ready_and_no_two_share_a_sandbox(served: Served, box: Box) -> None:
    def ask(number: int) -> dict[str, Any]:
        with served.client(f"user-{number}", number % 2) as somebody:
            return somebody.post("/v1/workspaces", json=asked(box), params={"wait": 60}).json()

    with ThreadPoolExecutor(8) as hands:
        made = list(hands.map(ask, range(8)))
    assert {one["state"] for one in made} == {"running"}, made
    assert len({one["sandbox"] for one in made}) == 8
    # The pool had two members; the others say why they waited.
    assert sum(one["cold"] is None for one in made) >= 2
    assert {one["cold"] for one in made} - {None} <= {
        "all warm sandboxes of its class are in use",
        "another claim got the last warm sandbox",
    }


def test_a_swarm_is_made_whole_and_is_its_owners(world: World, box: Box, issuer: FakeIssuer) -> None:
    box.storage, box.more = "shared", VETTED
    pool = box.deploy(IMAGES[0])
    assert until(lambda: box.full(pool), PATIENCE)
    told_to = configuration(world.plane.kubeconfig(), issuer, [box.said()])
    with serving(told_to, issuer) as served, served.client("ann") as ann, served.client("bob") as bob:
        asked = {"class": box.name, "task": "build", "count": 2}
        made = ann.post("/v1/swarms", json=asked, params={"wait": 60})
        assert made.status_code == 201, made.text
        told = made.json()
        assert (told["state"], told["ready"], len(told["workspaces"])) == ("running", 2, 2)
        for name in told["workspaces"]:
            one = ann.get(f"/v1/workspaces/{name}").json()
            assert (one["mode"], one["state"]) == ("agent", "running")
            volume = box.home(one["sandbox"])
            assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
            assert bob.get(f"/v1/workspaces/{name}").status_code == 404
        assert ann.post("/v1/swarms", json=asked, params={"wait": 60}).json()["workspaces"] == told["workspaces"]
        # Somebody else's task of that name is another one.
        assert bob.get("/v1/swarms/build").status_code == 404
        assert bob.delete("/v1/swarms/build").status_code == 404
        many = bob.post("/v1/swarms", json={**asked, "count": 400})
        assert (many.status_code, many.json()["type"].rpartition(":")[2]) == (503, "no-room")
        assert ann.delete("/v1/swarms/build").status_code == 202
        assert until(lambda: ann.get("/v1/swarms/build").status_code == 404, PATIENCE)
