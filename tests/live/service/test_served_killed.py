"""The service survives `kill -9` after each of its writes to the API server and to the ledger.

Each time the request is repeated at another replica, as callers without a response do. Each time the same holds: there
is one claim with one retained home, the operation is finished, and the ledger has it once.
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
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT, condition
from tests.live.service.blocking import Blocking, run
from tests.live.service.conftest import IMAGES, LiveClass
from tests.live.service.fault_proxy import FaultProxy
from tests.live.service.lifecycle import Lifecycle
from tests.live.service.replicas import Replica, ReplicaConfig, Replicas
from tests.live.service.test_api_live import VETTED

Object = dict[str, Any]
# more writes than any request needs
MOST = 12


@dataclass
class KillCase:
    """A class, a replica that survives, and replicas that are killed."""

    lifecycle: Lifecycle
    replica_group: Replicas
    survivor: Replica
    cluster: FaultProxy
    table: FaultProxy
    ledger: Ledger

    @property
    def live_class(self) -> LiveClass:
        return self.lifecycle.live_class

    def killable_replica(self) -> Replica:
        """Return a ready replica that reaches the API server and AWS through the proxies."""
        there = next(
            (
                replica
                for replica in self.replica_group.replicas
                if replica is not self.survivor and not replica.has_ended
            ),
            None,
        )
        return (there or self.replica_group.replica(self.cluster.kubeconfig(), self.table.url)).ready()

    def request(self, replica: Replica, owner: str, method: str, path: str, **more: Any) -> Object | None:
        """Return the response to a request; None if the replica was killed."""
        with replica.client(self.replica_group.issuer, owner) as client:
            try:
                answer = client.request(method, path, **more)
            except httpx2.TransportError:
                assert until(lambda: replica.has_ended, TIMEOUT)
                return None
        assert answer.status_code < 300, (answer.text, replica.log_tail)
        return answer.json()

    def request_twice(
        self, fault_proxy: FaultProxy, step: int, owner: str, method: str, path: str, **more: Any
    ) -> bool:
        """Send to a replica that is killed after its nth write, then to the survivor; return whether it died."""
        replica = self.killable_replica()
        fault_proxy.end_after(step, replica.kill)
        answered = self.request(replica, owner, method, path, **more) is not None
        again = self.request(self.survivor, owner, method, path, **more)
        assert again is not None
        return not answered or replica.has_ended

    def create_workspace(self, owner: str) -> str:
        """Create a running workspace, and return its name."""
        created = self.request(
            self.survivor, owner, "POST", "/v1/workspaces", json={"class": self.live_class.name}, params=WAIT
        )
        assert created is not None
        assert created["state"] == "running"
        # A read of a claim without the mark writes it, which would be another write.
        assert until(lambda: has_mark(self, created["id"]), TIMEOUT)
        return str(created["id"])

    def becomes(self, owner: str, name: str, state: str) -> bool:
        """Return whether a workspace reaches a state."""

        def is_() -> bool:
            found = self.request(self.survivor, owner, "GET", f"/v1/workspaces/{name}")
            return found is not None and found["state"] == state

        return bool(until(is_, TIMEOUT, every=0.1))

    def check_exists_once(self, name: str, volume: str) -> None:
        """Check that a workspace exists once, with one retained home."""
        assert [claim["metadata"]["name"] for claim in self.live_class.all("sandboxclaims")].count(name) == 1
        assert (self.lifecycle.volume(name), self.lifecycle.homes(name)) == (volume, [volume])
        assert (self.lifecycle.document(volume) or {})["spec"]["persistentVolumeReclaimPolicy"] == "Retain"

    def rows(self, owner: str) -> list[Row]:
        """Return the rows of an owner in the ledger, in their order."""
        day = timedelta(days=1)
        return self.ledger.of_owner(owner, datetime.now(UTC) - day, datetime.now(UTC) + day)


WAIT = {"wait": 60}


@pytest.fixture(scope="module")
def case(
    live: LiveCluster, cluster_client: Client, file_system: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KillCase]:
    api = Blocking.from_kubeconfig(live.plane.kubeconfig())
    live_class = LiveClass(
        f"box{uuid.uuid4().hex[:6]}", cluster_client, api, file_system, max_sandboxes=30, extra_settings=VETTED
    )
    pool = live_class.deploy(IMAGES[0])
    name = f"ledger-{live_class.name}"
    live.aws("dynamodb").create_table(**create_table(name))
    folder = tmp_path_factory.mktemp("killed")
    issuer = FakeIssuer()
    cluster = FaultProxy.of_cluster(live.plane.kubeconfig(), folder)
    table = FaultProxy.of_table(live.environment["AWS_ENDPOINT_URL"], "PutItem")
    config = ReplicaConfig(live.plane.kubeconfig(), issuer.url, [live_class.class_settings()], table=name)
    replica_group = Replicas(config, live.environment, issuer, folder)
    try:
        survivor = replica_group.replica()
        assert until(lambda: live_class.is_full(pool), TIMEOUT)
        ledger = Ledger(live.aws("dynamodb"), name)
        yield KillCase(Lifecycle(live_class, live), replica_group, survivor.ready(), cluster, table, ledger)
    finally:
        replica_group.close()
        for fault_proxy in (cluster, table):
            fault_proxy.close()
        issuer.close()
        cluster_client.delete(f"/api/v1/namespaces/{live_class.namespace}")
        api.close()


def test_create_survives_a_kill_after_each_write(case: KillCase) -> None:
    step, created = 0, 0
    while step < MOST:
        step += 1
        owner = f"maker-{step}"
        request: Object = {"json": {"class": case.live_class.name}, "params": WAIT}
        replica = case.killable_replica()
        case.cluster.end_after(step, replica.kill)
        answer = case.request(replica, owner, "POST", "/v1/workspaces", **request)
        # The mark on the claim is written after the response.
        assert answer is None or until(
            lambda answer=answer, killable_replica=replica: killable_replica.has_ended or has_mark(case, answer["id"]),
            TIMEOUT,
        )
        again = case.request(case.survivor, owner, "POST", "/v1/workspaces", **request)
        assert again is not None
        assert (again["state"], answer is None or answer["id"] == again["id"]) == ("running", True)
        case.check_exists_once(again["id"], case.lifecycle.volume(again["id"]))
        assert case.lifecycle.done_by_loops(lambda again=again: has_mark(case, again["id"]))
        created += 1
        # A create has at least three writes; a replica that survives later has made no further one.
        if not until(lambda killable_replica=replica: killable_replica.has_ended, TIMEOUT if step < 4 else 2.0):
            break
    # The claim, its volume, and the mark
    assert step >= 4
    # No other sandbox was claimed
    assert until(lambda: len(case.live_class.all("sandboxes", SANDBOXES)) == created + case.live_class.size, TIMEOUT)


def test_suspend_and_resume_survive_a_kill_after_each_write(case: KillCase) -> None:
    owner = "sleeper"
    name = case.create_workspace(owner)
    volume = case.lifecycle.volume(name)
    for action, state, mode in (("suspend", "suspended", "Suspended"), ("resume", "running", "Running")):
        is_restored = {"suspend": "resume", "resume": "suspend"}[action]
        step = 0
        while step < MOST:
            step += 1
            if case.lifecycle.mode(name) == mode:
                was = {"resume": "running", "suspend": "suspended"}[is_restored]
                case.request(
                    case.survivor,
                    owner,
                    "POST",
                    f"/v1/workspaces/{name}/{is_restored}",
                    params=wait_params(is_restored),
                )
                assert case.becomes(owner, name, was)
            killed = case.request_twice(
                case.cluster, step, owner, "POST", f"/v1/workspaces/{name}/{action}", params=wait_params(action)
            )
            assert case.becomes(owner, name, state)
            assert case.lifecycle.mode(name) == mode
            assert (SUSPENDED_BECAUSE in case.lifecycle.notes(name)) == (state == "suspended")
            case.check_exists_once(name, volume)
            if not killed:
                break
        # The reason, and the sandbox
        assert step == 3, action


def test_delete_survives_a_kill_after_each_write(case: KillCase) -> None:
    step = 0
    while step < MOST:
        step += 1
        killed = deletes_with_ledger_row(case, f"leaver-{step}", case.cluster, step)
        if not killed:
            break
    # The volume, and the claim
    assert step == 3


def test_delete_survives_a_kill_after_the_last_ledger_row(case: KillCase) -> None:
    assert deletes_with_ledger_row(case, "writer", case.table, 1)


def deletes_with_ledger_row(case: KillCase, owner: str, fault_proxy: FaultProxy, step: int) -> bool:
    """Delete a workspace at a replica, check that its data stays, and return whether the replica was killed."""
    name = case.create_workspace(owner)
    volume, claim = case.lifecycle.volume(name), (case.lifecycle.claim(name) or {})["metadata"]["uid"]
    label = (case.lifecycle.document(volume) or {})["metadata"]["labels"]["sandbox.users.io/user"]
    # It has usage of at least a second
    assert until(lambda: has_usage(case, name), TIMEOUT)
    killed = case.request_twice(fault_proxy, step, owner, "DELETE", f"/v1/workspaces/{name}")
    assert case.becomes(owner, name, "deleted")
    assert until(lambda: case.lifecycle.phase(volume) == "Released", TIMEOUT)
    volume_document = case.lifecycle.document(volume) or {}
    assert volume_document["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert (case.lifecycle.homes(name), case.lifecycle.claim(name)) == ([volume], None)
    # The ledger has its usage once, until its deletion.
    run(LedgerRecorder(case.lifecycle.api.api, case.ledger, Meter()).record_all)
    rows = [row for row in case.rows(label) if row.claim == claim]
    assert rows
    assert all(row.closed for row in rows)
    assert all(earlier.ended == later.began for earlier, later in pairwise(rows))
    deleted_at = parse_timestamp(volume_document["metadata"]["annotations"][DELETED_AT])
    assert deleted_at is not None
    # Rows have whole seconds
    assert rows[-1].ended == deleted_at.replace(microsecond=0)
    return killed


def has_usage(case: KillCase, name: str) -> bool:
    """Return whether a workspace has been claimed for longer than the ledger's resolution."""
    claimed = parse_timestamp((case.lifecycle.claim(name) or {})["metadata"]["creationTimestamp"])
    pod = case.live_class.client.find(
        f"/api/v1/namespaces/{case.live_class.namespace}/pods/{case.lifecycle.sandbox(name)}"
    )
    placed = parse_timestamp(condition(pod, "PodScheduled").get("lastTransitionTime"))
    if claimed is None or placed is None:
        return False
    return datetime.now(UTC) - max(claimed, placed) > timedelta(seconds=3)


def has_mark(case: KillCase, name: str) -> bool:
    return case.lifecycle.notes(name).get(VOLUME_RETAINED) == "true"


def wait_params(action: str) -> dict[str, int]:
    return WAIT if action == "resume" else {}


SANDBOXES = "/apis/agents.x-k8s.io/v1beta1"
