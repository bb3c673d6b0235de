"""Data is destroyed with a record, by the server's clock, and never after a restore."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from agentenv.core.lifecycle.restore import NOBODY
from agentenv.core.lifecycle.retention import HOLD
from agentenv.core.values.timestamps import format_timestamp, format_whole_seconds
from agentenv.core.workspaces.workspace import ARCHIVE_ENDED, DELETED_AT, DESTROY_AFTER, DESTROY_REQUESTED
from agentenv.service.kube.client import CLAIMS, CONFIGURATIONS, VOLUMES, KubeApiError
from agentenv.service.kube.clock import FRESH, ServerClock
from agentenv.service.loops.catalog import loops_of_workspaces
from agentenv.service.loops.retention import MOST as AT_MOST
from agentenv.service.loops.retention import apply_retention, destroy_on_request
from agentenv.service.workspaces.destruction_records import MOST, Records
from tests.fast.service.fake_api_server import Api, Killed, run
from tests.fast.service.loops.cluster import SPACE, START, Cluster, always

DAY = timedelta(days=1)
DATED = {DELETED_AT: format_timestamp(START - 40 * DAY), DESTROY_AFTER: format_timestamp(START - 10 * DAY)}


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.volume("w-9", "Released", **DATED)
    return cluster


def policy(cluster: Cluster, name: str = "pv-w-9") -> str:
    found = cluster.server.find(VOLUMES, name)
    return found["spec"]["persistentVolumeReclaimPolicy"] if found else "gone"


def test_expired_data_is_destroyed_with_a_record_of_its_owner(cluster: Cluster) -> None:
    assert run(apply_retention, cluster.context(), always).steps == 1
    assert policy(cluster) == "Delete"
    destruction = cluster.destruction_record("pv-w-9")
    assert (destruction["owner"], destruction["workspace"], destruction["class"], destruction["by"]) == (
        "u-1",
        "w-9",
        "box",
        "r1",
    )
    assert (destruction["handle"], destruction["deleted"], "gone" in destruction) == (
        "fs-1::fsap-w-9",
        DATED[DELETED_AT],
        False,
    )
    # The driver takes it away; then the record says so.
    assert run(apply_retention, cluster.context(), always).steps == 0
    del cluster.server.objects[VOLUMES, "", "pv-w-9"]
    assert run(apply_retention, cluster.context(), always).steps == 1
    assert cluster.destruction_record("pv-w-9")["gone"] == format_timestamp(START)
    assert run(apply_retention, cluster.context(), always).steps == 0


@pytest.mark.parametrize("change", [1, 2])
def test_an_interrupted_destruction_is_completed_with_one_record(cluster: Cluster, change: int) -> None:
    def dies(number: int) -> None:
        if number == change:
            raise Killed

    cluster.server.before = dies
    with pytest.raises(Killed):
        run(apply_retention, cluster.context(), always)
    assert policy(cluster) == "Retain"
    cluster.server.before = lambda _: None
    run(apply_retention, cluster.context(), always)
    assert (policy(cluster), bool(cluster.destruction_record("pv-w-9"))) == ("Delete", True)


def test_nothing_is_destroyed_while_the_time_is_not_known(cluster: Cluster) -> None:
    blind = ServerClock(lambda: START)
    assert run(apply_retention, cluster.context(clock=blind), always).steps == 0
    assert (policy(cluster), cluster.destruction_record("pv-w-9")) == ("Retain", {})
    # A replica whose own clock is a month ahead goes by the server's.
    passed = [0.0]
    ahead = ServerClock(lambda: START + 30 * DAY, monotonic=lambda: passed[0])
    ahead.observe(START - 11 * DAY, 0.0)
    assert run(apply_retention, cluster.context(clock=ahead), always).steps == 0
    assert policy(cluster) == "Retain"
    # And by what it said a moment ago: what it said long ago is not enough to destroy by.
    ahead.observe(START, 0.0)
    passed[0] = FRESH
    assert run(apply_retention, cluster.context(clock=ahead), always).steps == 0
    passed[0] = FRESH - 1
    assert run(apply_retention, cluster.context(clock=ahead), always).steps == 1


def test_a_late_restore_prevents_the_destruction(cluster: Cluster) -> None:
    """The volume is changed by somebody between the record and the change that would have destroyed it."""

    def comes(number: int) -> None:
        if number == 2:
            cluster.server.before = lambda _: None
            found = cluster.server.find(VOLUMES, "pv-w-9") or {}
            assert cluster.server.patch(VOLUMES, found, {"spec": {"claimRef": {"name": "home-w-9", "uid": None}}})

    cluster.server.before = comes
    assert run(apply_retention, cluster.context(), always).steps == 0
    assert policy(cluster) == "Retain"


def test_existing_workspace_keeps_its_volume_for_any_dates(cluster: Cluster) -> None:
    cluster.workspace("w-9")
    cluster.volume("w-9", "Released", **DATED)
    assert run(apply_retention, cluster.context(), always).steps == 0
    assert policy(cluster) == "Retain"


@pytest.mark.parametrize("notes", [{HOLD: "audit"}, {"pv.kubernetes.io/provisioned-by": "somebody"}], ids=str)
def test_held_and_foreign_volumes_are_left_alone(notes: dict[str, str]) -> None:
    cluster = Cluster()
    cluster.volume("w-9", "Released", **{**DATED, **notes})
    assert run(apply_retention, cluster.context(), always).steps == 0
    assert policy(cluster) == "Retain"


def test_a_manually_deleted_claim_has_its_full_retention() -> None:
    cluster = Cluster()
    cluster.volume("w-9", "Released")
    assert run(apply_retention, cluster.context(), always).steps == 1
    assert cluster.notes(VOLUMES, "pv-w-9")[DESTROY_AFTER] == format_timestamp(START + 30 * DAY)
    cluster.advance(29 * 86400)
    assert run(apply_retention, cluster.context(), always).steps == 0
    cluster.advance(2 * 86400)
    assert run(apply_retention, cluster.context(), always).steps == 1
    assert policy(cluster) == "Delete"


def test_a_deletion_date_months_in_the_past_has_its_full_retention() -> None:
    cluster = Cluster()
    behind = START - 60 * DAY
    cluster.volume(
        "w-9", "Released", **{DELETED_AT: format_timestamp(behind), DESTROY_AFTER: format_timestamp(behind + 30 * DAY)}
    )
    volume = cluster.server.find(VOLUMES, "pv-w-9") or {}
    volume["status"]["lastPhaseTransitionTime"] = format_whole_seconds(START)
    cluster.server.put(VOLUMES, volume)
    for day, after in ((0, "Retain"), (29, "Retain"), (31, "Delete")):
        cluster.now = START + day * DAY + timedelta(minutes=1)
        run(apply_retention, cluster.context(), always)
        assert policy(cluster) == after


def sessions(cluster: Cluster, number: int, **notes: str) -> None:
    for index in range(number):
        cluster.volume(f"a-{index:02}", "Released", **notes)
        session = cluster.server.find(VOLUMES, f"pv-a-{index:02}") or {}
        session["metadata"]["labels"]["sandbox.users.io/mode"] = "session"
        cluster.server.put(VOLUMES, session)


def test_sessions_with_an_early_end_do_not_delay_other_destructions() -> None:
    cluster = Cluster()
    ended = {ARCHIVE_ENDED: format_timestamp(START - 40 * DAY)}
    dates = {DELETED_AT: format_timestamp(START - DAY), DESTROY_AFTER: format_timestamp(START + 29 * DAY)}
    sessions(cluster, AT_MOST, **ended, **dates)
    cluster.volume("w-9", "Released", **DATED)
    passes = [run(apply_retention, cluster.context(), always) for _ in range(3)]
    assert [(done.steps, done.more) for done in passes] == [(AT_MOST, True), (1, False), (0, False)]
    # The time that sessions are kept goes by from when it was seen that their chat is over.
    assert cluster.notes(VOLUMES, "pv-a-00")[DESTROY_AFTER] == format_timestamp(START + 7 * DAY)
    cluster.advance(8 * 86400)
    assert run(apply_retention, cluster.context(), always).steps == AT_MOST
    assert {policy(cluster, name) for name in cluster.server.names(VOLUMES)} == {"Delete"}


def test_a_session_end_months_in_the_past_has_its_full_retention() -> None:
    cluster = Cluster()
    deleted = START - timedelta(minutes=20)
    dates = {DELETED_AT: format_timestamp(deleted), DESTROY_AFTER: format_timestamp(deleted + 7 * DAY)}
    sessions(cluster, 1, **{ARCHIVE_ENDED: format_timestamp(START - 60 * DAY)}, **dates)
    for day, after in ((0, "Retain"), (0, "Retain"), (6, "Retain"), (8, "Delete")):
        cluster.now = START + day * DAY
        run(apply_retention, cluster.context(), always)
        assert policy(cluster, "pv-a-00") == after


def test_a_restored_session_is_not_destroyed_for_its_earlier_end() -> None:
    """Its workspace stands; what was said of its chat before is over with the dates of its deletion."""
    cluster = Cluster()
    cluster.workspace("w-9")
    over = {ARCHIVE_ENDED: format_timestamp(START - 40 * DAY), **DATED}
    cluster.volume("w-9", "Bound", **over)
    assert run(apply_retention, cluster.context(), always).steps == 1
    assert not cluster.notes(VOLUMES, "pv-w-9").keys() & over.keys()


def test_an_available_volume_is_released_before_it_is_destroyed() -> None:
    cluster = Cluster()
    cluster.volume("w-9", "Available", uid="", **DATED)
    assert run(apply_retention, cluster.context(), always).steps == 1
    found = cluster.server.find(VOLUMES, "pv-w-9") or {}
    assert (found["spec"]["claimRef"]["uid"], policy(cluster)) == (NOBODY, "Retain")


def test_a_refused_volume_does_not_block_the_others(cluster: Cluster) -> None:
    cluster.volume("w-8", "Released")

    def refused(number: int) -> None:
        if number == 1:
            raise KubeApiError("no", 403)

    cluster.server.before = refused
    done = run(apply_retention, cluster.context(), always)
    assert (done.steps, len(done.failures)) == (1, 1)


def test_records_fill_pages_and_complete_old_pages_are_deleted(cluster: Cluster) -> None:
    records = Records(Api(cluster.server), "default")
    for number in range(MOST + 2):
        assert run(records.write, f"pv-{number}", {"owner": "u"}, START)
    pages = [*cluster.server.list(CONFIGURATIONS, "default")]
    assert sorted(len(page["data"]) for page in pages) == [2, MOST]
    assert sum(len(json.dumps(page)) for page in pages) < 1_000_000
    # Open until its day is over and all on it is gone; then nobody looks at it but to take it away.
    assert run(records.close, START + DAY) == 0
    small = min(pages, key=lambda page: len(page["data"]))
    for name in small["data"]:
        assert run(records.finish, name, START)
    assert run(records.close, START) == 0
    assert run(records.close, START + DAY) == 1
    assert len([*run(records.unfinished)]) == MOST
    assert run(records.prune, START + DAY) == 1
    assert len([*cluster.server.list(CONFIGURATIONS, "default")]) == 1


def test_the_dates_of_a_slow_deletion_stay() -> None:
    """Its claim waits for a sandbox on a node that does not answer; what was asked for stands on its volume."""
    cluster = Cluster()
    cluster.workspace("w-9")
    going = cluster.server.find(CLAIMS, "w-9", SPACE) or {}
    cluster.server.put(
        CLAIMS, {**going, "metadata": {**going["metadata"], "deletionTimestamp": format_timestamp(START)}}
    )
    at_once = {DELETED_AT: format_timestamp(START), DESTROY_AFTER: format_timestamp(START)}
    cluster.volume("w-9", "Bound", **at_once)
    cluster.advance(3600)
    assert run(apply_retention, cluster.context(), always).steps == 0
    assert cluster.notes(VOLUMES, "pv-w-9").items() >= at_once.items()
    # It came back in another class meanwhile: that one stands.
    again = {**going["metadata"], "namespace": "sandbox-other", "uid": "another"}
    cluster.server.put(CLAIMS, {**going, "metadata": again})
    assert run(apply_retention, cluster.context(), always).steps == 1
    assert not cluster.notes(VOLUMES, "pv-w-9").keys() & at_once.keys()


@pytest.fixture
def requested() -> Cluster:
    """One of which destruction was requested a moment ago; its volume was released, and has a neighbour."""
    cluster = Cluster()
    cluster.volume("w-8", "Released", **DATED)
    cluster.volume("w-9", "Released", **{DELETED_AT: format_timestamp(START), DESTROY_AFTER: format_timestamp(START)})
    cluster.server.objects[VOLUMES, "", "pv-w-9"]["metadata"]["labels"][DESTROY_REQUESTED] = "true"
    return cluster


def test_requested_destruction_does_not_wait_for_a_full_pass(requested: Cluster) -> None:
    assert any(loop.name == "destroying" and loop.every <= 10 for loop in loops_of_workspaces(requested.context()))
    assert run(destroy_on_request, requested.context(), always).steps == 1
    assert (policy(requested), policy(requested, "pv-w-8")) == ("Delete", "Retain")
    assert requested.destruction_record("pv-w-9")["workspace"] == "w-9"
    assert run(destroy_on_request, requested.context(), always).steps == 0


@pytest.mark.parametrize("change", [1, 2])
def test_interrupted_requested_destruction_is_completed_with_one_record(requested: Cluster, change: int) -> None:
    def dies(number: int) -> None:
        if number == change:
            raise Killed

    requested.server.before = dies
    with pytest.raises(Killed):
        run(destroy_on_request, requested.context(), always)
    assert policy(requested) == "Retain"
    requested.server.before = lambda _: None
    # Whichever of the two loops comes first.
    assert (
        run(destroy_on_request, requested.context(), always).steps
        + run(apply_retention, requested.context(), always).steps
        >= 1
    )
    assert (policy(requested), bool(requested.destruction_record("pv-w-9"))) == ("Delete", True)


def test_requested_destruction_waits_for_the_release_and_the_claims(requested: Cluster) -> None:
    released = requested.server.find(VOLUMES, "pv-w-9") or {}
    requested.server.put(VOLUMES, {**released, "status": {**released["status"], "phase": "Bound"}})
    assert run(destroy_on_request, requested.context(), always).steps == 0
    requested.workspace("w-9")
    requested.server.put(VOLUMES, released)
    assert run(destroy_on_request, requested.context(), always).steps == 0
    assert policy(requested) == "Retain"


def test_an_interrupted_request_to_destroy_is_undone_with_the_deletion() -> None:
    cluster = Cluster()
    cluster.workspace("w-9")
    volume = cluster.server.find(VOLUMES, "pv-w-9") or {}
    marks = {"annotations": {DELETED_AT: format_timestamp(START)}, "labels": {DESTROY_REQUESTED: "true"}}
    assert cluster.server.patch(VOLUMES, volume, {"metadata": marks})
    cluster.advance(3600)
    assert run(apply_retention, cluster.context(), always).steps == 1
    now = (cluster.server.find(VOLUMES, "pv-w-9") or {})["metadata"]
    assert DESTROY_REQUESTED not in now["labels"]
    assert DELETED_AT not in now["annotations"]
