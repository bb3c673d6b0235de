"""Passes over existing workspaces act on the version they decided on, and never against a request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
    DESTROY_REQUESTED,
    LEASES,
    PARENT_WORKSPACE,
    SUSPENDED_BECAUSE,
    TIMEOUT,
    WAKE_AT,
    Workspace,
)
from agentenv.service.kube.client import CLAIMS, VOLUMES, Document, Kind, KubeApiError, section
from agentenv.service.loops.activity_sources import CPU, NETWORK, Prometheus
from agentenv.service.loops.scheduler import PassResult
from agentenv.service.loops.workspace_passes import (
    MOST,
    PARENT_GRACE,
    end_expired,
    end_timed_out,
    suspend_idle,
    wake_due,
)
from agentenv.service.workspaces.suspend import resume
from tests.fast.service.fake_api_server import Killed, run
from tests.fast.service.loops.cluster import SPACE, START, Cluster, StubClock, always

HOUR = 3600.0


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.workspace()
    return cluster


def test_an_idle_workspace_is_suspended_with_the_reason(cluster: Cluster) -> None:
    assert run(suspend_idle, cluster.context(), always).steps == 0
    cluster.advance(HOUR)
    assert run(suspend_idle, cluster.context(), always).steps == 1
    assert (cluster.mode(), cluster.notes()[SUSPENDED_BECAUSE]) == ("Suspended", "idle")
    assert cluster.metrics.slept == [("box", "idle")]
    cluster.settle()
    assert run(suspend_idle, cluster.context(), always).steps == 0


@pytest.mark.parametrize("change", [1, 2])
def test_an_interrupted_suspension_is_completed_by_the_next_pass(cluster: Cluster, change: int) -> None:
    cluster.advance(HOUR)

    def dies(number: int) -> None:
        if number == change:
            raise Killed

    cluster.server.before = dies
    with pytest.raises(Killed):
        run(suspend_idle, cluster.context(), always)
    cluster.server.before = lambda _: None
    assert cluster.mode() == "Running"
    assert run(suspend_idle, cluster.context(), always).steps == 1
    assert (cluster.mode(), cluster.metrics.slept) == ("Suspended", [("box", "idle")])


@pytest.mark.parametrize("when", [1, 2])
def test_a_request_during_a_suspension_finds_it_running(cluster: Cluster, when: int) -> None:
    """Before the first write the pass is told; between the two it takes back what it did."""
    cluster.advance(HOUR)
    lease = json.dumps([{"holder": "a", "mode": "rw", "until": format_timestamp(cluster.now + timedelta(minutes=2))}])

    def comes(number: int) -> None:
        if number == when:
            cluster.server.before = lambda _: None
            cluster.note(leases=lease, last_active=format_timestamp(cluster.now), suspended_because=None)

    cluster.server.before = comes
    run(suspend_idle, cluster.context(), always)
    assert (cluster.mode(), cluster.notes().get(SUSPENDED_BECAUSE)) == ("Running", None)
    assert cluster.metrics.slept == []


def test_a_busy_or_attached_workspace_is_not_suspended(cluster: Cluster) -> None:
    cluster.note(busy_until=format_timestamp(START + timedelta(hours=3)))
    cluster.advance(HOUR)
    assert run(suspend_idle, cluster.context(), always).steps == 0
    cluster.note(
        busy_until=None, leases=json.dumps([{"holder": "a", "mode": "rw", "until": format_timestamp(cluster.now)}])
    )
    assert BUSY_UNTIL not in cluster.notes()
    assert LEASES in cluster.notes()
    assert run(suspend_idle, cluster.context(), always).steps == 0
    cluster.advance(HOUR)
    assert run(suspend_idle, cluster.context(), always).steps == 1


class StubSource:
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
            workspace.id: Activity(self.name, self.at and now if workspace.id not in self.quiet else None)
            for workspace in workspaces
        }


def test_sources_are_queried_only_for_idle_workspaces(cluster: Cluster) -> None:
    quiet, busy, broken = StubSource(None), StubSource(START), StubSource(None, fails=True)
    assert run(suspend_idle, cluster.context(sources=[quiet]), always).steps == 0
    assert quiet.queries == 0
    cluster.advance(HOUR)
    assert run(suspend_idle, cluster.context(sources=[busy]), always).steps == 0
    # One that cannot be asked keeps everybody awake, whatever the others say.
    assert run(suspend_idle, cluster.context(sources=[quiet, broken]), always).steps == 0
    assert run(suspend_idle, cluster.context(sources=[quiet]), always).steps == 1


def test_a_source_inside_the_sandbox_decides_and_others_are_not_queried(cluster: Cluster) -> None:
    class Inside(StubSource):
        async def seen(
            self,
            workspaces: Sequence[Workspace],
            limits: Mapping[str, Limits],
            now: datetime,
        ) -> Mapping[str, Activity]:
            observed = await super().seen(workspaces, limits, now)
            return {id_: replace(activity, decisive=True) for id_, activity in observed.items()}

    inside, outside = Inside(None), StubSource(START)
    cluster.advance(HOUR)
    assert run(suspend_idle, cluster.context(sources=[inside, outside]), always).steps == 1
    assert (inside.queries, outside.queries) == (1, 0)


def test_traffic_work_or_unknown_activity_in_prometheus_prevents_a_suspension() -> None:
    cluster = Cluster()
    levels = {"w-net": (2000.0, 0.0), "w-cpu": (0.0, 0.9), "w-off": (3.0, 0.01)}
    for name in (*levels, "w-unknown"):
        cluster.workspace(name)
    uids = {name: cluster.server.objects[CLAIMS, SPACE, name]["metadata"]["uid"] for name in levels}
    texts: list[str] = []

    def query(text: str) -> list[tuple[Mapping[str, str], float]]:
        texts.append(text)
        column = 0 if NETWORK in text else 1
        assert CPU in text or column == 0
        return [({"claim_uid": uid}, levels[name][column]) for name, uid in uids.items()]

    cluster.advance(HOUR)
    assert run(suspend_idle, cluster.context(sources=[Prometheus("http://x", query)]), always).steps == 1
    assert {name: cluster.mode(name) for name in (*levels, "w-unknown")} == {
        "w-net": "Running",
        "w-cpu": "Running",
        "w-off": "Suspended",
        "w-unknown": "Running",
    }
    assert all("[1200s]" in text for text in texts)


def test_a_pass_is_bounded_and_reports_that_more_is_left() -> None:
    cluster = Cluster()
    for number in range(MOST + 3):
        cluster.workspace(f"w-{number:03}")
    cluster.advance(HOUR)
    first = run(suspend_idle, cluster.context(), always)
    assert (first.steps, first.more) == (MOST, True)
    cluster.settle()
    last = run(suspend_idle, cluster.context(), always)
    assert (last.steps, last.more) == (3, False)


def test_workspaces_with_activity_do_not_block_idle_ones() -> None:
    cluster, source = Cluster(), StubSource(START)
    for number in range(2 * MOST):
        cluster.workspace(f"w-{number:03}")
    source.quiet = {"w-007", "w-099"}
    cluster.advance(HOUR)
    done = run(suspend_idle, cluster.context(sources=[source]), always)
    assert (done.steps, done.more, source.queries) == (2, False, 2)
    assert {cluster.mode(name) for name in source.quiet} == {"Suspended"}
    assert cluster.mode("w-008") == "Running"


def test_an_unavailable_source_is_queried_once_per_pass() -> None:
    cluster, source = Cluster(), StubSource(None, fails=True)
    for number in range(3 * MOST):
        cluster.workspace(f"w-{number:03}")
    cluster.advance(HOUR)
    assert run(suspend_idle, cluster.context(sources=[source]), always) == PassResult()
    assert source.queries == 1


def test_permanently_refused_workspaces_do_not_block_the_others() -> None:
    cluster = Cluster()
    for number in range(2 * MOST):
        cluster.workspace(f"w-{number:03}", **{WAKE_AT: format_timestamp(START + timedelta(hours=2))})
    cluster.workspace("w-zzz", **{WAKE_AT: format_timestamp(START + timedelta(hours=2))})
    cluster.advance(HOUR)
    while run(suspend_idle, cluster.context(), always).steps:
        cluster.settle()
    cluster.advance(2 * HOUR)
    refuses = cluster.server.patch

    def patch(kind: Kind, existing: Document, changes: Document) -> bool:
        if kind is CLAIMS and existing["metadata"]["name"] != "w-zzz":
            raise KubeApiError("a guardrail says no", 403)
        return refuses(kind, existing, changes)

    cluster.server.patch = patch
    for _ in range(20):
        done = run(wake_due, cluster.context(), always)
        # Nor is the server asked for all of them in every pass.
        assert (len(done.failures) <= MOST, done.more) == (True, False)
        cluster.advance(15)
    assert cluster.mode("w-zzz") == "Running"


def test_a_pass_stops_when_its_replica_no_longer_leads() -> None:
    cluster = Cluster()
    for number in range(5):
        cluster.workspace(f"w-{number}")
    cluster.advance(HOUR)
    answers = iter([True, True, False])
    assert run(suspend_idle, cluster.context(), lambda: next(answers)).steps == 2


def test_a_pass_stops_at_an_overloaded_server() -> None:
    cluster = Cluster()
    for number in range(5):
        cluster.workspace(f"w-{number}")
    cluster.advance(HOUR)
    changes: list[int] = []

    def throttled(number: int) -> None:
        changes.append(number)
        raise KubeApiError("too many requests", 429)

    cluster.server.before = throttled
    with pytest.raises(KubeApiError):
        run(suspend_idle, cluster.context(), always)
    assert len(changes) == 1


def test_a_refused_suspension_does_not_block_the_others() -> None:
    cluster = Cluster()
    for number in range(3):
        cluster.workspace(f"w-{number}")
    cluster.advance(HOUR)

    def refused(number: int) -> None:
        if number == 1:
            raise KubeApiError("a guardrail says no", 403)

    cluster.server.before = refused
    done = run(suspend_idle, cluster.context(), always)
    assert (done.steps, len(done.failures)) == (2, 1)


def test_a_workspace_is_resumed_once_at_its_wake_time() -> None:
    cluster = Cluster()
    cluster.workspace(**{WAKE_AT: format_timestamp(START + timedelta(hours=2))})
    cluster.advance(HOUR)
    run(suspend_idle, cluster.context(), always)
    cluster.settle()
    assert run(wake_due, cluster.context(), always).steps == 0
    cluster.advance(HOUR)
    assert run(wake_due, cluster.context(), always).steps == 1
    assert (cluster.mode(), cluster.notes().get(WAKE_AT), cluster.notes().get(SUSPENDED_BECAUSE)) == (
        "Running",
        None,
        None,
    )
    cluster.settle()
    # Awake it is used from now on, and not put to sleep the next moment.
    assert (run(wake_due, cluster.context(), always).steps, run(suspend_idle, cluster.context(), always).steps) == (
        0,
        0,
    )


def test_workspace_past_its_deadline_is_suspended_and_not_resumed() -> None:
    cluster = Cluster()
    over = {
        DEADLINE: format_timestamp(START),
        BUSY_UNTIL: format_timestamp(START + timedelta(days=1)),
        WAKE_AT: format_timestamp(START),
    }
    cluster.workspace(**over)
    cluster.advance(60)
    assert run(end_expired, cluster.context(), always).steps == 1
    assert (cluster.mode(), cluster.notes()[SUSPENDED_BECAUSE]) == ("Suspended", "deadline")
    cluster.settle()
    assert (run(wake_due, cluster.context(), always).steps, run(end_expired, cluster.context(), always).steps) == (0, 0)
    assert cluster.mode() == "Suspended"


def test_usage_is_recorded_before_an_expired_workspace_is_deleted() -> None:
    cluster = Cluster()
    cluster.limit(maxLifetime="3600")
    cluster.workspace()
    cluster.advance(2 * HOUR)
    there: list[tuple[str, str, bool]] = []

    async def settle(workspace: Workspace) -> None:
        claim = cluster.server.find(CLAIMS, workspace.id, workspace.namespace)
        there.append((workspace.namespace, workspace.id, claim is not None))

    assert run(end_expired, cluster.context(settle=settle), always).steps == 1
    assert there == [(SPACE, "w-1", True)]
    assert cluster.server.names(CLAIMS) == []


def test_a_completed_deletion_has_the_same_timestamp() -> None:
    cluster = Cluster()
    cluster.limit(maxLifetime="3600")
    cluster.workspace()
    cluster.advance(2 * HOUR)
    recorded = cluster.now

    def killed(number: int) -> None:
        if number == 2:
            raise Killed

    cluster.server.before = killed
    with pytest.raises(Killed):
        run(end_expired, cluster.context(), always)
    assert cluster.server.names(CLAIMS) == ["w-1"]
    cluster.server.before = lambda _: None
    cluster.advance(20)
    assert run(end_expired, cluster.context(), always).steps == 1
    notes = cluster.notes(VOLUMES, "pv-w-1")
    assert notes[DELETED_AT] == format_timestamp(recorded)
    assert notes[DESTROY_AFTER] == format_timestamp(recorded + timedelta(days=30))


def test_a_timeout_destroys_at_once() -> None:
    cluster = Cluster()
    end = cluster.now + timedelta(seconds=60)
    cluster.workspace(**{DEADLINE: format_timestamp(end), TIMEOUT: '{"seconds":60,"then":"delete"}'})
    cluster.advance(59)
    assert run(end_timed_out, cluster.context(), always).steps == 0
    cluster.advance(1)
    assert run(end_timed_out, cluster.context(clock=StubClock(lambda: cluster.now, known=False)), always).steps == 0
    assert run(end_timed_out, cluster.context(), always).steps == 1
    assert cluster.server.names(CLAIMS) == []
    assert section(cluster.server.objects[VOLUMES, "", "pv-w-1"]["metadata"], "labels")[DESTROY_REQUESTED] == "true"


def test_a_timeout_that_suspends_starts_anew_with_a_request() -> None:
    cluster = Cluster()
    cluster.workspace(**{DEADLINE: format_timestamp(cluster.now), TIMEOUT: '{"seconds":60,"then":"suspend"}'})
    assert run(end_timed_out, cluster.context(), always).steps == 1
    assert (cluster.mode(), cluster.notes()[SUSPENDED_BECAUSE]) == ("Suspended", "deadline")
    cluster.settle()
    cluster.advance(HOUR)
    assert run(end_timed_out, cluster.context(), always).steps == 0
    claim = cluster.server.find(CLAIMS, "w-1", SPACE)
    assert claim is not None
    assert run(lambda: resume(cluster.context().api, claim, cluster.now, requested=True)) == "done"
    assert cluster.notes()[DEADLINE] == format_timestamp(cluster.now + timedelta(seconds=60))


def test_a_request_keeps_a_later_deadline_than_that_of_the_timeout() -> None:
    cluster = Cluster()
    later = format_timestamp(cluster.now + timedelta(hours=1))
    cluster.workspace(**{DEADLINE: later, TIMEOUT: '{"seconds":60,"then":"suspend"}'})
    claim = cluster.server.find(CLAIMS, "w-1", SPACE)
    assert claim is not None
    assert run(lambda: resume(cluster.context().api, claim, cluster.now, requested=True)) == "already"
    assert cluster.notes()[DEADLINE] == later


def test_descendants_end_some_time_after_a_parent(cluster: Cluster) -> None:
    cluster.workspace("w-child", **{PARENT_WORKSPACE: "w-1"})
    cluster.workspace("w-other", **{PARENT_WORKSPACE: "w-child"})
    clock = [0.0]
    context = cluster.context(monotonic=lambda: clock[0])
    assert run(end_expired, context, always).steps == 0
    parent = cluster.server.objects.pop((CLAIMS, SPACE, "w-1"))
    for seconds in (60.0, 60.0 + PARENT_GRACE - 1):
        clock[0] = seconds
        assert run(end_expired, context, always).steps == 0
    # A parent that is back, as one that moved to another class, ends no child; and then it is away for the first time.
    cluster.server.put(CLAIMS, parent)
    clock[0] += 60
    assert run(end_expired, context, always).steps == 0
    cluster.server.objects.pop((CLAIMS, SPACE, "w-1"))
    for seconds, steps in ((60.0, 0), (PARENT_GRACE, 2)):
        clock[0] += seconds
        assert run(end_expired, context, always).steps == steps
    assert cluster.server.names(CLAIMS) == []
    assert DELETED_AT in cluster.notes(VOLUMES, "pv-w-child")
