"""Passes over existing workspaces act on the version they decided on, and never against a request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import pytest

from agentenv.core.lifecycle.idle import Activity
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import (
    BUSY_UNTIL,
    DEADLINE,
    DELETED_AT,
    DESTROY_AFTER,
    LEASES,
    SUSPENDED_BECAUSE,
    WAKE_AT,
    Workspace,
)
from agentenv.service.kube.client import CLAIMS, VOLUMES, Document, Kind, KubeApiError
from agentenv.service.loops.activity_sources import CPU, NETWORK, Prometheus
from agentenv.service.loops.scheduler import PassResult
from agentenv.service.loops.workspace_passes import MOST, end_expired, suspend_idle, wake_due
from tests.fast.service.fake_api_server import Killed, run
from tests.fast.service.loops.cluster import SPACE, START, House, always

HOUR = 3600.0


@pytest.fixture
def house() -> House:
    house = House()
    house.workspace()
    return house


def test_an_idle_workspace_is_suspended_with_the_reason(house: House) -> None:
    assert run(suspend_idle, house.context(), always).steps == 0
    house.pass_(HOUR)
    assert run(suspend_idle, house.context(), always).steps == 1
    assert (house.mode(), house.notes()[SUSPENDED_BECAUSE]) == ("Suspended", "idle")
    assert house.metrics.slept == [("box", "idle")]
    house.settle()
    assert run(suspend_idle, house.context(), always).steps == 0


@pytest.mark.parametrize("change", [1, 2])
def test_an_interrupted_suspension_is_completed_by_the_next_pass(house: House, change: int) -> None:
    house.pass_(HOUR)

    def dies(number: int) -> None:
        if number == change:
            raise Killed

    house.shelf.before = dies
    with pytest.raises(Killed):
        run(suspend_idle, house.context(), always)
    house.shelf.before = lambda _: None
    assert house.mode() == "Running"
    assert run(suspend_idle, house.context(), always).steps == 1
    assert (house.mode(), house.metrics.slept) == ("Suspended", [("box", "idle")])


@pytest.mark.parametrize("when", [1, 2])
def test_a_request_during_a_suspension_finds_it_running(house: House, when: int) -> None:
    """Before the first write the pass is told; between the two it takes back what it did."""
    house.pass_(HOUR)
    lease = json.dumps([{"holder": "a", "mode": "rw", "until": format_timestamp(house.now + timedelta(minutes=2))}])

    def comes(number: int) -> None:
        if number == when:
            house.shelf.before = lambda _: None
            house.note(leases=lease, last_active=format_timestamp(house.now), suspended_because=None)

    house.shelf.before = comes
    run(suspend_idle, house.context(), always)
    assert (house.mode(), house.notes().get(SUSPENDED_BECAUSE)) == ("Running", None)
    assert house.metrics.slept == []


def test_a_busy_or_attached_workspace_is_not_suspended(house: House) -> None:
    house.note(busy_until=format_timestamp(START + timedelta(hours=3)))
    house.pass_(HOUR)
    assert run(suspend_idle, house.context(), always).steps == 0
    house.note(
        busy_until=None, leases=json.dumps([{"holder": "a", "mode": "rw", "until": format_timestamp(house.now)}])
    )
    assert BUSY_UNTIL not in house.notes()
    assert LEASES in house.notes()
    assert run(suspend_idle, house.context(), always).steps == 0
    house.pass_(HOUR)
    assert run(suspend_idle, house.context(), always).steps == 1


class Sees:
    """A source that says one thing of everybody."""

    name = "sees"

    def __init__(self, at: datetime | None, *, fails: bool = False) -> None:
        self.at, self.fails, self.queries = at, fails, 0
        self.quiet: set[str] = set()

    async def seen(
        self, workspaces: Sequence[Workspace], limits: Mapping[str, Limits], now: datetime
    ) -> Mapping[str, Activity]:
        self.queries += 1
        assert limits["box"].suspend_after is not None
        assert len(workspaces) <= MOST
        if self.fails:
            raise OSError("it is away")
        return {
            one.id: Activity(self.name, self.at and now if one.id not in self.quiet else None) for one in workspaces
        }


def test_sources_are_queried_only_for_idle_workspaces(house: House) -> None:
    quiet, busy, broken = Sees(None), Sees(START), Sees(None, fails=True)
    assert run(suspend_idle, house.context(sources=[quiet]), always).steps == 0
    assert quiet.queries == 0
    house.pass_(HOUR)
    assert run(suspend_idle, house.context(sources=[busy]), always).steps == 0
    # One that cannot be asked keeps everybody awake, whatever the others say.
    assert run(suspend_idle, house.context(sources=[quiet, broken]), always).steps == 0
    assert run(suspend_idle, house.context(sources=[quiet]), always).steps == 1


def test_traffic_work_or_unknown_activity_in_prometheus_prevents_a_suspension() -> None:
    house = House()
    levels = {"w-net": (2000.0, 0.0), "w-cpu": (0.0, 0.9), "w-off": (3.0, 0.01)}
    for name in (*levels, "w-unknown"):
        house.workspace(name)
    uids = {name: house.shelf.objects[CLAIMS, SPACE, name]["metadata"]["uid"] for name in levels}
    texts: list[str] = []

    def query(text: str) -> list[tuple[Mapping[str, str], float]]:
        texts.append(text)
        column = 0 if NETWORK in text else 1
        assert CPU in text or column == 0
        return [({"claim_uid": uid}, levels[name][column]) for name, uid in uids.items()]

    house.pass_(HOUR)
    assert run(suspend_idle, house.context(sources=[Prometheus("http://x", query)]), always).steps == 1
    assert {name: house.mode(name) for name in (*levels, "w-unknown")} == {
        "w-net": "Running",
        "w-cpu": "Running",
        "w-off": "Suspended",
        "w-unknown": "Running",
    }
    assert all("[1200s]" in text for text in texts)


def test_a_pass_is_bounded_and_reports_that_more_is_left() -> None:
    house = House()
    for number in range(MOST + 3):
        house.workspace(f"w-{number:03}")
    house.pass_(HOUR)
    first = run(suspend_idle, house.context(), always)
    assert (first.steps, first.more) == (MOST, True)
    house.settle()
    last = run(suspend_idle, house.context(), always)
    assert (last.steps, last.more) == (3, False)


def test_workspaces_with_activity_do_not_block_idle_ones() -> None:
    house, source = House(), Sees(START)
    for number in range(2 * MOST):
        house.workspace(f"w-{number:03}")
    source.quiet = {"w-007", "w-099"}
    house.pass_(HOUR)
    done = run(suspend_idle, house.context(sources=[source]), always)
    assert (done.steps, done.more, source.queries) == (2, False, 2)
    assert {house.mode(name) for name in source.quiet} == {"Suspended"}
    assert house.mode("w-008") == "Running"


def test_an_unavailable_source_is_queried_once_per_pass() -> None:
    house, source = House(), Sees(None, fails=True)
    for number in range(3 * MOST):
        house.workspace(f"w-{number:03}")
    house.pass_(HOUR)
    assert run(suspend_idle, house.context(sources=[source]), always) == PassResult()
    assert source.queries == 1


def test_permanently_refused_workspaces_do_not_block_the_others() -> None:
    house = House()
    for number in range(2 * MOST):
        house.workspace(f"w-{number:03}", **{WAKE_AT: format_timestamp(START + timedelta(hours=2))})
    house.workspace("w-zzz", **{WAKE_AT: format_timestamp(START + timedelta(hours=2))})
    house.pass_(HOUR)
    while run(suspend_idle, house.context(), always).steps:
        house.settle()
    house.pass_(2 * HOUR)
    refuses = house.shelf.patch

    def patch(kind: Kind, existing: Document, changes: Document) -> bool:
        if kind is CLAIMS and existing["metadata"]["name"] != "w-zzz":
            raise KubeApiError("a guardrail says no", 403)
        return refuses(kind, existing, changes)

    house.shelf.patch = patch
    for _ in range(20):
        done = run(wake_due, house.context(), always)
        # Nor is the server asked for all of them in every pass.
        assert (len(done.failures) <= MOST, done.more) == (True, False)
        house.pass_(15)
    assert house.mode("w-zzz") == "Running"


def test_a_pass_stops_when_its_replica_no_longer_leads() -> None:
    house = House()
    for number in range(5):
        house.workspace(f"w-{number}")
    house.pass_(HOUR)
    answers = iter([True, True, False])
    assert run(suspend_idle, house.context(), lambda: next(answers)).steps == 2


def test_a_pass_stops_at_an_overloaded_server() -> None:
    house = House()
    for number in range(5):
        house.workspace(f"w-{number}")
    house.pass_(HOUR)
    changes: list[int] = []

    def throttled(number: int) -> None:
        changes.append(number)
        raise KubeApiError("too many requests", 429)

    house.shelf.before = throttled
    with pytest.raises(KubeApiError):
        run(suspend_idle, house.context(), always)
    assert len(changes) == 1


def test_a_refused_suspension_does_not_block_the_others() -> None:
    house = House()
    for number in range(3):
        house.workspace(f"w-{number}")
    house.pass_(HOUR)

    def refused(number: int) -> None:
        if number == 1:
            raise KubeApiError("a guardrail says no", 403)

    house.shelf.before = refused
    done = run(suspend_idle, house.context(), always)
    assert (done.steps, len(done.failures)) == (2, 1)


def test_a_workspace_is_resumed_once_at_its_wake_time() -> None:
    house = House()
    house.workspace(**{WAKE_AT: format_timestamp(START + timedelta(hours=2))})
    house.pass_(HOUR)
    run(suspend_idle, house.context(), always)
    house.settle()
    assert run(wake_due, house.context(), always).steps == 0
    house.pass_(HOUR)
    assert run(wake_due, house.context(), always).steps == 1
    assert (house.mode(), house.notes().get(WAKE_AT), house.notes().get(SUSPENDED_BECAUSE)) == ("Running", None, None)
    house.settle()
    # Awake it is used from now on, and not put to sleep the next moment.
    assert (run(wake_due, house.context(), always).steps, run(suspend_idle, house.context(), always).steps) == (0, 0)


def test_a_workspace_past_its_deadline_is_suspended_and_not_woken() -> None:
    house = House()
    over = {
        DEADLINE: format_timestamp(START),
        BUSY_UNTIL: format_timestamp(START + timedelta(days=1)),
        WAKE_AT: format_timestamp(START),
    }
    house.workspace(**over)
    house.pass_(60)
    assert run(end_expired, house.context(), always).steps == 1
    assert (house.mode(), house.notes()[SUSPENDED_BECAUSE]) == ("Suspended", "deadline")
    house.settle()
    assert (run(wake_due, house.context(), always).steps, run(end_expired, house.context(), always).steps) == (0, 0)
    assert house.mode() == "Suspended"


def test_usage_is_recorded_before_an_expired_workspace_is_deleted() -> None:
    house = House()
    house.limit(maxLifetime="3600")
    house.workspace()
    house.pass_(2 * HOUR)
    there: list[tuple[str, str, bool]] = []

    async def settle(namespace: str, name: str) -> None:
        there.append((namespace, name, house.shelf.find(CLAIMS, name, namespace) is not None))

    assert run(end_expired, house.context(settle=settle), always).steps == 1
    assert there == [(SPACE, "w-1", True)]
    assert house.shelf.names(CLAIMS) == []


def test_a_completed_deletion_has_the_same_timestamp() -> None:
    house = House()
    house.limit(maxLifetime="3600")
    house.workspace()
    house.pass_(2 * HOUR)
    recorded = house.now

    def killed(number: int) -> None:
        if number == 2:
            raise Killed

    house.shelf.before = killed
    with pytest.raises(Killed):
        run(end_expired, house.context(), always)
    assert house.shelf.names(CLAIMS) == ["w-1"]
    house.shelf.before = lambda _: None
    house.pass_(20)
    assert run(end_expired, house.context(), always).steps == 1
    notes = house.notes(VOLUMES, "pv-w-1")
    assert notes[DELETED_AT] == format_timestamp(recorded)
    assert notes[DESTROY_AFTER] == format_timestamp(recorded + timedelta(days=30))
