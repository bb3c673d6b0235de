"""A session ends with its chat: the archive reports it once, and the loops delete it."""

from __future__ import annotations

from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import ARCHIVE, ARCHIVE_ENDED, DELETED_AT, DESTROY_AFTER
from agentenv.service.kube.client import CLAIMS, VOLUMES
from agentenv.service.loops.retention import apply_retention
from agentenv.service.loops.workspace_passes import end_expired
from agentenv.service.workspaces.archives import end_session
from tests.fast.service.fake_api_server import run
from tests.fast.service.loops.cluster import OWNER, SPACE, START, House, always


def session(house: House, name: str, chat: str) -> None:
    house.workspace(name, **{ARCHIVE: chat})
    for key in ((CLAIMS, SPACE, name), (VOLUMES, "", f"pv-{name}")):
        house.shelf.objects[key]["metadata"]["labels"]["sandbox.users.io/mode"] = "session"
    labels = house.shelf.objects[CLAIMS, SPACE, name]["spec"]["additionalPodMetadata"]["labels"]
    labels["sandbox.users.io/mode"] = "session"


def test_sessions_of_an_archived_chat_are_deleted_and_their_data_a_week_later() -> None:
    house = House()
    session(house, "w-1", "chat-1")
    session(house, "w-2", "chat-2")
    house.workspace("w-3", **{ARCHIVE: "chat-1"})
    assert run(end_session, house.shelf, OWNER, "chat-1", house.now) == 1
    assert run(end_session, house.shelf, OWNER, "chat-1", house.now) == 0
    assert ARCHIVE_ENDED not in house.notes(name="w-3")
    house.pass_(60)
    assert run(end_expired, house.context(), always).steps == 1
    assert house.shelf.names(CLAIMS) == ["w-2", "w-3"]
    notes = house.notes(VOLUMES, "pv-w-1")
    assert (notes[DELETED_AT], notes[ARCHIVE]) == (format_timestamp(house.now), "chat-1")
    house.shelf.objects[VOLUMES, "", "pv-w-1"]["status"]["phase"] = "Released"
    house.pass_(6 * 86400)
    assert run(apply_retention, house.context(), always).steps == 0
    house.pass_(2 * 86400)
    assert run(apply_retention, house.context(), always).steps == 1


def test_a_deleted_session_is_annotated_and_its_data_is_destroyed_sooner() -> None:
    house = House()
    house.volume("w-9", "Released", **{ARCHIVE: "chat-9", DELETED_AT: format_timestamp(START)})
    house.shelf.objects[VOLUMES, "", "pv-w-9"]["metadata"]["labels"]["sandbox.users.io/mode"] = "session"
    far = {DESTROY_AFTER: "2027-06-01T00:00:00Z"}
    house.shelf.objects[VOLUMES, "", "pv-w-9"]["metadata"]["annotations"] |= far
    assert run(apply_retention, house.context(), always).steps == 0
    assert run(end_session, house.shelf, OWNER, "chat-9", house.now) == 1
    assert run(apply_retention, house.context(), always).steps == 1
    assert house.notes(VOLUMES, "pv-w-9")[DESTROY_AFTER] == "2026-11-25T12:00:00.000Z"


def test_a_chat_of_another_owner_with_the_same_id_is_not_ended() -> None:
    house = House()
    session(house, "w-1", "chat-1")
    assert run(end_session, house.shelf, "u-another", "chat-1", house.now) == 0
    assert ARCHIVE_ENDED not in house.notes(name="w-1")
