"""Killed at every step (`kill -9`) of being kept, put to sleep, woken, deleted, brought back and moved.

Each time the loops run after it, and each time the same holds: the files are on their one volume, which is kept; there
is one sandbox at most; and what was begun is either done or not begun.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest

from agentenv.core.classes.names import VOLUME_RETAINED
from agentenv.core.lifecycle import retention
from agentenv.core.lifecycle import wake as waking
from agentenv.core.workspaces.workspace import DELETED_AT, DESTROY_REQUESTED, SUSPENDED_BECAUSE
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.service.loops.retention import destroy_on_request
from agentenv.service.workspaces.restore import restore_workspace, retained_volume
from tests.live.conftest import World
from tests.live.controlplane.things import PATIENCE, becomes_ready
from tests.live.service.blocking import Blocking, run
from tests.live.service.conftest import EXTENSIONS, IMAGES, Box
from tests.live.service.lifecycle import OWNER, Stage

SOON = timedelta(seconds=45)
LATER = retention.UNFINISHED + timedelta(minutes=1)


@pytest.fixture(scope="module")
def box(world: World, ground: Client, system: str) -> Iterator[Box]:
    """One class for all of them: each has workspaces of its own."""
    cluster = Blocking.from_kubeconfig(world.plane.kubeconfig())
    box_ = Box(f"box{uuid.uuid4().hex[:6]}", ground, cluster, system, most=30)
    yield box_
    ground.delete(f"/api/v1/namespaces/{box_.space}")
    cluster.close()


@pytest.fixture(scope="module")
def other(box: Box) -> Iterator[Box]:
    """Another class."""
    other_ = Box(f"more{uuid.uuid4().hex[:6]}", box.client, box.cluster, box.system, size=0)
    yield other_
    box.client.delete(f"/api/v1/namespaces/{other_.space}")


@pytest.fixture
def stage(box: Box, other: Box, world: World) -> Iterator[Stage]:
    stage_ = Stage(box, world, other)
    yield stage_
    stage_.clear()


@pytest.fixture
def pool(box: Box) -> str:
    pool_ = box.deploy(IMAGES[0])
    assert until(lambda: box.full(pool_), PATIENCE)
    return pool_


def test_killed_while_a_volume_is_kept(stage: Stage, pool: str) -> None:
    step = 0
    while True:
        step += 1
        name = stage.make(pool, keep_it=False)
        volume = stage.volume(name)
        killed = stage.kill("keep", name, step)
        assert stage.done_by_loops(lambda name=name: stage.notes(name).get(VOLUME_RETAINED) == "true")
        document = stage.document(volume) or {}
        assert document["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert (stage.homes(name), stage.notes(name)[VOLUME_RETAINED]) == ([volume], "true")
        if not killed:
            break
    assert step == 3


def test_killed_while_it_is_put_to_sleep_or_woken(stage: Stage, pool: str) -> None:
    name = stage.make(pool)
    volume = stage.volume(name)
    # After the first step it is meant to sleep, and does not yet.
    assert stage.kill("suspend", name, 1)
    assert (stage.notes(name)[SUSPENDED_BECAUSE], stage.mode(name)) == ("idle", "Running")
    # It is used, so it is left awake and what was begun is taken back.
    assert stage.done_by_loops(lambda: SUSPENDED_BECAUSE not in stage.notes(name))
    assert stage.mode(name) == "Running"
    # Begun once more, when nobody has used it for long: the pass goes on with it.
    assert stage.kill("suspend", name, 1)
    assert stage.done_by_loops(lambda: stage.mode(name) == "Suspended", timedelta(hours=1))
    assert stage.notes(name)[SUSPENDED_BECAUSE] == "idle"
    assert until(lambda: asleep(stage, name), PATIENCE)
    # After the first step of waking nothing says why it sleeps; the loop wakes it, for it was asked for just now.
    assert stage.kill("wake", name, 1)
    assert (stage.notes(name).get(SUSPENDED_BECAUSE), stage.mode(name)) == (None, "Suspended")
    assert stage.done_by_loops(lambda: stage.mode(name) == "Running")
    assert until(lambda: not asleep(stage, name), PATIENCE)
    assert stage.kill("suspend", name, 2)
    assert (stage.notes(name)[SUSPENDED_BECAUSE], stage.mode(name)) == ("idle", "Suspended")
    assert stage.kill("wake", name, 2)
    assert stage.mode(name) == "Running"
    assert not stage.kill("wake", name, 9)
    # By hand, and with no sign of anybody: it sleeps on.
    where = f"/apis/agents.x-k8s.io/v1beta1/namespaces/{stage.box.space}/sandboxes/{stage.sandbox(name)}"
    by_hand = {"spec": {"operatingMode": "Suspended"}}
    stage.box.client.request("PATCH", where, by_hand, content="application/merge-patch+json")
    assert until(lambda: asleep(stage, name), PATIENCE)
    assert stage.loops(waking.UNFINISHED + SOON) == []
    assert stage.mode(name) == "Suspended"
    assert (stage.volume(name), stage.phase(volume)) == (volume, "Bound")


def asleep(stage: Stage, name: str) -> bool:
    from agentenv.core.workspaces.records import workspace_of_claim

    read = workspace_of_claim(stage.claim(name) or {})
    return read is not None and read.state == "suspended"


def test_killed_while_it_is_deleted(stage: Stage, pool: str) -> None:
    step = 0
    while True:
        step += 1
        name = stage.make(pool)
        volume = stage.volume(name)
        killed = stage.kill("delete", name, step)
        if not killed:
            break
        assert stage.loops() == []
        if stage.claim(name) is not None and not (stage.claim(name) or {})["metadata"].get("deletionTimestamp"):
            # It was asked for and not done; nobody asks again, so after a while it was not deleted.
            assert DELETED_AT in (stage.document(volume) or {})["metadata"]["annotations"]
            assert stage.done_by_loops(lambda volume=volume: undated(stage, volume), LATER)
            assert stage.volume(name) == volume
        else:
            assert until(lambda volume=volume: stage.phase(volume) == "Released", PATIENCE)
            assert stage.loops(LATER) == []
            assert DELETED_AT in (stage.document(volume) or {})["metadata"]["annotations"]
        assert (stage.document(volume) or {})["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert stage.homes(name) == [volume]
    assert step >= 3


def test_killed_while_it_is_deleted_with_its_data(stage: Stage, pool: str) -> None:
    step = 0
    while True:
        step += 1
        name = stage.make(pool)
        volume = stage.volume(name)
        killed = stage.kill("destroy", name, step)
        claim = stage.claim(name)
        if claim is not None and not claim["metadata"].get("deletionTimestamp"):
            # Nobody was answered, and nobody asks again: it stands, and its data is no longer to be destroyed.
            assert stage.done_by_loops(lambda volume=volume: undated(stage, volume), LATER)
            labels = (stage.document(volume) or {})["metadata"]["labels"]
            assert (stage.volume(name), DESTROY_REQUESTED in labels) == (volume, False)
        else:
            assert back(stage, name) is False
            assert until(lambda volume=volume: destroyed(stage, volume), PATIENCE, every=0.5)
            assert (stage.homes(name), stage.claim(name)) == ([], None)
        if not killed:
            break
    # The volume, and the claim.
    assert step == 3


def destroyed(stage: Stage, volume: str) -> bool:
    """Return whether a volume is gone, after a pass of the loop that alone destroys it by now."""
    assert run(destroy_on_request, stage.context(), lambda: True).failures == ()
    return stage.phase(volume) == "gone"


def test_killed_while_it_is_brought_back(stage: Stage, pool: str) -> None:
    name = stage.make(pool)
    volume = stage.volume(name)
    step = 0
    while True:
        step += 1
        assert stage.delete(name) == volume
        killed = until_it_runs(stage, name, step)
        assert stage.loops() == []
        # Whoever asks again is served, from wherever it stood.
        assert until(lambda: back(stage, name), PATIENCE)
        stands(stage, name, volume)
        if not killed:
            break
    # The volume, its claim, the workspace's claim, and the dates.
    assert step == 5


def undated(stage: Stage, volume: str) -> bool:
    return DELETED_AT not in (stage.document(volume) or {})["metadata"].get("annotations", {})


def until_it_runs(stage: Stage, name: str, step: int, *more: str) -> bool:
    """Return whether it was killed at a step; what is still on its way out is waited for by asking again."""
    killed: list[bool] = []

    def ran() -> bool:
        killed.append(stage.kill("restart", name, step, *more))
        return killed[-1] or stage.claim(name, f"sandbox-{more[0]}" if more else "") is not None

    assert until(ran, PATIENCE, every=0.5)
    return killed[-1]


def back(stage: Stage, name: str, within: str | None = None) -> bool:
    volume = run(retained_volume, stage.api, OWNER, name)
    return volume is not None and run(restore_workspace, stage.api, volume, within).outcome in {"made", "there"}


def stands(stage: Stage, name: str, volume: str, space: str = "") -> None:
    """It is there once, on its own volume, which is not said to be deleted."""
    where = f"{EXTENSIONS}/namespaces/{space or stage.box.space}/sandboxclaims/{name}"
    assert becomes_ready(stage.box.client, where), stage.box.client.get(where)
    assert (stage.volume(name, space), stage.homes(name)) == (volume, [volume])
    assert (stage.document(volume) or {})["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert undated(stage, volume)


def test_killed_while_it_is_moved(stage: Stage, other: Box, pool: str) -> None:
    other.deploy(IMAGES[1])
    name = stage.make(pool)
    volume = stage.volume(name)
    # Its volume says where it goes, and its claim is there still: after a while it was not moved.
    assert stage.kill("move", name, 1, other.name)
    assert stage.done_by_loops(lambda: undated(stage, volume), LATER)
    stands(stage, name, volume)
    # Its claim is gone: the loop alone brings it to where it was going.
    assert stage.kill("move", name, 2, other.name)
    assert until(lambda: stage.phase(volume) == "Released", PATIENCE)
    assert until(lambda: not stage.loops() and stage.claim(name, other.space) is not None, PATIENCE, every=0.5)
    stands(stage, name, volume, other.space)
    assert stage.claim(name) is None
    other.client.delete(f"{EXTENSIONS}/namespaces/{other.space}/sandboxclaims/{name}")
