"""The service as a process, before a server that refuses each change at first, or is gone for half a minute.

Whoever asks is served all the same, or told to ask again; nothing is lost, and nothing is there twice.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentenv.core.ledger.table import create_table
from agentenv.core.values.timestamps import parse_timestamp
from agentenv.core.workspaces.workspace import DELETED_AT, LAST_ACTIVE
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.service.aws import clients as aws
from agentenv.service.kube.client import VOLUMES, section
from agentenv.service.ledger.record import LedgerRecorder
from agentenv.service.ledger.table import Ledger
from agentenv.service.ledger.usage import Meter
from tests.fast.service.http.auth.issuer import FakeIssuer
from tests.live.conftest import REGION, World
from tests.live.controlplane.things import PATIENCE
from tests.live.service.blocking import Blocking, run
from tests.live.service.closable_proxy import gate
from tests.live.service.conftest import IMAGES, Box
from tests.live.service.fault_proxy import CONFLICT, THROTTLED, TOO_MANY, Answer, Front
from tests.live.service.lifecycle import Stage
from tests.live.service.replicas import ReplicaConfig, Replicas
from tests.live.service.test_api_live import VETTED

if TYPE_CHECKING:
    import httpx2

Object = dict[str, Any]
WAIT = {"wait": 60}
GONE_SECONDS = 30.0


@pytest.fixture(scope="module")
def stage(world: World, ground: Client, system: str) -> Iterator[Stage]:
    """A class for all of them: each has owners of its own."""
    api = Blocking.from_kubeconfig(world.plane.kubeconfig())
    box = Box(f"box{uuid.uuid4().hex[:6]}", ground, api, system, most=30, more=VETTED)
    pool = box.deploy(IMAGES[0])
    assert until(lambda: box.full(pool), PATIENCE)
    yield Stage(box, world)
    ground.delete(f"/api/v1/namespaces/{box.space}")
    api.close()


@pytest.fixture(scope="module")
def ledger(world: World, stage: Stage) -> Ledger:
    name = f"ledger-{stage.box.name}"
    world.aws("dynamodb").create_table(**create_table(name))
    return Ledger(world.aws("dynamodb"), name)


@pytest.fixture(scope="module")
def company(world: World, stage: Stage, ledger: Ledger, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    assert ledger
    issuer = FakeIssuer()
    config = ReplicaConfig(
        world.plane.kubeconfig(), issuer.url, [stage.box.class_settings()], table=f"ledger-{stage.box.name}"
    )
    replicas = Replicas(config, world.environment, issuer, tmp_path_factory.mktemp("refused"))
    yield replicas
    replicas.close()
    issuer.close()


@pytest.fixture
def front(world: World, tmp_path: Path) -> Iterator[Front]:
    front_ = Front.of_cluster(world.plane.kubeconfig(), tmp_path)
    yield front_
    front_.close()


def answered(client: httpx2.Client, method: str, path: str, *codes: int, **more: Any) -> Object:
    answer = client.request(method, path, **more)
    assert answer.status_code in codes, f"{method} {path}: {answer.status_code} {answer.text}"
    return answer.json()


def becomes(client: httpx2.Client, path: str, state: str) -> bool:
    return bool(until(lambda: answered(client, "GET", path, 200)["state"] == state, PATIENCE, every=0.1))


@pytest.mark.parametrize(("answer", "times"), [(TOO_MANY, 1), (CONFLICT, 2)], ids=["429", "409"])
def test_each_change_is_refused_at_first_and_made_once_all_the_same(
    stage: Stage, company: Replicas, front: Front, answer: Answer, times: int
) -> None:
    replica = company.replica(front.kubeconfig()).ready()
    box = stage.box
    with replica.client(company.issuer, f"refused-{answer.code}") as ann:
        front.refuse(times, answer)
        created = answered(ann, "POST", "/v1/workspaces", 201, json={"class": box.name}, params=WAIT)
        path, volume = f"/v1/workspaces/{created['id']}", stage.volume(created["id"])
        assert (created["state"], stage.homes(created["id"])) == ("running", [volume])
        answered(ann, "PATCH", path, 200, json={"labels": {"a": "b"}})
        answered(ann, "PUT", f"{path}/leases/agent", 200, json={"mode": "rw"})
        answered(ann, "DELETE", f"{path}/leases/agent", 200)
        answered(ann, "POST", f"{path}/suspend", 200)
        assert becomes(ann, path, "suspended")
        answered(ann, "POST", f"{path}/resume", 200, 202, params=WAIT)
        assert becomes(ann, path, "running")
        answered(ann, "DELETE", path, 202)
        assert becomes(ann, path, "deleted")
        # Brought back by threads, whose client does not try again by itself.
        answered(ann, "POST", f"{path}/resume", 200, 201, 202, params=WAIT)
        assert becomes(ann, path, "running")
        assert (stage.volume(created["id"]), stage.homes(created["id"])) == (volume, [volume])
        assert [workspace["metadata"]["name"] for workspace in box.all("sandboxclaims")].count(created["id"]) == 1
        assert (stage.document(volume) or {})["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        answered(ann, "DELETE", path, 202)
        assert becomes(ann, path, "deleted")
    assert front.refusals > 12
    assert not replica.dead
    replica.close()


def test_a_replica_whose_machine_has_another_time_than_the_server_writes_the_servers(
    stage: Stage, company: Replicas, front: Front
) -> None:
    front.off = timedelta(days=60)
    replica = company.replica(front.kubeconfig()).ready()
    server_time = datetime.now(UTC) + front.off
    with replica.client(company.issuer, "timed") as ann:
        id_ = answered(ann, "POST", "/v1/workspaces", 201, json={"class": stage.box.name}, params=WAIT)["id"]
        leased = answered(ann, "PUT", f"/v1/workspaces/{id_}/leases/agent", 200, json={"mode": "rw", "seconds": 600})
        assert near(leased["leases"][0]["until"], server_time + timedelta(minutes=10))
        assert near(section((stage.claim(id_) or {})["metadata"], "annotations")[LAST_ACTIVE], server_time)
        volume = stage.volume(id_)
        answered(ann, "DELETE", f"/v1/workspaces/{id_}", 202)
        volume_document = stage.api.find(VOLUMES, volume) or {}
        assert near(section(volume_document["metadata"], "annotations")[DELETED_AT], server_time)
        assert becomes(ann, f"/v1/workspaces/{id_}", "deleted")
        # Whoever comes back is seen to by the same time.
        answered(ann, "POST", f"/v1/workspaces/{id_}/resume", 200, 202, params=WAIT)
        assert near(section((stage.claim(id_) or {})["metadata"], "annotations")[LAST_ACTIVE], server_time)
    replica.close()


def near(text: str, expected: datetime) -> bool:
    found = parse_timestamp(text)
    return found is not None and abs(found - expected) < timedelta(minutes=PATIENCE / 60 + 1)


def test_a_table_that_is_throttled_loses_no_row_and_keeps_nobody_waiting_for_it(
    stage: Stage, company: Replicas, ledger: Ledger, world: World
) -> None:
    table = Front.of_table(world.environment["AWS_ENDPOINT_URL"], "PutItem", "Query", "GetItem", "BatchGetItem")
    throttled = Ledger(
        aws.client(
            "dynamodb",
            REGION,
            table.url,
            aws_access_key_id=world.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=world.environment["AWS_SECRET_ACCESS_KEY"],
        ),
        f"ledger-{stage.box.name}",
    )
    replica = company.replica(aws=table.url).ready()
    with replica.client(company.issuer, "throttled") as ann:
        created = answered(ann, "POST", "/v1/workspaces", 201, json={"class": stage.box.name}, params=WAIT)
        owner, claim = created["owner"], (stage.claim(created["id"]) or {})["metadata"]["uid"]
        recorder = LedgerRecorder(stage.api.api, throttled, Meter())
        # More than anybody tries: the pass is given up, and there is nothing of it or what there should be.
        table.refuse(100, THROTTLED)
        with pytest.raises(aws.AwsUnavailableError):
            run(recorder.record_all)
        # At first only: the pass goes through, as often as it is made.
        table.refuse(1, THROTTLED)
        assert until(lambda: run(recorder.record_all) and once(ledger, owner, claim), PATIENCE, every=0.5)
        assert run(recorder.record_all).failures == ()
        assert once(ledger, owner, claim)
        assert table.refusals > 3
        # Whoever takes one away is not kept waiting for good, and not refused.
        table.refuse(100, THROTTLED)
        answered(ann, "DELETE", f"/v1/workspaces/{created['id']}", 202)
        assert becomes(ann, f"/v1/workspaces/{created['id']}", "deleted")
        table.refuse(0, THROTTLED)
        run(LedgerRecorder(stage.api.api, ledger, Meter()).record_all)
        assert once(ledger, owner, claim)
    replica.close()
    table.close()


def once(ledger: Ledger, owner: str, claim: str) -> bool:
    """Return whether a claim has rows, one behind the other."""
    day, now = timedelta(days=1), datetime.now(UTC)
    rows = [row for row in ledger.of_owner(owner, now - day, now + day) if row.claim == claim]
    return bool(rows) and all(earlier.ended == later.began for earlier, later in pairwise(rows))


def test_while_the_api_server_is_gone_everybody_is_told_to_ask_again_and_nothing_is_lost(
    stage: Stage, company: Replicas, world: World, tmp_path: Path
) -> None:
    box = stage.box
    with gate(world.plane.kubeconfig(), tmp_path) as (way, kubeconfig):
        replica = company.replica(kubeconfig).ready()
        with replica.client(company.issuer, "awake") as awake, replica.client(company.issuer, "asleep") as asleep:
            runs = answered(awake, "POST", "/v1/workspaces", 201, json={"class": box.name}, params=WAIT)["id"]
            sleeps = answered(asleep, "POST", "/v1/workspaces", 201, json={"class": box.name}, params=WAIT)["id"]
            answered(asleep, "POST", f"/v1/workspaces/{sleeps}/suspend", 200)
            assert becomes(asleep, f"/v1/workspaces/{sleeps}", "suspended")
        homes = {name: stage.volume(name) for name in (runs, sleeps)}
        uids = {name: (stage.claim(name) or {})["metadata"]["uid"] for name in (runs, sleeps)}
        create: Object = {"json": {"class": box.name}, "params": {"wait": 1}}
        requests: list[tuple[str, str, str, Object]] = [
            ("new", "POST", "/v1/workspaces", create),
            ("awake", "GET", f"/v1/workspaces/{runs}", {}),
            ("awake", "POST", f"/v1/workspaces/{runs}/suspend", {}),
            ("asleep", "POST", f"/v1/workspaces/{sleeps}/resume", {"params": {"wait": 1}}),
            ("asleep", "DELETE", f"/v1/workspaces/{sleeps}", {}),
        ]
        responses: list[httpx2.Response] = []
        way.shut()
        until_ = time.monotonic() + GONE_SECONDS

        def repeat(owner: str, method: str, path: str, more: Object) -> None:
            with replica.client(company.issuer, owner, PATIENCE) as client:
                while time.monotonic() < until_:
                    responses.append(client.request(method, path, **more))

        callers = [threading.Thread(target=repeat, args=row) for row in requests]
        for caller in callers:
            caller.start()
        with replica.client(company.issuer, "awake") as client:
            # What is known is told still, and nobody has a reason to end the process.
            assert [item["id"] for item in answered(client, "GET", "/v1/workspaces", 200)["items"]] == [runs]
            assert client.get("/healthz").status_code == 200
        for caller in callers:
            caller.join(GONE_SECONDS + PATIENCE)
        assert not any(caller.is_alive() for caller in callers)
        assert len(responses) >= len(requests)
        assert {answer.status_code for answer in responses} == {503}, {answer.text for answer in responses}
        for answer in responses:
            assert answer.json()["type"].endswith(":unavailable")
            assert int(answer.headers["Retry-After"]) > 0
        # Nothing of it was done.
        assert {name: (stage.claim(name) or {})["metadata"]["uid"] for name in (runs, sleeps)} == uids
        assert (stage.mode(runs), stage.mode(sleeps)) == ("Running", "Suspended")
        way.open()

        with replica.client(company.issuer, "new") as new:
            created = answered(new, "POST", "/v1/workspaces", 201, json={"class": box.name}, params=WAIT)
            assert [workspace["metadata"]["name"] for workspace in box.all("sandboxclaims")].count(created["id"]) == 1
        with replica.client(company.issuer, "awake") as awake, replica.client(company.issuer, "asleep") as asleep:
            answered(awake, "POST", f"/v1/workspaces/{runs}/suspend", 200)
            assert becomes(awake, f"/v1/workspaces/{runs}", "suspended")
            answered(asleep, "POST", f"/v1/workspaces/{sleeps}/resume", 200, 202, params=WAIT)
            assert becomes(asleep, f"/v1/workspaces/{sleeps}", "running")
            assert {name: stage.volume(name) for name in (runs, sleeps)} == homes
            # What lists are told from is in step again.
            assert until(
                lambda: [workspace["state"] for workspace in listed(awake)] == ["suspended"], PATIENCE, every=0.2
            )
        assert not replica.dead
        replica.close()


def listed(client: httpx2.Client) -> list[Object]:
    return answered(client, "GET", "/v1/workspaces", 200)["items"]
