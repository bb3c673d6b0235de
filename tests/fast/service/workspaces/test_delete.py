"""Deleted workspaces stay deleted, also those that were moving to another class."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentenv.core.lifecycle.restore import MOVING_TO
from agentenv.core.values.timestamps import format_timestamp, parse_timestamp
from agentenv.core.workspaces.workspace import DELETED_AT, DESTROY_AFTER, DESTROY_REQUESTED, CreateRequest, Workspace
from agentenv.service.http.problems import Problem
from agentenv.service.workspaces.restore_requests import WorkspaceRestorer
from tests.fast.service.kube.apiserver import Object
from tests.fast.service.workspaces.stage import Stage, on_stage

CLASSES = ({"name": "standard"}, {"name": "other"})


async def was_deleted(stage: Stage, notes: dict[str, str]) -> None:
    """The volume of one that was deleted, with what it says, of which the view was told."""
    labels = {"sandbox.users.io/user": "u-1", "sandbox.users.io/workspace": "w-1"}
    ref = {"namespace": "sandbox-standard", "name": "home-w-1", "uid": "gone"}
    spec = {"claimRef": ref, "persistentVolumeReclaimPolicy": "Retain"}
    about = {"name": "pvc-w-1", "labels": labels, "annotations": notes}
    stage.server.put("persistentvolumes", {"metadata": about, "spec": spec, "status": {"phase": "Released"}})
    await stage.wait_until(lambda view: view.deleted("w-1"))


@pytest.mark.parametrize("days", [0, 90])
def test_deleting_a_deleted_workspace_cancels_its_move(days: int) -> None:
    async def act(stage: Stage) -> None:
        now = datetime.now(UTC)
        due = now + timedelta(days=30)
        notes = {MOVING_TO: "other", DELETED_AT: format_timestamp(now), DESTROY_AFTER: format_timestamp(due)}
        await was_deleted(stage, notes)
        result = await stage.backend.delete("w-1", keep_for=timedelta(days=days))
        metadata = stage.server.objects["persistentvolumes", "", "pvc-w-1"]["metadata"]["annotations"]
        assert (result.state, MOVING_TO in metadata) == ("deleted", False)
        # By being asked again it is never kept for longer.
        assert parse_timestamp(metadata[DESTROY_AFTER]) == result.destroy_after
        assert result.destroy_after is not None
        assert result.destroy_after <= datetime.now(UTC) + timedelta(days=min(days, 30), minutes=1)

    on_stage(act, *CLASSES)


@pytest.mark.parametrize("days", [0, 30])
def test_a_clock_that_is_behind_does_not_shorten_the_retention(days: int) -> None:
    """Of two dates of which the later comes first nobody could say when it may go."""

    async def act(stage: Stage) -> None:
        # Somebody whose clock is ten days ahead of ours deleted it.
        deleted = datetime.now(UTC) + timedelta(days=10)
        due = deleted + timedelta(days=30)
        notes = {DELETED_AT: format_timestamp(deleted), DESTROY_AFTER: format_timestamp(due)}
        await was_deleted(stage, notes)
        result = await stage.backend.delete("w-1", keep_for=timedelta(days=days))
        assert result.destroy_after is not None
        assert result.destroy_after == parse_timestamp(format_timestamp(deleted + timedelta(days=days)))

    on_stage(act, *CLASSES)


def test_a_deletion_cancels_a_move_that_is_about_to_start() -> None:
    async def act(stage: Stage) -> None:
        created = await stage.backend.create(CreateRequest("u-1", "user", "standard", "u-1"), wait=5)
        name = created.workspace.volume or ""
        volume = stage.server.objects["persistentvolumes", "", name]
        volume["metadata"].setdefault("annotations", {})[MOVING_TO] = "other"
        stage.server.put("persistentvolumes", volume)
        await stage.backend.delete(created.workspace.id, keep_for=timedelta(days=1))
        metadata = stage.server.objects["persistentvolumes", "", name]["metadata"]["annotations"]
        assert DELETED_AT in metadata
        assert MOVING_TO not in metadata

    on_stage(act, *CLASSES)


@pytest.mark.parametrize(("step", "ago"), [("recorded", 20), ("going", 20), ("going", 3600)])
def test_a_completed_deletion_has_the_same_timestamp(step: str, ago: int) -> None:
    """The first replica was killed after it recorded the deletion, or after it deleted the claim."""

    async def act(stage: Stage) -> None:
        created = await stage.backend.create(CreateRequest("u-1", "user", "standard", "u-1"), wait=5)
        name, volume = created.workspace.id, created.workspace.volume or ""
        recorded = datetime.now(UTC) - timedelta(seconds=ago)
        about = stage.server.objects["persistentvolumes", "", volume]["metadata"]
        about["annotations"] = {
            DELETED_AT: format_timestamp(recorded),
            DESTROY_AFTER: format_timestamp(recorded + timedelta(days=1)),
        }
        claim = stage.server.objects["sandboxclaims", "sandbox-standard", name]["metadata"]
        claim["creationTimestamp"] = format_timestamp(recorded - timedelta(hours=1))
        if step == "going":
            claim["deletionTimestamp"] = format_timestamp(recorded)
        await stage.backend.delete(name, keep_for=timedelta(days=1))
        metadata = stage.server.objects["persistentvolumes", "", volume]["metadata"]["annotations"]
        assert metadata[DELETED_AT] == format_timestamp(recorded)
        assert metadata[DESTROY_AFTER] == format_timestamp(recorded + timedelta(days=1))
        assert ("sandboxclaims", "sandbox-standard", name) not in stage.server.objects

    on_stage(act, *CLASSES)


class FailingRestorer(WorkspaceRestorer):
    """Says that a return begins."""

    async def restore(self, volume: Object, workspace: Workspace) -> Workspace:
        raise AssertionError(f"{workspace.id} is brought back on {volume['metadata']['name']}")

    async def change_class(self, claim: Object, to: Any) -> Workspace:
        raise NotImplementedError


REQUEST = CreateRequest("u-1", "user", "standard", "u-1")


@pytest.mark.parametrize("how", ["create", "resume"])
@pytest.mark.parametrize("kept_first", [False, True])
def test_data_with_requested_destruction_is_not_restored(how: str, *, kept_first: bool) -> None:
    async def act(stage: Stage) -> None:
        stage.backend._restorer = FailingRestorer(stage.kube)
        await stage.backend.create(REQUEST, wait=5)
        if kept_first:
            await stage.backend.delete(REQUEST.id, keep_for=timedelta(days=30))
        await stage.backend.delete(REQUEST.id, keep_for=timedelta(0))
        with pytest.raises(Problem, match="being destroyed") as refused:
            await (
                stage.backend.create(REQUEST, wait=5) if how == "create" else stage.backend.resume(REQUEST.id, wait=5)
            )
        assert (refused.value.status, refused.value.kind) == (409, "wrong-state")
        assert refused.value.retry_after is not None
        assert refused.value.document()["gone_in"] == refused.value.retry_after > 0

    on_stage(act, *CLASSES)


def test_a_claim_that_is_being_deleted_is_not_reported_as_retained() -> None:
    async def act(stage: Stage) -> None:
        created = await stage.backend.create(REQUEST, wait=5)
        claim = stage.server.objects["sandboxclaims", "sandbox-standard", REQUEST.id]
        await stage.backend.delete(REQUEST.id, keep_for=timedelta(0))
        # The API server keeps it until its pod is gone.
        going = {**claim["metadata"], "deletionTimestamp": "2026-11-18T20:00:00Z"}
        stage.server.put("sandboxclaims", {**claim, "metadata": going})
        assert created.workspace.volume is not None
        with pytest.raises(Problem, match="being destroyed"):
            await stage.backend.create(REQUEST, wait=5)
        # To ask for less, while it goes, takes nothing of the request back.
        await stage.backend.delete(REQUEST.id, keep_for=timedelta(days=30))
        with pytest.raises(Problem, match="being destroyed"):
            await stage.backend.create(REQUEST, wait=5)

    on_stage(act, *CLASSES)


def test_a_claim_created_during_requested_destruction_is_deleted() -> None:
    """Somebody returns in the moment in which the data is requested to be destroyed."""

    async def act(stage: Stage) -> None:
        created = await stage.backend.create(REQUEST, wait=5)
        claim = stage.server.objects["sandboxclaims", "sandbox-standard", REQUEST.id]
        await stage.backend.delete(REQUEST.id, keep_for=timedelta(days=30))
        shorten = stage.backend._shorten_retention

        async def raced(id_: str, keep_for: timedelta) -> Workspace | None:
            found = await shorten(id_, keep_for)
            stage.server.put("sandboxclaims", claim)
            return found

        stage.backend._shorten_retention = raced
        await stage.backend.delete(REQUEST.id, keep_for=timedelta(0))
        assert ("sandboxclaims", "sandbox-standard", REQUEST.id) not in stage.server.objects
        metadata = stage.server.objects["persistentvolumes", "", created.workspace.volume or ""]["metadata"]
        assert DELETED_AT in metadata["annotations"]

    on_stage(act, *CLASSES)


@pytest.mark.parametrize("days", [0, 30])
def test_a_restored_workspace_without_a_sandbox_is_deleted_with_its_data(days: int) -> None:
    async def act(stage: Stage) -> None:
        # Its dates go once its claim is there, a moment later.
        await was_deleted(stage, {DELETED_AT: "2026-11-01T00:00:00Z", DESTROY_AFTER: "2026-12-01T00:00:00Z"})
        labels = {"sandbox.users.io/user": "u-1", "sandbox.users.io/workspace": "w-1"}
        claim = {
            "metadata": {"name": "w-1", "namespace": "sandbox-standard", "labels": labels},
            "spec": {"warmPoolRef": {"name": "standard-cold"}, "additionalPodMetadata": {"labels": labels}},
        }
        marks = {"sandbox.users.io/returning": "true"}
        home = {"name": "home-w-1", "namespace": "sandbox-standard", "labels": marks}
        stage.server.put("persistentvolumeclaims", {"metadata": home, "spec": {"volumeName": "pvc-w-1"}})
        stage.server.put("sandboxclaims", claim)
        await stage.wait_until(lambda view: getattr(view.find("w-1"), "state", "deleted") == "creating")
        await stage.backend.delete("w-1", keep_for=timedelta(days=days))
        metadata = stage.server.objects["persistentvolumes", "", "pvc-w-1"]["metadata"]
        assert metadata["annotations"][DELETED_AT] > "2026-11-01T00:00:00Z"
        assert (DESTROY_REQUESTED in metadata["labels"]) == (days == 0)
        # No sandbox takes it any more: the volume is set free at once, and not by the pass over slots. What is kept may
        # be returned to meanwhile, by the same volume claim.
        waiting = ("persistentvolumeclaims", "sandbox-standard", "home-w-1") in stage.server.objects
        assert waiting == (days > 0)

    on_stage(act, *CLASSES)
