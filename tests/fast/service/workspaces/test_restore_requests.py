"""A restore, a move and a deletion at the same time do not overrule each other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentenv.core.classes.names import CONSTRAINTS
from agentenv.core.classes.retirement import RELEASES_KEY
from agentenv.core.classes.storage_classes import DRIVER
from agentenv.core.lifecycle.restore import MOVING_TO
from agentenv.core.workspaces import claims
from agentenv.core.workspaces.records import workspace_of_volume
from agentenv.core.workspaces.workspace import DELETED_AT, DESTROY_AFTER, DESTROY_REQUESTED
from agentenv.service.catalog import Catalog
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import (
    CLAIMS,
    CONFIGURATIONS,
    TEMPLATES,
    VOLUME_CLAIMS,
    VOLUMES,
    Document,
    section,
)
from agentenv.service.loops.context import cluster_context
from agentenv.service.loops.retention import apply_retention
from agentenv.service.workspaces.restore import restore_workspace
from agentenv.service.workspaces.restore_requests import WorkspaceRestorer
from agentenv.service.workspaces.retained_homes import MADE_BY
from tests.fast.service.fake_api_server import Api, FakeApiServer, run
from tests.fast.service.loops.cluster import StubClock
from tests.fast.service.workspaces.stage import settings_of

CATALOG = Catalog(settings_of({"name": "one"}, {"name": "two"}, {"name": "three"}))


def deleted_workspace(**notes: str) -> tuple[FakeApiServer, Document]:
    """Classes with a release each, and the volume of a workspace whose claim in class `one` is gone."""
    server = FakeApiServer()
    for name in CATALOG.classes:
        space = f"sandbox-{name}"
        constraints = {RELEASES_KEY: f"stable/{name}-t"}
        server.put(CONFIGURATIONS, {"metadata": {"name": CONSTRAINTS, "namespace": space}, "data": constraints})
        pod: dict[str, Any] = {"metadata": {"labels": {}}, "spec": {"securityContext": {}}}
        spec = {"podTemplate": pod, "volumeClaimTemplates": []}
        template = {"metadata": {"name": f"{name}-t", "namespace": space}, "spec": spec}
        server.put(TEMPLATES, template)
    labels = {"sandbox.users.io/user": "u-1", "sandbox.users.io/workspace": "w-1"}
    volume: Document = {
        "metadata": {"name": "pvc-1", "labels": labels, "annotations": notes},
        "spec": {
            "claimRef": {"namespace": "sandbox-one", "name": "home-w-1", "uid": "gone"},
            "persistentVolumeReclaimPolicy": "Retain",
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteMany"],
        },
        "status": {"phase": "Released"},
    }
    server.put(VOLUMES, volume)
    return server, volume


@pytest.mark.parametrize("meanwhile", [{MOVING_TO: "three"}, {}])
def test_a_workspace_moved_meanwhile_is_not_created_twice(meanwhile: dict[str, str]) -> None:
    server, _ = deleted_workspace(**{DELETED_AT: "2026-11-18T20:00:00Z"}, **meanwhile)
    claim = claims.claim("one", "one-t", "w-1", owner="u-1", workspace="w-1")
    claim["metadata"]["uid"] = "gone"
    with pytest.raises(Problem, match="at the same time"):
        asyncio.run(WorkspaceRestorer(Api(server), timeout=0.2).change_class(claim, CATALOG.get("two")))
    assert server.names(CLAIMS) == []


def test_a_moving_workspace_is_restored_in_its_new_class() -> None:
    server, volume = deleted_workspace(**{DELETED_AT: "2026-11-18T20:00:00Z", MOVING_TO: "two"})
    workspace = workspace_of_volume(volume)
    assert workspace is not None
    back = asyncio.run(WorkspaceRestorer(Api(server), timeout=60).restore(volume, workspace))
    assert (back.id, back.class_name) == ("w-1", "two")


class NoMetrics:
    def suspended(self, sandbox_class: str, because: str) -> None:
        raise AssertionError(f"{sandbox_class} sleeps: {because}")

    def restarted(self, sandbox_class: str, why: str) -> None:
        raise AssertionError(f"{sandbox_class} restarts: {why}")

    def missed_pod(self, namespace: str) -> None:
        raise AssertionError(f"a pod of {namespace} was missed")

    def findings(self, loop: str, counts: Mapping[str, int]) -> None:
        raise AssertionError(f"{loop} found {counts}")


@pytest.mark.parametrize("minutes", [0, 20])
@pytest.mark.parametrize("phase", ["Released", "Available"])
@pytest.mark.parametrize("change", [1, 2, 3])
def test_expired_data_is_not_released_during_a_restore(change: int, phase: str, minutes: int) -> None:
    """The pass of retention at each step of the way; by its own clock, and by one that is too far ahead to go by."""
    long_ago = {DELETED_AT: "2026-01-01T00:00:00Z", DESTROY_AFTER: "2026-02-01T00:00:00Z"}
    server, _ = deleted_workspace(**long_ago, **{MADE_BY: DRIVER})
    volume = server.find(VOLUMES, "pvc-1") or {}
    passes = [change]

    def retention_comes(number: int) -> None:
        if number in passes:
            passes.clear()
            status = {"phase": phase, "lastPhaseTransitionTime": long_ago[DELETED_AT]}
            server.put(VOLUMES, {**(server.find(VOLUMES, "pvc-1") or volume), "status": status})
            now = datetime.now(UTC) + timedelta(minutes=minutes)
            run(
                apply_retention,
                cluster_context(Api(server), StubClock(lambda: now), NoMetrics(), "default", "r1"),
                lambda: True,
            )

    server.before = retention_comes
    outcome = run(restore_workspace, server, volume).outcome
    now = server.find(VOLUMES, "pvc-1") or {}
    if change == 1:
        # Nobody had said yet that they were coming.
        assert (outcome, server.names(CLAIMS)) == ("overtaken", [])
        return
    assert (outcome, server.names(CLAIMS)) == ("made", ["w-1"])
    assert now["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert (now["spec"]["claimRef"]["name"], now["spec"]["claimRef"].get("uid")) == ("home-w-1", None)
    assert now["metadata"]["annotations"] == {MADE_BY: DRIVER}
    if minutes == 0:
        # Nor is there a record that it was destroyed.
        assert set(server.names(CONFIGURATIONS)) == {CONSTRAINTS}


@pytest.mark.parametrize("times", [1, 3])
def test_deletion_dates_are_removed_despite_conflicts(times: int) -> None:
    server, volume = deleted_workspace(**{DELETED_AT: "2026-11-18T20:00:00Z", DESTROY_AFTER: "2026-12-18T20:00:00Z"})

    def controller(change: int) -> None:
        # After the volume, its claim and the workspace's claim come the dates; the volume has just been bound.
        if 4 <= change < 4 + times:
            server.put(VOLUMES, {**(server.find(VOLUMES, "pvc-1") or volume), "status": {"phase": "Bound"}})

    server.before = controller
    assert run(restore_workspace, server, volume).outcome == "made"
    assert not section((server.find(VOLUMES, "pvc-1") or volume)["metadata"], "annotations")


def test_the_dates_of_a_second_deletion_stay() -> None:
    server, volume = deleted_workspace(**{DELETED_AT: "2026-11-18T20:00:00Z"})
    again = {DELETED_AT: "2026-11-18T20:00:09Z"}

    def somebody(change: int) -> None:
        if change == 4:
            now = server.find(VOLUMES, "pvc-1") or volume
            server.put(VOLUMES, {**now, "metadata": {**now["metadata"], "annotations": again}})

    server.before = somebody
    assert run(restore_workspace, server, volume).outcome == "made"
    assert (server.find(VOLUMES, "pvc-1") or volume)["metadata"]["annotations"] == again


@pytest.mark.parametrize("change", [1, 2, 3, 4])
def test_requested_destruction_wins_over_a_restore_at_each_step(change: int) -> None:
    server, volume = deleted_workspace(**{DELETED_AT: "2026-11-18T20:00:00Z", DESTROY_AFTER: "2026-12-18T20:00:00Z"})
    requested = {DELETED_AT: "2026-11-18T20:00:00Z", DESTROY_AFTER: "2026-11-18T21:00:00Z"}

    def somebody(number: int) -> None:
        if number == change:
            server.before = lambda _: None
            now = server.find(VOLUMES, "pvc-1") or volume
            labels = {**now["metadata"]["labels"], DESTROY_REQUESTED: "true"}
            server.put(VOLUMES, {**now, "metadata": {**now["metadata"], "annotations": requested, "labels": labels}})

    server.before = somebody
    outcomes = [run(restore_workspace, server, server.find(VOLUMES, "pvc-1") or volume).outcome for _ in range(2)]
    assert outcomes[-1] == "refused"
    assert server.names(CLAIMS) == []
    now = (server.find(VOLUMES, "pvc-1") or volume)["metadata"]
    assert (now["labels"][DESTROY_REQUESTED], now["annotations"].items() >= requested.items()) == ("true", True)


def test_a_restore_waits_for_a_volume_bound_to_a_deleted_claim() -> None:
    """A second return is by a volume claim of the same name: bound to the first one, its volume is nobody's yet."""
    server, volume = deleted_workspace(**{DELETED_AT: "2026-11-18T20:00:00Z"})
    server.put(VOLUMES, {**volume, "status": {"phase": "Bound"}})
    back = run(restore_workspace, server, server.find(VOLUMES, "pvc-1") or volume)
    assert (back.outcome, server.names(CLAIMS), server.names(VOLUME_CLAIMS)) == ("waiting", [], [])
    # Nor is it that of another volume claim of that name.
    home: Document = {"name": "home-w-1", "namespace": "sandbox-one", "uid": "another"}
    server.put(VOLUME_CLAIMS, {"metadata": home, "spec": {"volumeName": "pvc-1"}})
    assert run(restore_workspace, server, server.find(VOLUMES, "pvc-1") or volume).outcome == "waiting"
    server.put(VOLUME_CLAIMS, {"metadata": {**home, "uid": "gone"}, "spec": {"volumeName": "pvc-1"}})
    assert run(restore_workspace, server, server.find(VOLUMES, "pvc-1") or volume).outcome == "made"
