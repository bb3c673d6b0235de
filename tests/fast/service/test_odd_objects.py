"""Every reader of Kubernetes objects accepts any object; it raises `UnreadableError` at most."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies

from agentenv.core.classes.pools.hours import parse_pool_hours
from agentenv.core.lifecycle.limits import Limits, limits
from agentenv.core.lifecycle.orphaned_storage import Inventory, orphans
from agentenv.core.lifecycle.restore import (
    being_destroyed,
    deletion_patch,
    home_class,
    seconds_until_gone,
    shorten_retention_patch,
)
from agentenv.core.lifecycle.retention import is_in_use, retention_decision
from agentenv.core.values.object_fields import UnreadableError, strings
from agentenv.core.workspaces.home_sizes import due_homes
from agentenv.core.workspaces.records import has_other_owner, workspace_of_claim
from agentenv.core.workspaces.swarms import Swarm, quota_shortfalls
from agentenv.service import home_metering
from agentenv.service.credentials import token_bearer
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import CLAIMS, CONFIGURATIONS, PODS, SANDBOXES, VOLUME_CLAIMS, VOLUMES, Document
from agentenv.service.kube.project_fields import project_fields
from agentenv.service.kube.unreadable import AGAIN_AFTER, MOST_A_MINUTE, Reports, readable
from agentenv.service.kube.view import ClusterView
from agentenv.service.ledger import read_holdings
from agentenv.service.loops import audit, slots
from agentenv.service.workspaces import (
    bind_volume,
    events,
    restore,
    retain_volume,
    retained_homes,
    retire_releases,
    shared_volumes,
    suspend,
    swarm_outcome,
    swarms,
)
from agentenv.service.workspaces.assigned_sandbox import SandboxAssignments
from agentenv.service.workspaces.restore import refuse_destroyed
from tests.fast.odd_objects import ANY, odd
from tests.fast.service.fake_api_server import FakeApiServer, run
from tests.fast.service.ledger import documents
from tests.fast.service.loops.cluster import SPACE, START, Cluster

NOW = START.replace(tzinfo=UTC)


def samples() -> dict[Any, Document]:
    """Return an object of each kind, as they are in a cluster."""
    cluster, ledger = Cluster(), FakeApiServer()
    cluster.workspace("w-1", **{"sandbox.users.io/leases": "[]", "sandbox.users.io/budget": "3"})
    documents.claim(ledger)
    documents.pod(ledger)
    kinds = {kind: document for (kind, _, _), document in (*ledger.objects.items(), *cluster.server.objects.items())}
    for document in kinds.values():
        document["metadata"] |= {"creationTimestamp": "2026-11-18T00:00:00Z", "generation": 1}
        document["metadata"].setdefault("ownerReferences", [{"kind": "SandboxWarmPool", "uid": "u", "name": "n"}])
    annotations = kinds[VOLUMES]["metadata"]["annotations"]
    dates = [f"sandbox.users.io/{key}" for key in ("deleted-at", "destroy-after", "returning-since")]
    annotations |= dict.fromkeys((*dates, home_metering.MEASURED_AT), "2026-11-18T00:00:00Z")
    annotations |= {"sandbox.users.io/moving-to": "other", "sandbox.users.io/hold": "true"}
    kinds[VOLUMES]["metadata"]["labels"] |= {"sandbox.users.io/destroy-requested": "true"}
    annotations |= dict.fromkeys((home_metering.FOUND, home_metering.ENTRIES, read_holdings.MEASURED), "9")
    kinds[PODS]["metadata"]["annotations"] = {"CapacityProvisioned": "0.25vCPU 0.5GB"}
    kinds["pool"] = {
        "metadata": {**kinds[CLAIMS]["metadata"], "annotations": {retire_releases.RETIRING: "2026-11-18T00:00:00Z"}},
        "spec": {"replicas": 3, "sandboxTemplateRef": {"name": "t"}},
        "status": {"readyReplicas": 3, "observedGeneration": 1},
    }
    kinds["pool"]["metadata"]["annotations"] |= {
        swarms.swarm_outcome.REQUESTED_COUNT: "3",
        swarms.swarm_outcome.ASSIGNED_COUNT: "3",
    }
    labels = {key: f"sandbox.users.io/{key}" for key in ("user", "task", "class")}
    task_labels = {labels["user"]: "u-1", labels["task"]: "t-1", labels["class"]: "box"}
    kinds["pool"]["metadata"]["labels"] = {**kinds[CLAIMS]["metadata"]["labels"], **task_labels}
    kinds["shared volume claim"] = deepcopy(kinds[VOLUME_CLAIMS])
    kinds["shared volume claim"]["metadata"] |= {"name": "shared-t-1", "uid": "c-1", "labels": dict(task_labels)}
    kinds["shared volume claim"]["metadata"].pop("ownerReferences")
    kinds["shared volume claim"]["spec"]["volumeName"] = "pv-shared"
    kinds["shared volume"] = deepcopy(kinds[VOLUMES])
    kinds["shared volume"]["metadata"] |= {"name": "pv-shared", "labels": dict(task_labels)}
    kinds["shared volume"]["metadata"]["labels"]["sandbox.users.io/destroy-requested"] = "true"
    kinds["shared volume"]["spec"]["claimRef"] = {"namespace": SPACE, "name": "shared-t-1", "uid": "c-1"}
    kinds["event"] = {
        "metadata": {"creationTimestamp": "2026-11-18T00:00:00Z"},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "series": {"lastObservedTime": "2026-11-18T00:00:00Z", "count": 2},
        "lastTimestamp": "2026-11-18T00:00:00Z",
        "reason": "r",
        "message": "m",
        "count": 1,
    }
    kinds["quota"] = {"status": {"hard": {"pods": "3", "requests.cpu": "4"}, "used": {"pods": "1"}}}
    return kinds


SAMPLES = samples()
SWARM = Swarm(SPACE, "t-1", "u-1", {}, {}, {}, ({"metadata": {"name": "w-1"}},), timedelta(days=30), {})


@dataclass(frozen=True)
class Reader:
    """A function that reads objects of a kind, and what is decided by them."""

    kind: Any
    read: Callable[[Any], object]

    def __str__(self) -> str:
        return self.read.__name__


def put_claim(document: Any) -> None:
    ClusterView().put_claim(document)


def put_volume(document: Any) -> None:
    ClusterView().put_volume(document)


def put_pool(document: Any) -> None:
    ClusterView().put_pool(document)


def put_constraints(document: Any) -> None:
    ClusterView().put_constraints(document)


def put_sandbox(document: Any) -> None:
    SandboxAssignments().put(document)


def decide_retention(document: Any) -> None:
    home = retained_homes.home_of(document)
    is_in_use(home)
    retained_homes._needed_by(home)
    for class_limits_ in (Limits(), limits({"retainDeletedFor": "9" * 10, "sessionRetention": "0"})):
        retention_decision(home, class_limits_, NOW)


def slot_volume(document: Any) -> None:
    slots.is_ours(document)
    inventory = Inventory(volumes=[slots.volume_of(document)], points=[])
    orphans(inventory, NOW)


def slot_volume_claim(document: Any) -> None:
    orphans(Inventory(volume_claims=[slots._volume_claim(document)]), NOW)


def slot_claim(document: Any) -> None:
    row = slots._claim(document)
    if row is not None:
        volume = slots.volume_of(SAMPLES[VOLUMES])
        orphans(Inventory(claims=slots._with_volumes([row], [], [volume]), volumes=[volume]), NOW)


def read_task(document: Any) -> None:
    slots._task(document)


def date_deletion(document: Any) -> None:
    """Decide the dates of a deletion by a volume with odd records, also those of an earlier end."""
    for is_deleting in (False, True):
        for keep_for in (timedelta(0), timedelta(days=30)):
            deletion_patch(document, NOW, NOW, keep_for, going=is_deleting)
            deletion_patch(document, None, NOW, keep_for, going=is_deleting, moving_to="other")
            shorten_retention_patch(document, NOW, keep_for)
    with contextlib.suppress(Problem):
        refuse_destroyed(document, "w-1")
    being_destroyed(document)
    seconds_until_gone(document)
    restore.target_class(document)
    bind_volume.deletion_dates(document)
    bind_volume._retained_again(document)


def reserve_volume(document: Any) -> None:
    server = FakeApiServer()
    server.put(VOLUME_CLAIMS, deepcopy(SAMPLES["shared volume claim"]))
    with contextlib.suppress(bind_volume.RestoreError):
        run(bind_volume.reserve_volume, server, document, SPACE, "shared-t-1", lambda: NOW)


def handle_shared_volume(document: Any) -> None:
    """Handle a shared volume that is odd."""
    claim = SAMPLES["shared volume claim"]
    server: Any = FakeApiServer()
    server.list = lambda *_, **__: iter([document, SAMPLES[VOLUMES]])
    run(shared_volumes.of_task, server, "u-1", "t-1")
    server.find = lambda kind, *_: document if kind is VOLUMES else claim
    server.patch = server.delete = lambda *_: True
    run(shared_volumes.retain, server, claim, {"a": "1"})
    run(shared_volumes.is_retained, server, claim)
    run(shared_volumes.mark_restored, server, claim)
    run(shared_volumes.delete_claim, server, claim, timedelta(days=30), NOW)
    run(swarms.destroy_retained_data, server, "u-1", "t-1", NOW)


def handle_shared_claim(document: Any) -> None:
    """Handle a shared volume whose claim is odd."""
    server: Any = FakeApiServer()
    server.find = lambda kind, *_: SAMPLES["shared volume"] if kind is VOLUMES else document
    server.patch = server.delete = lambda *_: True
    run(retain_volume._shared, server, SPACE, document)
    with contextlib.suppress(bind_volume.RestoreError):
        run(shared_volumes.ensure, server, SAMPLES["shared volume claim"], lambda: NOW)
    run(shared_volumes.mark_restored, server, SAMPLES["shared volume claim"])
    run(shared_volumes.delete_claim, server, document, None, NOW)
    run(shared_volumes.delete_claim, server, document, timedelta(0), NOW)


def check_member(document: Any) -> None:
    swarms._is_marked_retained(document)
    server: Any = FakeApiServer()
    server.find, server.list = lambda *_: document, lambda *_, **__: iter([document])
    with contextlib.suppress(swarms.SwarmError):
        run(swarms._refuse_destroyed, server, SWARM)


def audit_volume(document: Any) -> None:
    audit.audit([audit.volume_of(document, ("fs-1",))], {})


def retain_claim(document: Any) -> None:
    retain_volume.retention_changes(retain_volume.owner_labels(document), SAMPLES[VOLUMES])
    retain_volume._is_marked(document)
    retain_volume._ClassObjects({}, {}, {}).settled_result(project_fields(document, retain_volume.PROJECTED_FIELDS))


def retain_volume_document(document: Any) -> None:
    retain_volume.retention_changes(retain_volume.owner_labels(SAMPLES[CLAIMS]), document)
    retain_volume._Volume.of(document)


def retain_sandbox(document: Any) -> None:
    retain_volume._owned_by(document)


def retain_volume_claim(document: Any) -> None:
    retain_volume._bound_to(document)


def read_pool(document: Any) -> None:
    retire_releases._pool(document, {})


def read_claim(document: Any) -> None:
    retire_releases._claim(document)


def read_limits(document: Any) -> None:
    data = strings(document, "data")
    limits(document.get("data") if isinstance(document.get("data"), dict) else data)
    if (hours := parse_pool_hours(data.get("poolHours", ""))) is not None:
        hours.size_at(NOW)


def measure_volume(document: Any) -> None:
    home_metering._is_home(document, "fs-1")
    due_homes([home_metering._home(document, {"w-1": NOW})], NOW)


def read_measured_bytes(document: Any) -> None:
    server: Any = FakeApiServer()
    server.list = lambda *_: iter([document])
    for size in run(home_metering.measured_bytes, server).values():
        float(size)


def read_budget(document: Any) -> None:
    workspace = workspace_of_claim(document)
    assert workspace is None or workspace.budget is None or workspace.budget >= 0


def read_swarm_outcome(document: Any) -> None:
    swarm_outcome.is_given_up(document)
    swarm_outcome.handed_over_count(document)
    swarm_outcome.requested_count(document)
    swarm_outcome._age(document)


def read_swarm_member(document: Any) -> None:
    swarms._sandbox(document)
    swarms._was_used(document)
    swarms._failures({"w-1": document}, {})


def read_failure(document: Any) -> None:
    server: Any = FakeApiServer()
    server.list = lambda *_: iter([document, SAMPLES["event"]])
    run(swarm_outcome.last_failure, server, ["a"], "task")


def read_event(document: Any) -> None:
    events.event_of(document)


def read_quota(document: Any) -> None:
    quota_shortfalls(document, {"pods": Decimal(1), "requests.cpu": Decimal(1)})


def check_owner(document: Any) -> None:
    has_other_owner(document, "u-1")


def read_home_class(document: Any) -> None:
    home_class(document)


def read_pod(document: Any) -> None:
    token_bearer._addresses(document)
    run(token_bearer._owner, FakeApiServer(), document, SANDBOXES, "Sandbox", SPACE)


def read_deadline(document: Any) -> None:
    token_bearer._ends(document)


def holdings_reader(kind: Any) -> Callable[[Any], object]:
    """Return a reader of all objects that the ledger reads, of which one is odd."""

    def read_all(document: Any) -> None:
        objects: dict[Any, Any] = {**SAMPLES, kind: document}
        kinds = (CLAIMS, SANDBOXES, PODS, VOLUME_CLAIMS, VOLUMES)
        run(read_holdings.holdings, read_holdings.ListedObjects(*([objects[of]] for of in kinds)))

    read_all.__name__ = f"holdings_{kind.kind}"
    return read_all


READERS = [
    *(
        Reader(CLAIMS, reader)
        for reader in (
            put_claim,
            slot_claim,
            retain_claim,
            read_claim,
            read_budget,
            read_swarm_member,
            check_member,
            read_deadline,
        )
    ),
    *(
        Reader(VOLUMES, reader)
        for reader in (put_volume, decide_retention, slot_volume, audit_volume, retain_volume_document, measure_volume)
    ),
    *(
        Reader(VOLUMES, reader)
        for reader in (read_measured_bytes, check_owner, read_home_class, date_deletion, reserve_volume)
    ),
    *(
        Reader("shared volume", reader)
        for reader in (
            put_volume,
            decide_retention,
            slot_volume,
            retain_volume_document,
            reserve_volume,
            handle_shared_volume,
        )
    ),
    *(Reader("shared volume claim", reader) for reader in (slot_volume_claim, handle_shared_claim)),
    *(Reader("pool", reader) for reader in (put_pool, read_pool, read_swarm_outcome, read_task)),
    *(Reader(CONFIGURATIONS, reader) for reader in (put_constraints, read_limits)),
    *(Reader(SANDBOXES, reader) for reader in (put_sandbox, retain_sandbox)),
    *(Reader(VOLUME_CLAIMS, reader) for reader in (slot_volume_claim, retain_volume_claim)),
    Reader("shared volume", holdings_reader(VOLUMES)),
    Reader("event", read_event),
    Reader("event", read_failure),
    Reader("quota", read_quota),
    Reader(PODS, read_pod),
    *(Reader(kind, holdings_reader(kind)) for kind in (CLAIMS, SANDBOXES, PODS, VOLUME_CLAIMS, VOLUMES)),
]


@pytest.fixture(autouse=True, scope="module")
def disable_logging() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("reader", READERS, ids=str)
def test_a_reader_accepts_any_object(reader: Reader) -> None:
    @settings(max_examples=60)
    @given(odd(SAMPLES[reader.kind]))
    def reads_any(document: Any) -> None:
        with contextlib.suppress(UnreadableError):
            reader.read(document)

    reader.read(SAMPLES[reader.kind])
    reads_any()


def review_token(document: Any) -> None:
    class Reviews:
        async def review(self, *_: Any) -> Document:
            return document["status"] if isinstance(document.get("status"), dict) else {}

    with contextlib.suppress(token_bearer.RefusedExchangeError):
        run(token_bearer.verify_token, Reviews(), "token")


REVIEW = {
    "status": {
        "authenticated": True,
        "audiences": [token_bearer.AUDIENCE],
        "user": {
            "username": "system:serviceaccount:sandbox-box:sandbox",
            "extra": {token_bearer._POD_NAME: ["p"], token_bearer._POD_UID: ["u"]},
        },
    }
}


@given(odd(REVIEW))
def test_a_reader_accepts_any_token_review(document: Any) -> None:
    review_token(document)


@given(ANY)
def test_a_sandbox_may_have_any_owners(owners: Any) -> None:
    server = FakeApiServer()
    server.put(SANDBOXES, {"metadata": {"name": "s", "namespace": SPACE, "ownerReferences": owners}})
    claim = {"metadata": {"namespace": SPACE, "uid": "u"}, "status": {"sandbox": {"name": "s"}}}
    assert run(suspend.sandbox_of, server, claim) is None


def test_unreadable_objects_are_left_out_and_named() -> None:
    failures: list[str] = []

    def read(document: Document) -> int:
        return 1 // document["value"]

    documents_: list[Document] = [
        {"metadata": {"namespace": "here", "name": f"o-{value}"}, "value": value} for value in (1, 0, 1)
    ]
    documents_read = run(readable, "Thing", documents_, read, failures, Reports())
    rows = [document["metadata"]["name"] for document, _ in documents_read]
    assert rows == ["o-1", "o-1"]
    assert failures == ["Thing here/o-0 cannot be read: ZeroDivisionError"]


@given(strategies.lists(strategies.sampled_from("abcdefgh"), max_size=400))
def test_reports_of_unreadable_objects_are_bounded(names: list[str]) -> None:
    now, lines = [0.0], list[logging.LogRecord]()
    reports = Reports(lambda: now[0])
    logging.disable(logging.NOTSET)
    handler = logging.Handler()
    handler.emit = lines.append  # type: ignore[method-assign]
    logger = logging.getLogger("agentenv.service.kube.unreadable")
    logger.addHandler(handler)
    try:
        for name in names:
            reports.report("Thing", ("here", name), ValueError("content"))
        assert len(lines) == len(set(names))
        for number in range(1000):
            reports.report("Other", ("here", str(number)), ValueError("content"))
        assert len(lines) == MOST_A_MINUTE
        now[0] += AGAIN_AFTER
        reports.report("Thing", ("here", "a"), ValueError("content"))
    finally:
        logger.removeHandler(handler)
        logging.disable()
    assert len(lines) == MOST_A_MINUTE + 1
    assert lines[-1].__dict__["facts"]["omitted"] == 1000 - (MOST_A_MINUTE - len(set(names)))
    assert not any("content" in str(document.__dict__) for document in lines)
