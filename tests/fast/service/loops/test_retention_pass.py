"""Data is destroyed with a record, by the server's clock, and never after a restore."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from agentenv.core.lifecycle.restore import NOBODY
from agentenv.core.lifecycle.retention import HOLD
from agentenv.core.values.timestamps import format_timestamp, format_whole_seconds
from agentenv.core.workspaces.workspace import ARCHIVE_ENDED, DELETED_AT, DESTROY_AFTER, DESTROY_REQUESTED
from agentenv.service.kube.client import CLAIMS, CONFIGURATIONS, VOLUMES, KubeApiError, section
from agentenv.service.kube.clock import FRESH, ServerClock
from agentenv.service.loops.catalog import loops_of
from agentenv.service.loops.retention import MOST as AT_MOST
from agentenv.service.loops.retention import apply_retention, destroy_on_request
from agentenv.service.workspaces.destruction_records import MOST, Records
from tests.fast.service.fake_api_server import Api, Killed, run
from tests.fast.service.loops.cluster import SPACE, START, House, always

DAY = timedelta(days=1)
DATED = {DELETED_AT: format_timestamp(START - 40 * DAY), DESTROY_AFTER: format_timestamp(START - 10 * DAY)}


@pytest.fixture
def house() -> House:
    house = House()
    house.volume("w-9", "Released", **DATED)
    return house


def policy(house: House, name: str = "pv-w-9") -> str:
    found = house.shelf.find(VOLUMES, name)
    return found["spec"]["persistentVolumeReclaimPolicy"] if found else "gone"


def record(house: House) -> dict[str, Any]:
    pages = house.shelf.list(CONFIGURATIONS, "default")
    rows = {name: json.loads(text) for page in pages for name, text in section(page, "data").items()}
    return rows.get("pv-w-9", {})


def test_expired_data_is_destroyed_with_a_record_of_its_owner(house: House) -> None:
    assert run(apply_retention, house.context(), always).steps == 1
    assert policy(house) == "Delete"
    destruction = record(house)
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
    assert run(apply_retention, house.context(), always).steps == 0
    del house.shelf.objects[VOLUMES, "", "pv-w-9"]
    assert run(apply_retention, house.context(), always).steps == 1
    assert record(house)["gone"] == format_timestamp(START)
    assert run(apply_retention, house.context(), always).steps == 0


@pytest.mark.parametrize("change", [1, 2])
def test_an_interrupted_destruction_is_completed_with_one_record(house: House, change: int) -> None:
    def dies(number: int) -> None:
        if number == change:
            raise Killed

    house.shelf.before = dies
    with pytest.raises(Killed):
        run(apply_retention, house.context(), always)
    assert policy(house) == "Retain"
    house.shelf.before = lambda _: None
    run(apply_retention, house.context(), always)
    assert (policy(house), bool(record(house))) == ("Delete", True)


def test_nothing_is_destroyed_while_the_time_is_not_known(house: House) -> None:
    blind = ServerClock(lambda: START)
    assert run(apply_retention, house.context(clock=blind), always).steps == 0
    assert (policy(house), record(house)) == ("Retain", {})
    # A replica whose own clock is a month ahead goes by the server's.
    passed = [0.0]
    ahead = ServerClock(lambda: START + 30 * DAY, monotonic=lambda: passed[0])
    ahead.observe(START - 11 * DAY, 0.0)
    assert run(apply_retention, house.context(clock=ahead), always).steps == 0
    assert policy(house) == "Retain"
    # And by what it said a moment ago: what it said long ago is not enough to destroy by.
    ahead.observe(START, 0.0)
    passed[0] = FRESH
    assert run(apply_retention, house.context(clock=ahead), always).steps == 0
    passed[0] = FRESH - 1
    assert run(apply_retention, house.context(clock=ahead), always).steps == 1


def test_a_late_restore_prevents_the_destruction(house: House) -> None:
    """The volume is changed by somebody between the record and the change that would have destroyed it."""

    def comes(number: int) -> None:
        if number == 2:
            house.shelf.before = lambda _: None
            found = house.shelf.find(VOLUMES, "pv-w-9") or {}
            assert house.shelf.patch(VOLUMES, found, {"spec": {"claimRef": {"name": "home-w-9", "uid": None}}})

    house.shelf.before = comes
    assert run(apply_retention, house.context(), always).steps == 0
    assert policy(house) == "Retain"


def test_an_existing_workspace_keeps_its_volume_whatever_its_dates(house: House) -> None:
    house.workspace("w-9")
    house.volume("w-9", "Released", **DATED)
    assert run(apply_retention, house.context(), always).steps == 0
    assert policy(house) == "Retain"


@pytest.mark.parametrize("notes", [{HOLD: "audit"}, {"pv.kubernetes.io/provisioned-by": "somebody"}], ids=str)
def test_held_and_foreign_volumes_are_left_alone(notes: dict[str, str]) -> None:
    house = House()
    house.volume("w-9", "Released", **{**DATED, **notes})
    assert run(apply_retention, house.context(), always).steps == 0
    assert policy(house) == "Retain"


def test_a_manually_deleted_claim_has_its_full_retention() -> None:
    house = House()
    house.volume("w-9", "Released")
    assert run(apply_retention, house.context(), always).steps == 1
    assert house.notes(VOLUMES, "pv-w-9")[DESTROY_AFTER] == format_timestamp(START + 30 * DAY)
    house.pass_(29 * 86400)
    assert run(apply_retention, house.context(), always).steps == 0
    house.pass_(2 * 86400)
    assert run(apply_retention, house.context(), always).steps == 1
    assert policy(house) == "Delete"


def test_a_deletion_date_months_in_the_past_has_its_full_retention() -> None:
    house = House()
    behind = START - 60 * DAY
    house.volume(
        "w-9", "Released", **{DELETED_AT: format_timestamp(behind), DESTROY_AFTER: format_timestamp(behind + 30 * DAY)}
    )
    volume = house.shelf.find(VOLUMES, "pv-w-9") or {}
    volume["status"]["lastPhaseTransitionTime"] = format_whole_seconds(START)
    house.shelf.put(VOLUMES, volume)
    for day, after in ((0, "Retain"), (29, "Retain"), (31, "Delete")):
        house.now = START + day * DAY + timedelta(minutes=1)
        run(apply_retention, house.context(), always)
        assert policy(house) == after


def sessions(house: House, number: int, **notes: str) -> None:
    for one in range(number):
        house.volume(f"a-{one:02}", "Released", **notes)
        session = house.shelf.find(VOLUMES, f"pv-a-{one:02}") or {}
        session["metadata"]["labels"]["sandbox.users.io/mode"] = "session"
        house.shelf.put(VOLUMES, session)


def test_sessions_with_an_early_end_do_not_delay_other_destructions() -> None:
    house = House()
    ended = {ARCHIVE_ENDED: format_timestamp(START - 40 * DAY)}
    dates = {DELETED_AT: format_timestamp(START - DAY), DESTROY_AFTER: format_timestamp(START + 29 * DAY)}
    sessions(house, AT_MOST, **ended, **dates)
    house.volume("w-9", "Released", **DATED)
    passes = [run(apply_retention, house.context(), always) for _ in range(3)]
    assert [(done.steps, done.more) for done in passes] == [(AT_MOST, True), (1, False), (0, False)]
    # The time that sessions are kept goes by from when it was seen that their chat is over.
    assert house.notes(VOLUMES, "pv-a-00")[DESTROY_AFTER] == format_timestamp(START + 7 * DAY)
    house.pass_(8 * 86400)
    assert run(apply_retention, house.context(), always).steps == AT_MOST
    assert {policy(house, name) for name in house.shelf.names(VOLUMES)} == {"Delete"}


def test_a_session_end_months_in_the_past_has_its_full_retention() -> None:
    house = House()
    deleted = START - timedelta(minutes=20)
    dates = {DELETED_AT: format_timestamp(deleted), DESTROY_AFTER: format_timestamp(deleted + 7 * DAY)}
    sessions(house, 1, **{ARCHIVE_ENDED: format_timestamp(START - 60 * DAY)}, **dates)
    for day, after in ((0, "Retain"), (0, "Retain"), (6, "Retain"), (8, "Delete")):
        house.now = START + day * DAY
        run(apply_retention, house.context(), always)
        assert policy(house, "pv-a-00") == after


def test_a_restored_session_is_not_destroyed_for_its_earlier_end() -> None:
    """Its workspace stands; what was said of its chat before is over with the dates of its deletion."""
    house = House()
    house.workspace("w-9")
    over = {ARCHIVE_ENDED: format_timestamp(START - 40 * DAY), **DATED}
    house.volume("w-9", "Bound", **over)
    assert run(apply_retention, house.context(), always).steps == 1
    assert not house.notes(VOLUMES, "pv-w-9").keys() & over.keys()


def test_an_available_volume_is_released_before_it_is_destroyed() -> None:
    house = House()
    house.volume("w-9", "Available", uid="", **DATED)
    assert run(apply_retention, house.context(), always).steps == 1
    found = house.shelf.find(VOLUMES, "pv-w-9") or {}
    assert (found["spec"]["claimRef"]["uid"], policy(house)) == (NOBODY, "Retain")


def test_a_refused_volume_does_not_block_the_others(house: House) -> None:
    house.volume("w-8", "Released")

    def refused(number: int) -> None:
        if number == 1:
            raise KubeApiError("no", 403)

    house.shelf.before = refused
    done = run(apply_retention, house.context(), always)
    assert (done.steps, len(done.failures)) == (1, 1)


def test_records_fill_pages_and_complete_old_pages_are_deleted(house: House) -> None:
    records = Records(Api(house.shelf), "default")
    for number in range(MOST + 2):
        assert run(records.write, f"pv-{number}", {"owner": "u"}, START)
    pages = [*house.shelf.list(CONFIGURATIONS, "default")]
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
    assert len([*house.shelf.list(CONFIGURATIONS, "default")]) == 1


def test_the_dates_of_a_slow_deletion_stay() -> None:
    """Its claim waits for a sandbox on a node that does not answer; what was asked for stands on its volume."""
    house = House()
    house.workspace("w-9")
    going = house.shelf.find(CLAIMS, "w-9", SPACE) or {}
    house.shelf.put(CLAIMS, {**going, "metadata": {**going["metadata"], "deletionTimestamp": format_timestamp(START)}})
    at_once = {DELETED_AT: format_timestamp(START), DESTROY_AFTER: format_timestamp(START)}
    house.volume("w-9", "Bound", **at_once)
    house.pass_(3600)
    assert run(apply_retention, house.context(), always).steps == 0
    assert house.notes(VOLUMES, "pv-w-9").items() >= at_once.items()
    # It came back in another class meanwhile: that one stands.
    again = {**going["metadata"], "namespace": "sandbox-other", "uid": "another"}
    house.shelf.put(CLAIMS, {**going, "metadata": again})
    assert run(apply_retention, house.context(), always).steps == 1
    assert not house.notes(VOLUMES, "pv-w-9").keys() & at_once.keys()


@pytest.fixture
def requested() -> House:
    """One of which destruction was requested a moment ago; its volume was released, and has a neighbour."""
    house = House()
    house.volume("w-8", "Released", **DATED)
    house.volume("w-9", "Released", **{DELETED_AT: format_timestamp(START), DESTROY_AFTER: format_timestamp(START)})
    house.shelf.objects[VOLUMES, "", "pv-w-9"]["metadata"]["labels"][DESTROY_REQUESTED] = "true"
    return house


def test_requested_destruction_does_not_wait_for_a_full_pass(requested: House) -> None:
    assert any(one.name == "destroying" and one.every <= 10 for one in loops_of(requested.context()))
    assert run(destroy_on_request, requested.context(), always).steps == 1
    assert (policy(requested), policy(requested, "pv-w-8")) == ("Delete", "Retain")
    assert record(requested)["workspace"] == "w-9"
    assert run(destroy_on_request, requested.context(), always).steps == 0


@pytest.mark.parametrize("change", [1, 2])
def test_interrupted_requested_destruction_is_completed_with_one_record(requested: House, change: int) -> None:
    def dies(number: int) -> None:
        if number == change:
            raise Killed

    requested.shelf.before = dies
    with pytest.raises(Killed):
        run(destroy_on_request, requested.context(), always)
    assert policy(requested) == "Retain"
    requested.shelf.before = lambda _: None
    # Whichever of the two loops comes first.
    assert (
        run(destroy_on_request, requested.context(), always).steps
        + run(apply_retention, requested.context(), always).steps
        >= 1
    )
    assert (policy(requested), bool(record(requested))) == ("Delete", True)


def test_requested_destruction_waits_for_the_release_and_the_claims(requested: House) -> None:
    released = requested.shelf.find(VOLUMES, "pv-w-9") or {}
    requested.shelf.put(VOLUMES, {**released, "status": {**released["status"], "phase": "Bound"}})
    assert run(destroy_on_request, requested.context(), always).steps == 0
    requested.workspace("w-9")
    requested.shelf.put(VOLUMES, released)
    assert run(destroy_on_request, requested.context(), always).steps == 0
    assert policy(requested) == "Retain"


def test_an_interrupted_request_to_destroy_is_undone_with_the_deletion() -> None:
    house = House()
    house.workspace("w-9")
    volume = house.shelf.find(VOLUMES, "pv-w-9") or {}
    marks = {"annotations": {DELETED_AT: format_timestamp(START)}, "labels": {DESTROY_REQUESTED: "true"}}
    assert house.shelf.patch(VOLUMES, volume, {"metadata": marks})
    house.pass_(3600)
    assert run(apply_retention, house.context(), always).steps == 1
    now = (house.shelf.find(VOLUMES, "pv-w-9") or {})["metadata"]
    assert DESTROY_REQUESTED not in now["labels"]
    assert DELETED_AT not in now["annotations"]
