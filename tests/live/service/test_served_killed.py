"""The service as a process, killed (`kill -9`) after each of its writes: to the API server, and to the ledger.

Each time another replica is asked for the same, as whoever got no answer does, and each time the same holds: there is
one claim, with one home, which is kept; what was asked for is done in the end, and is in the ledger once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import httpx2
import pytest

from agentenv.core.classes.names import VOLUME_RETAINED
from agentenv.core.ledger.rows import Row
from agentenv.core.ledger.table import create_table
from agentenv.core.values.timestamps import parse_timestamp
from agentenv.core.workspaces.workspace import DELETED_AT, SUSPENDED_BECAUSE
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.service.ledger.record import LedgerRecorder
from agentenv.service.ledger.table import Ledger
from agentenv.service.ledger.usage import Meter
from tests.fast.service.http.auth.issuer import FakeIssuer
from tests.live.conftest import World
from tests.live.controlplane.things import PATIENCE, condition
from tests.live.service.blocking import Blocking, run
from tests.live.service.conftest import IMAGES, Box
from tests.live.service.fault_proxy import Front
from tests.live.service.lifecycle import Stage
from tests.live.service.replicas import Replica, ReplicaConfig, Replicas
from tests.live.service.test_api_live import VETTED

Object = dict[str, Any]
# More writes than anything here takes.
MOST = 12


@dataclass
class Scene:
    """A class, one replica that stays, and others that are killed."""

    stage: Stage
    company: Replicas
    stays: Replica
    cluster: Front
    table: Front
    ledger: Ledger

    @property
    def box(self) -> Box:
        return self.stage.box

    def doomed(self) -> Replica:
        """One that speaks through the fronts."""
        there = next(
            (replica for replica in self.company.replicas if replica is not self.stays and not replica.dead), None
        )
        return (there or self.company.replica(self.cluster.kubeconfig(), self.table.url)).ready()

    def request(self, replica: Replica, owner: str, method: str, path: str, **more: Any) -> Object | None:
        """Return the response to a request; None if the replica was killed."""
        with replica.client(self.company.issuer, owner) as client:
            try:
                answer = client.request(method, path, **more)
            except httpx2.TransportError:
                assert until(lambda: replica.dead, PATIENCE)
                return None
        assert answer.status_code < 300, (answer.text, replica.log_tail)
        return answer.json()

    def request_twice(self, front: Front, step: int, owner: str, method: str, path: str, **more: Any) -> bool:
        """Ask one that is killed after its nth write; whether it was. Then, as its caller would, the other one."""
        replica = self.doomed()
        front.end_after(step, replica.kill)
        answered = self.request(replica, owner, method, path, **more) is not None
        again = self.request(self.stays, owner, method, path, **more)
        assert again is not None
        return not answered or replica.dead

    def make(self, owner: str) -> str:
        """A workspace that runs."""
        created = self.request(self.stays, owner, "POST", "/v1/workspaces", json={"class": self.box.name}, params=WAIT)
        assert created is not None
        assert created["state"] == "running"
        # Whoever looks at one that is not marked yet marks it: that would be a write more.
        assert until(lambda: marked(self, created["id"]), PATIENCE)
        return str(created["id"])

    def becomes(self, owner: str, name: str, state: str) -> bool:
        """Return whether a workspace comes to a state."""

        def is_() -> bool:
            found = self.request(self.stays, owner, "GET", f"/v1/workspaces/{name}")
            return found is not None and found["state"] == state

        return bool(until(is_, PATIENCE, every=0.1))

    def whole(self, name: str, volume: str) -> None:
        """It is there once, with its one home, which is kept."""
        assert [claim["metadata"]["name"] for claim in self.box.all("sandboxclaims")].count(name) == 1
        assert (self.stage.volume(name), self.stage.homes(name)) == (volume, [volume])
        assert (self.stage.document(volume) or {})["spec"]["persistentVolumeReclaimPolicy"] == "Retain"

    def rows(self, owner: str) -> list[Row]:
        """Return the rows of an owner in the ledger, in their order."""
        day = timedelta(days=1)
        return self.ledger.of_owner(owner, datetime.now(UTC) - day, datetime.now(UTC) + day)


WAIT = {"wait": 60}


@pytest.fixture(scope="module")
def scene(world: World, ground: Client, system: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    api = Blocking.from_kubeconfig(world.plane.kubeconfig())
    box = Box(f"box{uuid.uuid4().hex[:6]}", ground, api, system, most=30, more=VETTED)
    pool = box.deploy(IMAGES[0])
    name = f"ledger-{box.name}"
    world.aws("dynamodb").create_table(**create_table(name))
    folder = tmp_path_factory.mktemp("killed")
    issuer = FakeIssuer()
    cluster = Front.of_cluster(world.plane.kubeconfig(), folder)
    table = Front.of_table(world.environment["AWS_ENDPOINT_URL"], "PutItem")
    config = ReplicaConfig(world.plane.kubeconfig(), issuer.url, [box.class_settings()], table=name)
    company = Replicas(config, world.environment, issuer, folder)
    try:
        stays = company.replica()
        assert until(lambda: box.full(pool), PATIENCE)
        ledger = Ledger(world.aws("dynamodb"), name)
        yield Scene(Stage(box, world), company, stays.ready(), cluster, table, ledger)
    finally:
        company.close()
        for front in (cluster, table):
            front.close()
        issuer.close()
        ground.delete(f"/api/v1/namespaces/{box.space}")
        api.close()


def test_killed_while_it_makes_one(scene: Scene) -> None:
    step, created = 0, 0
    while step < MOST:
        step += 1
        owner = f"maker-{step}"
        request: Object = {"json": {"class": scene.box.name}, "params": WAIT}
        replica = scene.doomed()
        scene.cluster.end_after(step, replica.kill)
        answer = scene.request(replica, owner, "POST", "/v1/workspaces", **request)
        # The mark on the claim is written after the answer.
        assert answer is None or until(
            lambda answer=answer, doomed=replica: doomed.dead or marked(scene, answer["id"]), PATIENCE
        )
        again = scene.request(scene.stays, owner, "POST", "/v1/workspaces", **request)
        assert again is not None
        assert (again["state"], answer is None or answer["id"] == again["id"]) == ("running", True)
        scene.whole(again["id"], scene.stage.volume(again["id"]))
        assert scene.stage.done_by_loops(lambda again=again: marked(scene, again["id"]))
        created += 1
        # So many writes there are at the least; after those, one that lives has made no further one.
        if not until(lambda doomed=replica: doomed.dead, PATIENCE if step < 4 else 2.0):
            break
    # The claim, its volume, and the mark.
    assert step >= 4
    # Nothing was claimed and left: each has one sandbox, and the pool its own.
    assert until(lambda: len(scene.box.all("sandboxes", SANDBOXES)) == created + scene.box.size, PATIENCE)


def test_killed_while_it_puts_one_to_sleep_and_while_it_wakes_it(scene: Scene) -> None:
    owner = "sleeper"
    name = scene.make(owner)
    volume = scene.stage.volume(name)
    for action, state, mode in (("suspend", "suspended", "Suspended"), ("resume", "running", "Running")):
        back = {"suspend": "resume", "resume": "suspend"}[action]
        step = 0
        while step < MOST:
            step += 1
            if scene.stage.mode(name) == mode:
                was = {"resume": "running", "suspend": "suspended"}[back]
                scene.request(scene.stays, owner, "POST", f"/v1/workspaces/{name}/{back}", params=waiting(back))
                assert scene.becomes(owner, name, was)
            killed = scene.request_twice(
                scene.cluster, step, owner, "POST", f"/v1/workspaces/{name}/{action}", params=waiting(action)
            )
            assert scene.becomes(owner, name, state)
            assert scene.stage.mode(name) == mode
            assert (SUSPENDED_BECAUSE in scene.stage.notes(name)) == (state == "suspended")
            scene.whole(name, volume)
            if not killed:
                break
        # What is meant, and the sandbox.
        assert step == 3, action


def test_killed_while_it_takes_one_away(scene: Scene) -> None:
    step = 0
    while step < MOST:
        step += 1
        killed = taken_away(scene, f"leaver-{step}", scene.cluster, step)
        if not killed:
            break
    # The volume, and the claim.
    assert step == 3


def test_killed_while_it_writes_the_last_row_of_one_that_is_taken_away(scene: Scene) -> None:
    assert taken_away(scene, "writer", scene.table, 1)


def taken_away(scene: Scene, owner: str, front: Front, step: int) -> bool:
    """Delete a workspace at a replica, check that its data stays, and return whether the replica was killed."""
    name = scene.make(owner)
    volume, claim = scene.stage.volume(name), (scene.stage.claim(name) or {})["metadata"]["uid"]
    label = (scene.stage.document(volume) or {})["metadata"]["labels"]["sandbox.users.io/user"]
    # It has used something by then that can be written down.
    assert until(lambda: used(scene, name), PATIENCE)
    killed = scene.request_twice(front, step, owner, "DELETE", f"/v1/workspaces/{name}")
    assert scene.becomes(owner, name, "deleted")
    assert until(lambda: scene.stage.phase(volume) == "Released", PATIENCE)
    volume_document = scene.stage.document(volume) or {}
    assert volume_document["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert (scene.stage.homes(name), scene.stage.claim(name)) == ([volume], None)
    # What it used is there once, until it was deleted.
    run(LedgerRecorder(scene.stage.api.api, scene.ledger, Meter()).record_all)
    rows = [row for row in scene.rows(label) if row.claim == claim]
    assert rows
    assert all(row.closed for row in rows)
    assert all(earlier.ended == later.began for earlier, later in pairwise(rows))
    gone = parse_timestamp(volume_document["metadata"]["annotations"][DELETED_AT])
    assert gone is not None
    # Rows are in whole seconds.
    assert rows[-1].ended == gone.replace(microsecond=0)
    return killed


def used(scene: Scene, name: str) -> bool:
    """Return whether it has been somebody's for longer than the ledger's second: its pod is older than that."""
    claimed = parse_timestamp((scene.stage.claim(name) or {})["metadata"]["creationTimestamp"])
    pod = scene.box.client.find(f"/api/v1/namespaces/{scene.box.space}/pods/{scene.stage.sandbox(name)}")
    placed = parse_timestamp(condition(pod, "PodScheduled").get("lastTransitionTime"))
    if claimed is None or placed is None:
        return False
    return datetime.now(UTC) - max(claimed, placed) > timedelta(seconds=3)


def marked(scene: Scene, name: str) -> bool:
    return scene.stage.notes(name).get(VOLUME_RETAINED) == "true"


def waiting(action: str) -> dict[str, int]:
    return WAIT if action == "resume" else {}


SANDBOXES = "/apis/agents.x-k8s.io/v1beta1"
