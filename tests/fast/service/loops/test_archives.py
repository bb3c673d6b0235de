"""A session ends with its chat: the archive reports it once, and the loops delete it."""

from __future__ import annotations

from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import ARCHIVE, ARCHIVE_ENDED, DELETED_AT, DESTROY_AFTER
from agentenv.service.kube.client import CLAIMS, VOLUMES
from agentenv.service.loops.retention import apply_retention
from agentenv.service.loops.workspace_passes import end_expired
from agentenv.service.workspaces.archives import end_session
from tests.fast.service.fake_api_server import run
from tests.fast.service.loops.cluster import OWNER, SPACE, START, Cluster, always


def session(cluster: Cluster, name: str, chat: str) -> None:
    cluster.workspace(name, **{ARCHIVE: chat})
    for key in ((CLAIMS, SPACE, name), (VOLUMES, "", f"pv-{name}")):
        cluster.server.objects[key]["metadata"]["labels"]["sandbox.users.io/mode"] = "session"
    labels = cluster.server.objects[CLAIMS, SPACE, name]["spec"]["additionalPodMetadata"]["labels"]
    labels["sandbox.users.io/mode"] = "session"


def test_sessions_of_an_archived_chat_are_deleted_and_their_data_a_week_later() -> None:
    cluster = Cluster()
    session(cluster, "w-1", "chat-1")
    session(cluster, "w-2", "chat-2")
    cluster.workspace("w-3", **{ARCHIVE: "chat-1"})
    assert run(end_session, cluster.server, OWNER, "chat-1", cluster.now) == 1
    assert run(end_session, cluster.server, OWNER, "chat-1", cluster.now) == 0
    assert ARCHIVE_ENDED not in cluster.notes(name="w-3")
    cluster.advance(60)
    assert run(end_expired, cluster.context(), always).steps == 1
    assert cluster.server.names(CLAIMS) == ["w-2", "w-3"]
    notes = cluster.notes(VOLUMES, "pv-w-1")
    assert (notes[DELETED_AT], notes[ARCHIVE]) == (format_timestamp(cluster.now), "chat-1")
    cluster.server.objects[VOLUMES, "", "pv-w-1"]["status"]["phase"] = "Released"
    cluster.advance(6 * 86400)
    assert run(apply_retention, cluster.context(), always).steps == 0
    cluster.advance(2 * 86400)
    assert run(apply_retention, cluster.context(), always).steps == 1


def test_a_deleted_session_is_annotated_and_its_data_is_destroyed_sooner() -> None:
    cluster = Cluster()
    cluster.volume("w-9", "Released", **{ARCHIVE: "chat-9", DELETED_AT: format_timestamp(START)})
    cluster.server.objects[VOLUMES, "", "pv-w-9"]["metadata"]["labels"]["sandbox.users.io/mode"] = "session"
    far = {DESTROY_AFTER: "2027-06-01T00:00:00Z"}
    cluster.server.objects[VOLUMES, "", "pv-w-9"]["metadata"]["annotations"] |= far
    assert run(apply_retention, cluster.context(), always).steps == 0
    assert run(end_session, cluster.server, OWNER, "chat-9", cluster.now) == 1
    assert run(apply_retention, cluster.context(), always).steps == 1
    assert cluster.notes(VOLUMES, "pv-w-9")[DESTROY_AFTER] == "2026-11-25T12:00:00.000Z"


def test_a_chat_of_another_owner_with_the_same_id_is_not_ended() -> None:
    cluster = Cluster()
    session(cluster, "w-1", "chat-1")
    assert run(end_session, cluster.server, "u-another", "chat-1", cluster.now) == 0
    assert ARCHIVE_ENDED not in cluster.notes(name="w-1")
