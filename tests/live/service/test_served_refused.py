"""The service as a process, with an API server that refuses each change at first, or is unreachable for a while.

Requests succeed, or have a `Retry-After`; nothing is lost, and nothing exists twice.
"""

from __future__ import annotations

import threading
import time
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
from tests.live.conftest import REGION, LiveCluster
from tests.live.controlplane.objects import TIMEOUT
from tests.live.service.blocking import run
from tests.live.service.conftest import own_class
from tests.live.service.fault_proxy import CONFLICT, THROTTLED, TOO_MANY, Answer, FaultProxy
from tests.live.service.lifecycle import Lifecycle
from tests.live.service.relayed import relayed
from tests.live.service.replicas import ReplicaConfig, Replicas
from tests.live.service.test_api_live import VETTED

if TYPE_CHECKING:
    import httpx2

Object = dict[str, Any]
WAIT = {"wait": 60}
GONE_SECONDS = 30.0


@pytest.fixture(scope="module")
def lifecycle(live: LiveCluster, cluster_client: Client, file_system: str) -> Iterator[Lifecycle]:
    """One class for all tests, each with owners of its own."""
    with own_class(live, cluster_client, file_system, max_sandboxes=30, extra_settings=VETTED) as live_class:
        live_class.deploy_until_full()
        yield Lifecycle(live_class, live)


@pytest.fixture(scope="module")
def ledger(live: LiveCluster, lifecycle: Lifecycle) -> Ledger:
    name = f"ledger-{lifecycle.live_class.name}"
    live.aws("dynamodb").create_table(**create_table(name))
    return Ledger(live.aws("dynamodb"), name)


@pytest.fixture(scope="module")
def replica_group(
    live: LiveCluster, lifecycle: Lifecycle, ledger: Ledger, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replicas]:
    assert ledger
    issuer = FakeIssuer()
    config = ReplicaConfig(
        live.plane.kubeconfig(),
        issuer.url,
        [lifecycle.live_class.class_settings()],
        table=f"ledger-{lifecycle.live_class.name}",
    )
    replicas = Replicas(config, live.environment, issuer, tmp_path_factory.mktemp("refused"))
    yield replicas
    replicas.close()
    issuer.close()


@pytest.fixture
def fault_proxy(live: LiveCluster, tmp_path: Path) -> Iterator[FaultProxy]:
    fault_proxy_ = FaultProxy.of_cluster(live.plane.kubeconfig(), tmp_path)
    yield fault_proxy_
    fault_proxy_.close()


def answered(client: httpx2.Client, method: str, path: str, *codes: int, **more: Any) -> Object:
    answer = client.request(method, path, **more)
    assert answer.status_code in codes, f"{method} {path}: {answer.status_code} {answer.text}"
    return answer.json()


def becomes(client: httpx2.Client, path: str, state: str) -> bool:
    return bool(until(lambda: answered(client, "GET", path, 200)["state"] == state, TIMEOUT, every=0.1))


@pytest.mark.parametrize(("answer", "times"), [(TOO_MANY, 1), (CONFLICT, 2)], ids=["429", "409"])
def test_refused_changes_are_retried_and_applied_once(
    lifecycle: Lifecycle, replica_group: Replicas, fault_proxy: FaultProxy, answer: Answer, times: int
) -> None:
    replica = replica_group.replica(fault_proxy.kubeconfig()).ready()
    live_class = lifecycle.live_class
    with replica.client(replica_group.issuer, f"refused-{answer.code}") as ann:
        fault_proxy.refuse(times, answer)
        created = answered(ann, "POST", "/v1/workspaces", 201, json={"class": live_class.name}, params=WAIT)
        path, volume = f"/v1/workspaces/{created['id']}", lifecycle.volume(created["id"])
        assert (created["state"], lifecycle.homes(created["id"])) == ("running", [volume])
        answered(ann, "PATCH", path, 200, json={"labels": {"a": "b"}})
        answered(ann, "PUT", f"{path}/leases/agent", 200, json={"mode": "rw"})
        answered(ann, "DELETE", f"{path}/leases/agent", 200)
        answered(ann, "POST", f"{path}/suspend", 200)
        assert becomes(ann, path, "suspended")
        answered(ann, "POST", f"{path}/resume", 200, 202, params=WAIT)
        assert becomes(ann, path, "running")
        answered(ann, "DELETE", path, 202)
        assert becomes(ann, path, "deleted")
        # Restored by threads, whose client does not retry by itself
        answered(ann, "POST", f"{path}/resume", 200, 201, 202, params=WAIT)
        assert becomes(ann, path, "running")
        assert (lifecycle.volume(created["id"]), lifecycle.homes(created["id"])) == (volume, [volume])
        assert [workspace["metadata"]["name"] for workspace in live_class.all("sandboxclaims")].count(
            created["id"]
        ) == 1
        assert (lifecycle.document(volume) or {})["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        answered(ann, "DELETE", path, 202)
        assert becomes(ann, path, "deleted")
    assert fault_proxy.refusals > 12
    assert not replica.has_ended
    replica.close()


def test_replica_with_clock_skew_writes_the_servers_time(
    lifecycle: Lifecycle, replica_group: Replicas, fault_proxy: FaultProxy
) -> None:
    fault_proxy.off = timedelta(days=60)
    replica = replica_group.replica(fault_proxy.kubeconfig()).ready()
    server_time = datetime.now(UTC) + fault_proxy.off
    with replica.client(replica_group.issuer, "timed") as ann:
        id_ = answered(ann, "POST", "/v1/workspaces", 201, json={"class": lifecycle.live_class.name}, params=WAIT)["id"]
        leased = answered(ann, "PUT", f"/v1/workspaces/{id_}/leases/agent", 200, json={"mode": "rw", "seconds": 600})
        assert near(leased["leases"][0]["until"], server_time + timedelta(minutes=10))
        assert near(section((lifecycle.claim(id_) or {})["metadata"], "annotations")[LAST_ACTIVE], server_time)
        volume = lifecycle.volume(id_)
        answered(ann, "DELETE", f"/v1/workspaces/{id_}", 202)
        volume_document = lifecycle.api.find(VOLUMES, volume) or {}
        assert near(section(volume_document["metadata"], "annotations")[DELETED_AT], server_time)
        assert becomes(ann, f"/v1/workspaces/{id_}", "deleted")
        # A restoration has the server's time, too.
        answered(ann, "POST", f"/v1/workspaces/{id_}/resume", 200, 202, params=WAIT)
        assert near(section((lifecycle.claim(id_) or {})["metadata"], "annotations")[LAST_ACTIVE], server_time)
    replica.close()


def near(text: str, expected: datetime) -> bool:
    found = parse_timestamp(text)
    return found is not None and abs(found - expected) < timedelta(minutes=TIMEOUT / 60 + 1)


def test_throttled_table_loses_no_row_and_delays_no_request(
    lifecycle: Lifecycle, replica_group: Replicas, ledger: Ledger, live: LiveCluster
) -> None:
    table = FaultProxy.of_table(live.environment["AWS_ENDPOINT_URL"], "PutItem", "Query", "GetItem", "BatchGetItem")
    throttled = Ledger(
        aws.client(
            "dynamodb",
            REGION,
            table.url,
            aws_access_key_id=live.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=live.environment["AWS_SECRET_ACCESS_KEY"],
        ),
        f"ledger-{lifecycle.live_class.name}",
    )
    replica = replica_group.replica(aws=table.url).ready()
    with replica.client(replica_group.issuer, "throttled") as ann:
        created = answered(ann, "POST", "/v1/workspaces", 201, json={"class": lifecycle.live_class.name}, params=WAIT)
        owner, claim = created["owner"], (lifecycle.claim(created["id"]) or {})["metadata"]["uid"]
        recorder = LedgerRecorder(lifecycle.api.api, throttled, Meter())
        # More often than the client retries: the pass fails
        table.refuse(100, THROTTLED)
        with pytest.raises(aws.AwsUnavailableError):
            run(recorder.record_all)
        # Once: the pass succeeds, also when it is repeated
        table.refuse(1, THROTTLED)
        assert until(
            lambda: run(recorder.record_all) and has_consecutive_rows(ledger, owner, claim), TIMEOUT, every=0.5
        )
        assert run(recorder.record_all).failures == ()
        assert has_consecutive_rows(ledger, owner, claim)
        assert table.refusals > 3
        # A deletion neither waits for the table nor fails
        table.refuse(100, THROTTLED)
        answered(ann, "DELETE", f"/v1/workspaces/{created['id']}", 202)
        assert becomes(ann, f"/v1/workspaces/{created['id']}", "deleted")
        table.refuse(0, THROTTLED)
        run(LedgerRecorder(lifecycle.api.api, ledger, Meter()).record_all)
        assert has_consecutive_rows(ledger, owner, claim)
    replica.close()
    table.close()


def has_consecutive_rows(ledger: Ledger, owner: str, claim: str) -> bool:
    """Return whether a claim has consecutive rows."""
    day, now = timedelta(days=1), datetime.now(UTC)
    rows = [row for row in ledger.of_owner(owner, now - day, now + day) if row.claim == claim]
    return bool(rows) and all(earlier.ended == later.began for earlier, later in pairwise(rows))


def test_requests_are_retryable_while_the_api_server_is_unreachable(
    lifecycle: Lifecycle, replica_group: Replicas, live: LiveCluster, tmp_path: Path
) -> None:
    live_class = lifecycle.live_class
    with relayed(live.plane.kubeconfig(), tmp_path) as (relay, kubeconfig):
        replica = replica_group.replica(kubeconfig).ready()
        with (
            replica.client(replica_group.issuer, "awake") as awake,
            replica.client(replica_group.issuer, "asleep") as is_suspended,
        ):
            runs = answered(awake, "POST", "/v1/workspaces", 201, json={"class": live_class.name}, params=WAIT)["id"]
            sleeps = answered(
                is_suspended, "POST", "/v1/workspaces", 201, json={"class": live_class.name}, params=WAIT
            )["id"]
            answered(is_suspended, "POST", f"/v1/workspaces/{sleeps}/suspend", 200)
            assert becomes(is_suspended, f"/v1/workspaces/{sleeps}", "suspended")
        homes = {name: lifecycle.volume(name) for name in (runs, sleeps)}
        uids = {name: (lifecycle.claim(name) or {})["metadata"]["uid"] for name in (runs, sleeps)}
        create: Object = {"json": {"class": live_class.name}, "params": {"wait": 1}}
        requests: list[tuple[str, str, str, Object]] = [
            ("new", "POST", "/v1/workspaces", create),
            ("awake", "GET", f"/v1/workspaces/{runs}", {}),
            ("awake", "POST", f"/v1/workspaces/{runs}/suspend", {}),
            ("asleep", "POST", f"/v1/workspaces/{sleeps}/resume", {"params": {"wait": 1}}),
            ("asleep", "DELETE", f"/v1/workspaces/{sleeps}", {}),
        ]
        responses: list[httpx2.Response] = []
        relay.cut()
        until_ = time.monotonic() + GONE_SECONDS

        def repeat(owner: str, method: str, path: str, more: Object) -> None:
            with replica.client(replica_group.issuer, owner, TIMEOUT) as client:
                while time.monotonic() < until_:
                    responses.append(client.request(method, path, **more))

        callers = [threading.Thread(target=repeat, args=row) for row in requests]
        for caller in callers:
            caller.start()
        with replica.client(replica_group.issuer, "awake") as client:
            # The cache still answers, and the process is healthy.
            assert [item["id"] for item in answered(client, "GET", "/v1/workspaces", 200)["items"]] == [runs]
            assert client.get("/healthz").status_code == 200
        for caller in callers:
            caller.join(GONE_SECONDS + TIMEOUT)
        assert not any(caller.is_alive() for caller in callers)
        assert len(responses) >= len(requests)
        assert {answer.status_code for answer in responses} == {503}, {answer.text for answer in responses}
        for answer in responses:
            assert answer.json()["type"].endswith(":unavailable")
            assert int(answer.headers["Retry-After"]) > 0
        # Nothing was changed
        assert {name: (lifecycle.claim(name) or {})["metadata"]["uid"] for name in (runs, sleeps)} == uids
        assert (lifecycle.mode(runs), lifecycle.mode(sleeps)) == ("Running", "Suspended")
        relay.restore()

        with replica.client(replica_group.issuer, "new") as new:
            created = answered(new, "POST", "/v1/workspaces", 201, json={"class": live_class.name}, params=WAIT)
            assert [workspace["metadata"]["name"] for workspace in live_class.all("sandboxclaims")].count(
                created["id"]
            ) == 1
        with (
            replica.client(replica_group.issuer, "awake") as awake,
            replica.client(replica_group.issuer, "asleep") as is_suspended,
        ):
            answered(awake, "POST", f"/v1/workspaces/{runs}/suspend", 200)
            assert becomes(awake, f"/v1/workspaces/{runs}", "suspended")
            answered(is_suspended, "POST", f"/v1/workspaces/{sleeps}/resume", 200, 202, params=WAIT)
            assert becomes(is_suspended, f"/v1/workspaces/{sleeps}", "running")
            assert {name: lifecycle.volume(name) for name in (runs, sleeps)} == homes
            # The cache is in sync again
            assert until(
                lambda: [workspace["state"] for workspace in listed(awake)] == ["suspended"], TIMEOUT, every=0.2
            )
        assert not replica.has_ended
        replica.close()


def listed(client: httpx2.Client) -> list[Object]:
    return answered(client, "GET", "/v1/workspaces", 200)["items"]
