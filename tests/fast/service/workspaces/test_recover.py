"""Homes are recorded outside of the cluster, and a cluster that has lost everything recovers their workspaces."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from agentenv.core.ledger.table import create_table
from agentenv.core.lifecycle.access_point_audit import Point
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.lifecycle.retention import retention_decision
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.records import workspace_of_volume
from agentenv.core.workspaces.recovery import HomeRecord, home_record, record_from_text, recovered_volume
from agentenv.core.workspaces.workspace import DELETED_AT, DESTROY_AFTER, KEY, RECOVERED_AT, SHARED
from agentenv.service.kube.client import CLAIMS, VOLUMES
from agentenv.service.ledger.home_records import HomeRecordTable
from agentenv.service.loops.home_records import HomeRecorder
from agentenv.service.workspaces.delete import shorten_retention
from agentenv.service.workspaces.recover import Recovering, Recovery
from agentenv.service.workspaces.retained_homes import home_of
from tests.fast.service.fake_api_server import Api
from tests.fast.service.loops.cluster import OWNER, SPACE, Cluster, always
from tests.fast.simulated_tables import table_client

NAME = "ledger"
LABEL = "label.sandbox.users.io/team"


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    """A table of the ledger."""
    with table_client(create_table(NAME)) as client:
        yield client


@pytest.fixture
def table(dynamodb: Any) -> HomeRecordTable:
    return HomeRecordTable(dynamodb, NAME)


def record(cluster: Cluster, table: HomeRecordTable) -> int:
    """Record the homes of a cluster as a new leader, and return the number of writes."""
    recorder = HomeRecorder(cluster.context(), table)
    return asyncio.run(recorder.record_all(always)).steps


def points_of(records: list[HomeRecord], **tags: str) -> list[Point]:
    return [_point(each.handle, {"sandbox-user": each.owner, "sandbox-class": "box", **tags}) for each in records]


def _point(handle: str, tags: dict[str, str]) -> Point:
    system, _, id_ = handle.partition("::")
    return Point(id_, system, f"/classes/box/{id_}", 7, 7, tags=tags)


def recover(cluster: Cluster, table: HomeRecordTable, points: list[Point]) -> Recovery:
    recovering = Recovering(Api(cluster.server), {"box": "5Gi"}, ["fs-1"], lambda: cluster.now)
    return asyncio.run(recovering.run(table.records(), points))


def lose(cluster: Cluster) -> Cluster:
    """Return a new cluster, without a workspace."""
    lost = Cluster()
    lost.now = cluster.now + timedelta(hours=1)
    return lost


def test_a_workspace_is_suspended_after_a_recovery_with_all_its_settings(table: HomeRecordTable) -> None:
    cluster = Cluster()
    cluster.workspace("w-1", **{KEY: "key", SHARED: '{"u-2":"rw"}'})
    cluster.server.objects[CLAIMS, SPACE, "w-1"]["metadata"]["labels"][LABEL] = "blue"
    assert record(cluster, table) == 1
    new = lose(cluster)
    found = recover(new, table, points_of(list(table.records())))
    assert (found.homes, found.workspaces, found.created, found.lost) == (1, 1, 1, [])
    volume = new.server.find(VOLUMES, "pv-w-1")
    assert volume is not None
    workspace = workspace_of_volume(volume)
    assert workspace is not None
    assert (workspace.id, workspace.owner, workspace.class_name, workspace.state) == ("w-1", OWNER, "box", "suspended")
    assert (workspace.key, workspace.shared, workspace.labels) == ("key", {"u-2": "rw"}, {"team": "blue"})
    assert volume["spec"]["csi"]["volumeHandle"] == "fs-1::fsap-w-1"
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def test_a_thousand_homes_are_recovered_and_none_is_lost(table: HomeRecordTable) -> None:
    cluster = Cluster()
    for number in range(700):
        cluster.workspace(f"w-{number}")
    deleted = format_timestamp(cluster.now)
    for number in range(700, 1000):
        due = format_timestamp(cluster.now + timedelta(days=30))
        cluster.volume(f"w-{number}", "Released", **{DELETED_AT: deleted, DESTROY_AFTER: due})
    assert record(cluster, table) == 1000
    new = lose(cluster)
    points = points_of(list(table.records()))
    found = recover(new, table, points)
    assert (found.homes, found.workspaces, found.created, found.lost) == (1000, 1000, 1000, [])
    volumes = [document for (kind, _, _), document in new.server.objects.items() if kind is VOLUMES]
    states = [workspace.state for volume in volumes if (workspace := workspace_of_volume(volume))]
    assert (states.count("suspended"), states.count("deleted")) == (700, 300)
    assert len({volume["spec"]["csi"]["volumeHandle"] for volume in volumes}) == 1000
    again = recover(new, table, points)
    assert (again.workspaces, again.created, again.lost) == (1000, 0, [])


@pytest.mark.parametrize("writes", range(4))
def test_a_recovery_that_was_killed_is_completed_by_the_next(table: HomeRecordTable, writes: int) -> None:
    cluster = Cluster()
    for number in range(4):
        cluster.workspace(f"w-{number}")
    record(cluster, table)
    points = points_of(list(table.records()))
    new = lose(cluster)

    class Killed(Exception):
        pass

    def kill(count: int, _: int) -> None:
        if count > writes:
            raise Killed

    recovering = Recovering(Api(new.server), {"box": "5Gi"}, ["fs-1"], lambda: new.now, progress=kill)
    with pytest.raises(Killed):
        asyncio.run(recovering.run(table.records(), points))
    found = recover(new, table, points)
    assert (found.homes, found.workspaces, found.lost) == (4, 4, [])
    assert found.created == 4 - writes - 1


def test_a_record_without_its_access_point_is_lost(table: HomeRecordTable) -> None:
    cluster = Cluster()
    cluster.workspace("w-1")
    record(cluster, table)
    new = lose(cluster)
    found = recover(new, table, [])
    assert found.lost == [f"w-1 of {OWNER}: its access point fs-1::fsap-w-1 is gone"]
    assert new.server.find(VOLUMES, "pv-w-1") is None


def test_a_record_of_another_owner_than_the_access_point_creates_nothing(table: HomeRecordTable) -> None:
    cluster = Cluster()
    cluster.workspace("w-1")
    record(cluster, table)
    new = lose(cluster)
    found = recover(new, table, points_of(list(table.records()), **{"sandbox-user": "u-other"}))
    assert ["another owner's tag" in line for line in found.lost] == [True]
    assert new.server.find(VOLUMES, "pv-w-1") is None


def test_a_home_that_was_claimed_just_before_the_loss_is_recovered_by_its_tags(table: HomeRecordTable) -> None:
    new = Cluster()
    tags = {"sandbox-user": OWNER, "sandbox-class": "box"}
    unclaimed = _point("fs-1::fsap-9", {})
    found = recover(new, table, [_point("fs-1::fsap-8", tags), unclaimed])
    assert (found.homes, found.workspaces, len(found.tags_only)) == (1, 1, 1)
    volume = new.server.find(VOLUMES, "recovered-fsap-8")
    assert volume is not None
    workspace = workspace_of_volume(volume)
    assert workspace is not None
    assert (workspace.owner, workspace.state, workspace.class_name) == (OWNER, "suspended", "box")
    assert volume["spec"]["storageClassName"] == "efs-box"


def test_a_home_of_a_class_that_is_not_in_the_stack_is_reported(table: HomeRecordTable) -> None:
    tags = {"sandbox-user": OWNER, "sandbox-class": "old"}
    point = replace(_point("fs-1::fsap-8", tags), path="/classes/old/x")
    found = recover(Cluster(), table, [point])
    assert found.lost == [f"fs-1::fsap-8 of {OWNER}: class old is not in the stack"]


def test_only_what_changed_is_written_and_what_is_gone_is_forgotten(table: HomeRecordTable) -> None:
    cluster = Cluster()
    cluster.workspace("w-1")
    cluster.workspace("w-2")
    recorder = HomeRecorder(cluster.context(), table)

    def steps() -> int:
        return asyncio.run(recorder.record_all(always)).steps

    assert [steps(), steps()] == [2, 0]
    # Activity is no part of the record.
    cluster.note("w-1", last_active=format_timestamp(cluster.now + timedelta(minutes=5)))
    assert steps() == 0
    cluster.note("w-1", budget="5")
    assert steps() == 1
    del cluster.server.objects[VOLUMES, "", "pv-w-2"]
    assert steps() == 1
    assert [each.volume for each in table.records()] == ["pv-w-1"]
    assert record(cluster, table) == 0, "a new leader reads what is recorded"


def test_homes_are_not_forgotten_while_an_object_cannot_be_read(table: HomeRecordTable) -> None:
    cluster = Cluster()
    cluster.workspace("w-1")
    record(cluster, table)
    odd = cluster.server.objects[VOLUMES, "", "pv-w-1"]
    odd["spec"]["accessModes"] = 7
    recorder = HomeRecorder(cluster.context(), table)
    assert asyncio.run(recorder.record_all(always)).failures
    assert [each.volume for each in table.records()] == ["pv-w-1"]


def test_a_recovered_home_is_not_destroyed_however_long_its_owner_is_away(table: HomeRecordTable) -> None:
    cluster = Cluster()
    cluster.workspace("w-1")
    record(cluster, table)
    [found] = table.records()
    volume = recovered_volume(found, cluster.now)
    volume["status"] = {"phase": "Released", "lastPhaseTransitionTime": format_timestamp(cluster.now)}
    limits = Limits(retain_deleted_for=timedelta(days=30))
    decision = retention_decision(home_of(volume), limits, cluster.now + timedelta(days=400))
    assert decision.do == "leave"


def test_a_recovered_workspace_can_be_deleted(table: HomeRecordTable) -> None:
    cluster = Cluster()
    cluster.workspace("w-1")
    record(cluster, table)
    new = lose(cluster)
    recover(new, table, points_of(list(table.records())))
    volume = new.server.find(VOLUMES, "pv-w-1")
    assert volume is not None
    deleted = asyncio.run(shorten_retention(Api(new.server), volume, timedelta(days=1), new.now))
    assert deleted is not None
    workspace = workspace_of_volume(deleted)
    assert workspace is not None
    assert workspace.state == "deleted"
    assert workspace.destroy_after == new.now + timedelta(days=1)
    assert RECOVERED_AT not in deleted["metadata"]["annotations"]


def test_a_record_reads_back_as_it_was_written() -> None:
    cluster = Cluster()
    cluster.workspace("w-1", **{KEY: "key"})
    volume, claim = cluster.server.find(VOLUMES, "pv-w-1"), cluster.server.find(CLAIMS, "w-1", SPACE)
    assert volume is not None
    first = home_record(volume, claim)
    assert first is not None
    assert record_from_text(first.as_text()) == first


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"volume":"pv","labels":3}', "null", "{", '{"labels":{"a":1}}'])
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"record of a home|Expecting"):
        record_from_text(text)


def test_the_home_of_a_declared_seat_is_not_recorded() -> None:
    cluster = Cluster()
    cluster.workspace("w-1")
    volume = cluster.server.objects[VOLUMES, "", "pv-w-1"]
    del volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"]
    assert home_record(volume, None) is None
