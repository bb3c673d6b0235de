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
from agentenv.service.loops.context import Context
from agentenv.service.loops.retention import MADE_BY, apply_retention
from agentenv.service.workspaces.restore import restore_workspace
from agentenv.service.workspaces.restore_requests import WorkspaceRestorer
from tests.fast.service.fake_api_server import Api, FakeApiServer, run
from tests.fast.service.loops.cluster import Hour
from tests.fast.service.workspaces.stage import settings_of

CATALOG = Catalog(settings_of({"name": "one"}, {"name": "two"}, {"name": "three"}))


def house(**notes: str) -> tuple[FakeApiServer, Document]:
    """Classes with a release each, and the volume of a workspace whose claim in class `one` is gone."""
    shelf = FakeApiServer()
    for name in CATALOG.classes:
        space = f"sandbox-{name}"
        constraints = {RELEASES_KEY: f"stable/{name}-t"}
        shelf.put(CONFIGURATIONS, {"metadata": {"name": CONSTRAINTS, "namespace": space}, "data": constraints})
        pod: dict[str, Any] = {"metadata": {"labels": {}}, "spec": {"securityContext": {}}}
        spec = {"podTemplate": pod, "volumeClaimTemplates": []}
        template = {"metadata": {"name": f"{name}-t", "namespace": space}, "spec": spec}
        shelf.put(TEMPLATES, template)
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
    shelf.put(VOLUMES, volume)
    return shelf, volume


@pytest.mark.parametrize("meanwhile", [{MOVING_TO: "three"}, {}])
def test_a_workspace_moved_meanwhile_is_not_created_twice(meanwhile: dict[str, str]) -> None:
    shelf, _ = house(**{DELETED_AT: "2026-11-18T20:00:00Z"}, **meanwhile)
    claim = claims.claim("one", "one-t", "w-1", owner="u-1", workspace="w-1")
    claim["metadata"]["uid"] = "gone"
    with pytest.raises(Problem, match="at the same time"):
        asyncio.run(WorkspaceRestorer(Api(shelf), timeout=0.2).change_class(claim, CATALOG.get("two")))
    assert shelf.names(CLAIMS) == []


def test_a_moving_workspace_is_restored_in_its_new_class() -> None:
    shelf, volume = house(**{DELETED_AT: "2026-11-18T20:00:00Z", MOVING_TO: "two"})
    kept = workspace_of_volume(volume)
    assert kept is not None
    back = asyncio.run(WorkspaceRestorer(Api(shelf), timeout=0.2).restore(volume, kept))
    assert (back.id, back.class_name) == ("w-1", "two")


class Told:
    def suspended(self, sandbox_class: str, because: str) -> None:
        raise AssertionError(f"{sandbox_class} sleeps: {because}")

    def findings(self, loop: str, counts: Mapping[str, int]) -> None:
        raise AssertionError(f"{loop} found {counts}")


@pytest.mark.parametrize("minutes", [0, 20])
@pytest.mark.parametrize("phase", ["Released", "Available"])
@pytest.mark.parametrize("change", [1, 2, 3])
def test_expired_data_is_not_released_during_a_restore(change: int, phase: str, minutes: int) -> None:
    """The pass of retention at each step of the way; by its own clock, and by one that is too far ahead to go by."""
    long_ago = {DELETED_AT: "2026-01-01T00:00:00Z", DESTROY_AFTER: "2026-02-01T00:00:00Z"}
    shelf, _ = house(**long_ago, **{MADE_BY: DRIVER})
    volume = shelf.find(VOLUMES, "pvc-1") or {}
    passes = [change]

    def retention_comes(number: int) -> None:
        if number in passes:
            passes.clear()
            status = {"phase": phase, "lastPhaseTransitionTime": long_ago[DELETED_AT]}
            shelf.put(VOLUMES, {**(shelf.find(VOLUMES, "pvc-1") or volume), "status": status})
            now = datetime.now(UTC) + timedelta(minutes=minutes)
            run(apply_retention, Context(Api(shelf), Hour(lambda: now), Told(), "default", "r1"), lambda: True)

    shelf.before = retention_comes
    outcome = run(restore_workspace, shelf, volume).outcome
    now = shelf.find(VOLUMES, "pvc-1") or {}
    if change == 1:
        # Nobody had said yet that they were coming.
        assert (outcome, shelf.names(CLAIMS)) == ("overtaken", [])
        return
    assert (outcome, shelf.names(CLAIMS)) == ("made", ["w-1"])
    assert now["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert (now["spec"]["claimRef"]["name"], now["spec"]["claimRef"].get("uid")) == ("home-w-1", None)
    assert now["metadata"]["annotations"] == {MADE_BY: DRIVER}
    if minutes == 0:
        # Nor is there a record that it was destroyed.
        assert set(shelf.names(CONFIGURATIONS)) == {CONSTRAINTS}


@pytest.mark.parametrize("times", [1, 3])
def test_deletion_dates_are_removed_despite_conflicts(times: int) -> None:
    shelf, volume = house(**{DELETED_AT: "2026-11-18T20:00:00Z", DESTROY_AFTER: "2026-12-18T20:00:00Z"})

    def controller(change: int) -> None:
        # After the volume, its claim and the workspace's claim come the dates; the volume has just been bound.
        if 4 <= change < 4 + times:
            shelf.put(VOLUMES, {**(shelf.find(VOLUMES, "pvc-1") or volume), "status": {"phase": "Bound"}})

    shelf.before = controller
    assert run(restore_workspace, shelf, volume).outcome == "made"
    assert not section((shelf.find(VOLUMES, "pvc-1") or volume)["metadata"], "annotations")


def test_the_dates_of_a_second_deletion_stay() -> None:
    shelf, volume = house(**{DELETED_AT: "2026-11-18T20:00:00Z"})
    again = {DELETED_AT: "2026-11-18T20:00:09Z"}

    def somebody(change: int) -> None:
        if change == 4:
            now = shelf.find(VOLUMES, "pvc-1") or volume
            shelf.put(VOLUMES, {**now, "metadata": {**now["metadata"], "annotations": again}})

    shelf.before = somebody
    assert run(restore_workspace, shelf, volume).outcome == "made"
    assert (shelf.find(VOLUMES, "pvc-1") or volume)["metadata"]["annotations"] == again


@pytest.mark.parametrize("change", [1, 2, 3, 4])
def test_requested_destruction_wins_over_a_restore_at_each_step(change: int) -> None:
    shelf, volume = house(**{DELETED_AT: "2026-11-18T20:00:00Z", DESTROY_AFTER: "2026-12-18T20:00:00Z"})
    requested = {DELETED_AT: "2026-11-18T20:00:00Z", DESTROY_AFTER: "2026-11-18T21:00:00Z"}

    def somebody(number: int) -> None:
        if number == change:
            shelf.before = lambda _: None
            now = shelf.find(VOLUMES, "pvc-1") or volume
            labels = {**now["metadata"]["labels"], DESTROY_REQUESTED: "true"}
            shelf.put(VOLUMES, {**now, "metadata": {**now["metadata"], "annotations": requested, "labels": labels}})

    shelf.before = somebody
    outcomes = [run(restore_workspace, shelf, shelf.find(VOLUMES, "pvc-1") or volume).outcome for _ in range(2)]
    assert outcomes[-1] == "refused"
    assert shelf.names(CLAIMS) == []
    now = (shelf.find(VOLUMES, "pvc-1") or volume)["metadata"]
    assert (now["labels"][DESTROY_REQUESTED], now["annotations"].items() >= requested.items()) == ("true", True)


def test_a_restore_waits_for_a_volume_bound_to_a_deleted_claim() -> None:
    """A second return is by a volume claim of the same name: bound to the first one, its volume is nobody's yet."""
    shelf, volume = house(**{DELETED_AT: "2026-11-18T20:00:00Z"})
    shelf.put(VOLUMES, {**volume, "status": {"phase": "Bound"}})
    back = run(restore_workspace, shelf, shelf.find(VOLUMES, "pvc-1") or volume)
    assert (back.outcome, shelf.names(CLAIMS), shelf.names(VOLUME_CLAIMS)) == ("waiting", [], [])
    # Nor is it that of another volume claim of that name.
    home: Document = {"name": "home-w-1", "namespace": "sandbox-one", "uid": "another"}
    shelf.put(VOLUME_CLAIMS, {"metadata": home, "spec": {"volumeName": "pvc-1"}})
    assert run(restore_workspace, shelf, shelf.find(VOLUMES, "pvc-1") or volume).outcome == "waiting"
    shelf.put(VOLUME_CLAIMS, {"metadata": {**home, "uid": "gone"}, "spec": {"volumeName": "pvc-1"}})
    assert run(restore_workspace, shelf, shelf.find(VOLUMES, "pvc-1") or volume).outcome == "made"
