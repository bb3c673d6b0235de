"""What is deleted stays so, also what was on its way to another class."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from model.lifecycle.returning import MOVING_TO
from model.moments import moment, written
from model.workspaces import DELETED_AT, DESTROY_AFTER, Asked
from tests.fast.service.backend.stage import Stage, staged


def on_stage(act: Callable[[Stage], Awaitable[None]]) -> None:
    async def play() -> None:
        async with staged({"name": "standard"}, {"name": "other"}) as stage, asyncio.timeout(20):
            await act(stage)

    asyncio.run(play())


async def was_deleted(stage: Stage, notes: dict[str, str]) -> None:
    """The volume of one that was deleted, with what it says, of which the view was told."""
    labels = {"sandbox.users.io/user": "u-1", "sandbox.users.io/workspace": "w-1"}
    ref = {"namespace": "sandbox-standard", "name": "home-w-1", "uid": "gone"}
    spec = {"claimRef": ref, "persistentVolumeReclaimPolicy": "Retain"}
    about = {"name": "pvc-w-1", "labels": labels, "annotations": notes}
    stage.server.put("persistentvolumes", {"metadata": about, "spec": spec, "status": {"phase": "Released"}})
    await stage.told(lambda view: view.deleted("w-1"))


@pytest.mark.parametrize("days", [0, 90])
def test_one_that_was_on_its_way_to_another_class_is_not_brought_back_there(days: int) -> None:
    async def act(stage: Stage) -> None:
        now = datetime.now(UTC)
        due = now + timedelta(days=30)
        notes = {MOVING_TO: "other", DELETED_AT: written(now), DESTROY_AFTER: written(due)}
        await was_deleted(stage, notes)
        told = await stage.backend.delete("w-1", keep_for=timedelta(days=days))
        kept = stage.server.things["persistentvolumes", "", "pvc-w-1"]["metadata"]["annotations"]
        assert (told.state, MOVING_TO in kept) == ("deleted", False)
        # By being asked again it is never kept for longer.
        assert moment(kept[DESTROY_AFTER]) == told.destroy_after
        assert told.destroy_after is not None
        assert told.destroy_after <= datetime.now(UTC) + timedelta(days=min(days, 30), minutes=1)

    on_stage(act)


@pytest.mark.parametrize("days", [0, 30])
def test_by_a_clock_that_is_behind_it_is_kept_no_shorter_than_was_asked_for(days: int) -> None:
    """Of two dates of which the later comes first nobody could say when it may go."""

    async def act(stage: Stage) -> None:
        # Somebody whose clock is ten days ahead of ours deleted it.
        deleted = datetime.now(UTC) + timedelta(days=10)
        due = deleted + timedelta(days=30)
        notes = {DELETED_AT: written(deleted), DESTROY_AFTER: written(due)}
        await was_deleted(stage, notes)
        told = await stage.backend.delete("w-1", keep_for=timedelta(days=days))
        assert told.destroy_after is not None
        assert told.destroy_after == moment(written(deleted + timedelta(days=days)))

    on_stage(act)


def test_one_that_was_about_to_move_is_not_brought_back_either() -> None:
    async def act(stage: Stage) -> None:
        made = await stage.backend.create(Asked("u-1", "user", "standard", "u-1"), wait=5)
        name = made.workspace.volume or ""
        volume = stage.server.things["persistentvolumes", "", name]
        volume["metadata"].setdefault("annotations", {})[MOVING_TO] = "other"
        stage.server.put("persistentvolumes", volume)
        await stage.backend.delete(made.workspace.id, keep_for=timedelta(days=1))
        kept = stage.server.things["persistentvolumes", "", name]["metadata"]["annotations"]
        assert DELETED_AT in kept
        assert MOVING_TO not in kept

    on_stage(act)


@pytest.mark.parametrize("step", ["recorded", "going"])
def test_whoever_finishes_a_deletion_comes_to_the_same_timestamp(step: str) -> None:
    """The first replica was killed after it recorded the deletion, or after it deleted the claim."""

    async def act(stage: Stage) -> None:
        made = await stage.backend.create(Asked("u-1", "user", "standard", "u-1"), wait=5)
        name, volume = made.workspace.id, made.workspace.volume or ""
        recorded = datetime.now(UTC) - timedelta(seconds=20)
        about = stage.server.things["persistentvolumes", "", volume]["metadata"]
        about["annotations"] = {DELETED_AT: written(recorded), DESTROY_AFTER: written(recorded + timedelta(days=1))}
        claim = stage.server.things["sandboxclaims", "sandbox-standard", name]["metadata"]
        claim["creationTimestamp"] = written(recorded - timedelta(hours=1))
        if step == "going":
            claim["deletionTimestamp"] = written(recorded)
        await stage.backend.delete(name, keep_for=timedelta(days=1))
        kept = stage.server.things["persistentvolumes", "", volume]["metadata"]["annotations"]
        assert kept[DELETED_AT] == written(recorded)
        assert kept[DESTROY_AFTER] == written(recorded + timedelta(days=1))
        assert ("sandboxclaims", "sandbox-standard", name) not in stage.server.things

    on_stage(act)
