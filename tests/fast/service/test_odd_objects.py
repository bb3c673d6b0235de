"""Every reader of Kubernetes objects takes any object: what it cannot read is `UnreadableError`, and nothing else."""

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
from hypothesis import given, settings
from hypothesis import strategies as some

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
from agentenv.core.workspaces.swarms import Swarm, quota_shortfalls
from agentenv.service import home_metering as metering
from agentenv.service.credentials import token_bearer as bearer
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import CLAIMS, CONFIGURATIONS, PODS, SANDBOXES, VOLUME_CLAIMS, VOLUMES, Document
from agentenv.service.kube.project_fields import project_fields
from agentenv.service.kube.unreadable import AGAIN_AFTER, MOST_A_MINUTE, Reports, readable
from agentenv.service.kube.view import ClusterView
from agentenv.service.ledger import budgets
from agentenv.service.ledger import read_holdings as facts
from agentenv.service.loops import audit, retention, slots
from agentenv.service.workspaces import bind_volume as binding
from agentenv.service.workspaces import eager_retention as handing
from agentenv.service.workspaces import events as happenings
from agentenv.service.workspaces import restore as returning
from agentenv.service.workspaces import retain_volume as keeping
from agentenv.service.workspaces import retire_releases as releases
from agentenv.service.workspaces import shared_volumes, swarm_events, swarm_outcome, swarms
from agentenv.service.workspaces import suspend as sleeping
from agentenv.service.workspaces.assigned_sandbox import SandboxAssignments
from agentenv.service.workspaces.restore_protocol import refuse_destroyed
from tests.fast.odd_objects import ANY, odd
from tests.fast.service.fake_api_server import FakeApiServer as Server
from tests.fast.service.fake_api_server import run
from tests.fast.service.ledger import documents
from tests.fast.service.loops.cluster import SPACE, START, House

NOW = START.replace(tzinfo=UTC)


def held() -> dict[Any, Document]:
    """Return an object of each kind, as the cluster has them."""
    house, ledger = House(), Server()
    house.workspace("w-1", **{"sandbox.users.io/leases": "[]", "sandbox.users.io/budget": "3"})
    documents.claim(ledger)
    documents.pod(ledger)
    kinds = {kind: one for (kind, _, _), one in (*ledger.objects.items(), *house.shelf.objects.items())}
    for one in kinds.values():
        one["metadata"] |= {"creationTimestamp": "2026-11-18T00:00:00Z", "generation": 1}
        one["metadata"].setdefault("ownerReferences", [{"kind": "SandboxWarmPool", "uid": "u", "name": "n"}])
    notes = kinds[VOLUMES]["metadata"]["annotations"]
    dates = [f"sandbox.users.io/{key}" for key in ("deleted-at", "destroy-after", "returning-since")]
    notes |= dict.fromkeys((*dates, metering.MEASURED_AT), "2026-11-18T00:00:00Z")
    notes |= {"sandbox.users.io/moving-to": "other", "sandbox.users.io/hold": "true"}
    kinds[VOLUMES]["metadata"]["labels"] |= {"sandbox.users.io/destroy-requested": "true"}
    notes |= dict.fromkeys((metering.FOUND, metering.ENTRIES, facts.MEASURED), "9")
    kinds[PODS]["metadata"]["annotations"] = {"CapacityProvisioned": "0.25vCPU 0.5GB"}
    kinds["pool"] = {
        "metadata": {**kinds[CLAIMS]["metadata"], "annotations": {releases.RETIRING: "2026-11-18T00:00:00Z"}},
        "spec": {"replicas": 3, "sandboxTemplateRef": {"name": "t"}},
        "status": {"readyReplicas": 3, "observedGeneration": 1},
    }
    kinds["pool"]["metadata"]["annotations"] |= {
        swarms.swarm_outcome.REQUESTED_COUNT: "3",
        swarms.swarm_outcome.ASSIGNED_COUNT: "3",
    }
    shared = {key: f"sandbox.users.io/{key}" for key in ("user", "task", "class")}
    of_task = {shared["user"]: "u-1", shared["task"]: "t-1", shared["class"]: "box"}
    kinds["pool"]["metadata"]["labels"] = {**kinds[CLAIMS]["metadata"]["labels"], **of_task}
    kinds["shared volume claim"] = deepcopy(kinds[VOLUME_CLAIMS])
    kinds["shared volume claim"]["metadata"] |= {"name": "shared-t-1", "uid": "c-1", "labels": dict(of_task)}
    kinds["shared volume claim"]["metadata"].pop("ownerReferences")
    kinds["shared volume claim"]["spec"]["volumeName"] = "pv-shared"
    kinds["shared volume"] = deepcopy(kinds[VOLUMES])
    kinds["shared volume"]["metadata"] |= {"name": "pv-shared", "labels": dict(of_task)}
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


SAMPLES = held()
SWARM = Swarm(SPACE, "t-1", "u-1", {}, {}, {}, ({"metadata": {"name": "w-1"}},), timedelta(days=30), {})


@dataclass(frozen=True)
class Reader:
    """A reader of objects of a kind, and what is decided by what it read."""

    kind: Any
    read: Callable[[Any], object]

    def __str__(self) -> str:
        return self.read.__name__


def put_claim(one: Any) -> None:
    ClusterView().put_claim(one)


def put_volume(one: Any) -> None:
    ClusterView().put_volume(one)


def put_pool(one: Any) -> None:
    ClusterView().put_pool(one)


def put_constraints(one: Any) -> None:
    ClusterView().put_constraints(one)


def adopted(one: Any) -> None:
    SandboxAssignments().put(one)


def becomes(one: Any) -> None:
    home = retention.home_of(one)
    is_in_use(home)
    retention._needed_by(home)
    for known in (Limits(), limits({"retainDeletedFor": "9" * 10, "sessionRetention": "0"})):
        retention_decision(home, known, NOW)


def slot_volume(one: Any) -> None:
    slots.is_ours(one)
    shelf = Inventory(volumes=[slots.volume_of(one)], points=[])
    orphans(shelf, NOW)


def slot_volume_claim(one: Any) -> None:
    orphans(Inventory(volume_claims=[slots._volume_claim(one)]), NOW)


def slot_claim(one: Any) -> None:
    row = slots._claim(one)
    if row is not None:
        volume = slots.volume_of(SAMPLES[VOLUMES])
        orphans(Inventory(claims=slots._with_volumes([row], [], [volume]), volumes=[volume]), NOW)


def with_task(one: Any) -> None:
    slots._task(one)


def date_of(one: Any) -> None:
    """Decide the dates of a deletion that an odd volume may have recorded, and write those of a sooner end."""
    for going in (False, True):
        for keep_for in (timedelta(0), timedelta(days=30)):
            deletion_patch(one, NOW, NOW, keep_for, going=going)
            deletion_patch(one, None, NOW, keep_for, going=going, moving_to="other")
            shorten_retention_patch(one, NOW, keep_for)
    with contextlib.suppress(Problem):
        refuse_destroyed(one, "w-1")
    being_destroyed(one)
    seconds_until_gone(one)
    returning.target_class(one)
    binding.deletion_dates(one)
    binding._retained_again(one)


def led(one: Any) -> None:
    server = Server()
    server.put(VOLUME_CLAIMS, deepcopy(SAMPLES["shared volume claim"]))
    with contextlib.suppress(binding.RestoreError):
        run(binding.reserve_volume, server, one, SPACE, "shared-t-1", lambda: NOW)


def volume_of_task(one: Any) -> None:
    """See to what a task shares where its volume is odd."""
    claim = SAMPLES["shared volume claim"]
    server: Any = Server()
    server.list = lambda *_, **__: iter([one, SAMPLES[VOLUMES]])
    run(shared_volumes.of_task, server, "u-1", "t-1")
    server.find = lambda kind, *_: one if kind is VOLUMES else claim
    server.patch = server.delete = lambda *_: True
    run(shared_volumes.retain, server, claim, {"a": "1"})
    run(shared_volumes.is_retained, server, claim)
    run(shared_volumes.mark_restored, server, claim)
    run(shared_volumes.delete_claim, server, claim, timedelta(days=30), NOW)
    run(swarms.destroy_retained_data, server, "u-1", "t-1", NOW)


def claim_of_task(one: Any) -> None:
    """See to what a task shares where the claim of its volume is odd."""
    server: Any = Server()
    server.find = lambda kind, *_: SAMPLES["shared volume"] if kind is VOLUMES else one
    server.patch = server.delete = lambda *_: True
    run(keeping._shared, server, SPACE, one)
    with contextlib.suppress(binding.RestoreError):
        run(shared_volumes.ensure, server, SAMPLES["shared volume claim"], lambda: NOW)
    run(shared_volumes.mark_restored, server, SAMPLES["shared volume claim"])
    run(shared_volumes.delete_claim, server, one, None, NOW)
    run(shared_volumes.delete_claim, server, one, timedelta(0), NOW)


def left_member(one: Any) -> None:
    swarms._is_marked_retained(one)
    server: Any = Server()
    server.find, server.list = lambda *_: one, lambda *_, **__: iter([one])
    with contextlib.suppress(swarms.SwarmError):
        run(swarms._refuse_destroyed, server, SWARM)


def audited(one: Any) -> None:
    audit.audit([audit.volume_of(one, ("fs-1",))], {})


def kept(one: Any) -> None:
    keeping._changes(one, SAMPLES[VOLUMES])
    keeping._is_marked(one)
    keeping._ClassObjects({}, {}, {}).settled_result(project_fields(one, keeping.PROJECTED_FIELDS))


def kept_volume(one: Any) -> None:
    keeping._changes(SAMPLES[CLAIMS], one)
    keeping._Volume.of(one)


def kept_sandbox(one: Any) -> None:
    keeping._owned_by(one)


def kept_volume_claim(one: Any) -> None:
    keeping._bound_to(one)


def released_pool(one: Any) -> None:
    releases._pool(one, {})


def released_claim(one: Any) -> None:
    releases._claim(one)


def class_limits(one: Any) -> None:
    data = strings(one, "data")
    limits(one.get("data") if isinstance(one.get("data"), dict) else data)
    if (hours := parse_pool_hours(data.get("poolHours", ""))) is not None:
        hours.size_at(NOW)


def measured(one: Any) -> None:
    metering._is_home(one, "fs-1")
    due_homes([metering._home(one, {"w-1": NOW})], NOW)


def measured_bytes(one: Any) -> None:
    server: Any = Server()
    server.list = lambda *_: iter([one])
    for size in run(metering.measured_bytes, server).values():
        float(size)


def budgeted(one: Any) -> None:
    _, _, budget = budgets._claim_budget(one)
    assert budget is None or budget >= 0


def noted_swarm(one: Any) -> None:
    swarm_outcome.is_given_up(one)
    swarm_outcome.handed_over_count(one)
    swarm_outcome.requested_count(one)
    swarm_outcome._age(one)


def swarm_member(one: Any) -> None:
    swarms._sandbox(one)
    swarms._was_used(one)
    swarms._first_failure({"w-1": one}, {})


def why_no_swarm(one: Any) -> None:
    server: Any = Server()
    server.list = lambda *_: iter([one, SAMPLES["event"]])
    run(swarm_events.last_failure, server, ["a"], "task")


def happened(one: Any) -> None:
    happenings._event(one)


def has_room(one: Any) -> None:
    quota_shortfalls(one, {"pods": Decimal(1), "requests.cpu": Decimal(1)})


def handed_volume(one: Any) -> None:
    handing.has_other_owner(one, "u-1")


def made_in(one: Any) -> None:
    home_class(one)


def whose_pod(one: Any) -> None:
    bearer._addresses(one)
    run(bearer._owner, Server(), one, SANDBOXES, "Sandbox", SPACE)


def whose_claim(one: Any) -> None:
    bearer._ends(one)


def holding(kind: Any) -> Callable[[Any], object]:
    """Return a reader of all that the ledger follows from, with one odd object among it."""

    def held_by(one: Any) -> None:
        every: dict[Any, Any] = {**SAMPLES, kind: one}
        kinds = (CLAIMS, SANDBOXES, PODS, VOLUME_CLAIMS, VOLUMES)
        run(facts.holdings, facts.ListedObjects(*([every[of]] for of in kinds)))

    held_by.__name__ = f"holdings_{kind.kind}"
    return held_by


READERS = [
    *(
        Reader(CLAIMS, one)
        for one in (put_claim, slot_claim, kept, released_claim, budgeted, swarm_member, left_member, whose_claim)
    ),
    *(Reader(VOLUMES, one) for one in (put_volume, becomes, slot_volume, audited, kept_volume, measured)),
    *(Reader(VOLUMES, one) for one in (measured_bytes, handed_volume, made_in, date_of, led)),
    *(Reader("shared volume", one) for one in (put_volume, becomes, slot_volume, kept_volume, led, volume_of_task)),
    *(Reader("shared volume claim", one) for one in (slot_volume_claim, claim_of_task)),
    *(Reader("pool", one) for one in (put_pool, released_pool, noted_swarm, with_task)),
    *(Reader(CONFIGURATIONS, one) for one in (put_constraints, class_limits)),
    *(Reader(SANDBOXES, one) for one in (adopted, kept_sandbox)),
    *(Reader(VOLUME_CLAIMS, one) for one in (slot_volume_claim, kept_volume_claim)),
    Reader("shared volume", holding(VOLUMES)),
    Reader("event", happened),
    Reader("event", why_no_swarm),
    Reader("quota", has_room),
    Reader(PODS, whose_pod),
    *(Reader(kind, holding(kind)) for kind in (CLAIMS, SANDBOXES, PODS, VOLUME_CLAIMS, VOLUMES)),
]


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("reader", READERS, ids=str)
def test_a_reader_takes_any_object(reader: Reader) -> None:
    @settings(max_examples=60)
    @given(odd(SAMPLES[reader.kind]))
    def holds(one: Any) -> None:
        with contextlib.suppress(UnreadableError):
            reader.read(one)

    reader.read(SAMPLES[reader.kind])
    holds()


def review_token(one: Any) -> None:
    class Reviews:
        async def review(self, *_: Any) -> Document:
            return one["status"] if isinstance(one.get("status"), dict) else {}

    with contextlib.suppress(bearer.RefusedExchangeError):
        run(bearer.verify_token, Reviews(), "token")


REVIEW = {
    "status": {
        "authenticated": True,
        "audiences": [bearer.AUDIENCE],
        "user": {
            "username": "system:serviceaccount:sandbox-box:sandbox",
            "extra": {bearer._POD_NAME: ["p"], bearer._POD_UID: ["u"]},
        },
    }
}


@given(odd(REVIEW))
def test_any_review_of_a_token_is_of_a_pod_or_refused(one: Any) -> None:
    review_token(one)


@given(ANY)
def test_any_owner_of_any_sandbox_is_looked_for_without_harm(owners: Any) -> None:
    server = Server()
    server.put(SANDBOXES, {"metadata": {"name": "s", "namespace": SPACE, "ownerReferences": owners}})
    claim = {"metadata": {"namespace": SPACE, "uid": "u"}, "status": {"sandbox": {"name": "s"}}}
    assert run(sleeping.sandbox_of, server, claim) is None


def test_what_cannot_be_read_is_left_out_and_named_and_the_others_are_read() -> None:
    failures: list[str] = []

    def read(one: Document) -> int:
        return 1 // one["value"]

    listed: list[Document] = [
        {"metadata": {"namespace": "here", "name": f"o-{value}"}, "value": value} for value in (1, 0, 1)
    ]
    rows = [one["metadata"]["name"] for one, _ in run(readable, "Thing", listed, read, failures, Reports())]
    assert rows == ["o-1", "o-1"]
    assert failures == ["Thing here/o-0 cannot be read: ZeroDivisionError"]


@given(some.lists(some.sampled_from("abcdefgh"), max_size=400))
def test_reports_are_bounded_however_often_and_however_many_objects_are_odd(names: list[str]) -> None:
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
    assert not any("content" in str(one.__dict__) for one in lines)
