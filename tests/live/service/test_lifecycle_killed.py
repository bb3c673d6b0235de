"""Retaining, suspending, resuming, deleting, restoring and moving survive `kill -9` after each write.

After each kill the loops run, and the same holds: the files are on their one volume, which is retained; there is at
most one sandbox; and the operation is either finished or undone.
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
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT, becomes_ready
from tests.live.service.blocking import run
from tests.live.service.conftest import EXTENSIONS, IMAGES, LiveClass, own_class
from tests.live.service.lifecycle import OWNER, Lifecycle

SOON = timedelta(seconds=45)
LATER = retention.UNFINISHED + timedelta(minutes=1)


@pytest.fixture(scope="module")
def live_class(live: LiveCluster, cluster_client: Client, file_system: str) -> Iterator[LiveClass]:
    """One class for all tests, each with workspaces of its own."""
    with own_class(live, cluster_client, file_system, max_sandboxes=30) as live_class:
        yield live_class


@pytest.fixture(scope="module")
def other(live_class: LiveClass) -> Iterator[LiveClass]:
    """Another class."""
    other_ = LiveClass(
        f"more{uuid.uuid4().hex[:6]}", live_class.client, live_class.cluster, live_class.file_system, size=0
    )
    yield other_
    live_class.client.delete(f"/api/v1/namespaces/{other_.namespace}")


@pytest.fixture
def lifecycle(live_class: LiveClass, other: LiveClass, live: LiveCluster) -> Iterator[Lifecycle]:
    lifecycle_ = Lifecycle(live_class, live, other)
    yield lifecycle_
    lifecycle_.delete_all()


def test_retaining_survives_a_kill_after_each_write(lifecycle: Lifecycle, pool: str) -> None:
    step = 0
    while True:
        step += 1
        name = lifecycle.create_workspace(pool, retain=False)
        volume = lifecycle.volume(name)
        killed = lifecycle.kill("keep", name, step)
        assert lifecycle.done_by_loops(lambda name=name: lifecycle.notes(name).get(VOLUME_RETAINED) == "true")
        document = lifecycle.document(volume) or {}
        assert document["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert (lifecycle.homes(name), lifecycle.notes(name)[VOLUME_RETAINED]) == ([volume], "true")
        if not killed:
            break
    assert step == 3


def test_suspending_and_resuming_survive_a_kill_after_each_write(lifecycle: Lifecycle, pool: str) -> None:
    name = lifecycle.create_workspace(pool)
    volume = lifecycle.volume(name)
    # After the first write the reason is recorded, and the sandbox still runs.
    assert lifecycle.kill("suspend", name, 1)
    assert (lifecycle.notes(name)[SUSPENDED_BECAUSE], lifecycle.mode(name)) == ("idle", "Running")
    # It was used recently, so the suspension is undone.
    assert lifecycle.done_by_loops(lambda: SUSPENDED_BECAUSE not in lifecycle.notes(name))
    assert lifecycle.mode(name) == "Running"
    # Of an idle workspace the suspension is finished.
    assert lifecycle.kill("suspend", name, 1)
    assert lifecycle.done_by_loops(lambda: lifecycle.mode(name) == "Suspended", timedelta(hours=1))
    assert lifecycle.notes(name)[SUSPENDED_BECAUSE] == "idle"
    assert until(lambda: is_suspended(lifecycle, name), TIMEOUT)
    # After the first write of resuming there is no reason left, and it was used just now: the loop resumes it.
    assert lifecycle.kill("wake", name, 1)
    assert (lifecycle.notes(name).get(SUSPENDED_BECAUSE), lifecycle.mode(name)) == (None, "Suspended")
    assert lifecycle.done_by_loops(lambda: lifecycle.mode(name) == "Running")
    assert until(lambda: not is_suspended(lifecycle, name), TIMEOUT)
    assert lifecycle.kill("suspend", name, 2)
    assert (lifecycle.notes(name)[SUSPENDED_BECAUSE], lifecycle.mode(name)) == ("idle", "Suspended")
    assert lifecycle.kill("wake", name, 2)
    assert lifecycle.mode(name) == "Running"
    assert not lifecycle.kill("wake", name, 9)
    # Suspended by hand, and not used since: it stays suspended.
    where = (
        f"/apis/agents.x-k8s.io/v1beta1/namespaces/{lifecycle.live_class.namespace}/sandboxes/{lifecycle.sandbox(name)}"
    )
    by_hand = {"spec": {"operatingMode": "Suspended"}}
    lifecycle.live_class.client.request("PATCH", where, by_hand, content="application/merge-patch+json")
    assert until(lambda: is_suspended(lifecycle, name), TIMEOUT)
    assert lifecycle.loops(waking.UNFINISHED + SOON) == []
    assert lifecycle.mode(name) == "Suspended"
    assert (lifecycle.volume(name), lifecycle.phase(volume)) == (volume, "Bound")


def is_suspended(lifecycle: Lifecycle, name: str) -> bool:
    from agentenv.core.workspaces.records import workspace_of_claim

    read = workspace_of_claim(lifecycle.claim(name) or {})
    return read is not None and read.state == "suspended"


def test_deleting_survives_a_kill_after_each_write(lifecycle: Lifecycle, pool: str) -> None:
    step = 0
    while True:
        step += 1
        name = lifecycle.create_workspace(pool)
        volume = lifecycle.volume(name)
        killed = lifecycle.kill("delete", name, step)
        if not killed:
            break
        assert lifecycle.loops() == []
        if lifecycle.claim(name) is not None and not (lifecycle.claim(name) or {})["metadata"].get("deletionTimestamp"):
            # The deletion was not repeated, so it is undone after a while.
            assert DELETED_AT in (lifecycle.document(volume) or {})["metadata"]["annotations"]
            assert lifecycle.done_by_loops(lambda volume=volume: has_no_deletion_date(lifecycle, volume), LATER)
            assert lifecycle.volume(name) == volume
        else:
            assert until(lambda volume=volume: lifecycle.phase(volume) == "Released", TIMEOUT)
            assert lifecycle.loops(LATER) == []
            assert DELETED_AT in (lifecycle.document(volume) or {})["metadata"]["annotations"]
        assert (lifecycle.document(volume) or {})["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert lifecycle.homes(name) == [volume]
    assert step >= 3


def test_destroying_survives_a_kill_after_each_write(lifecycle: Lifecycle, pool: str) -> None:
    step = 0
    while True:
        step += 1
        name = lifecycle.create_workspace(pool)
        volume = lifecycle.volume(name)
        killed = lifecycle.kill("destroy", name, step)
        claim = lifecycle.claim(name)
        if claim is not None and not claim["metadata"].get("deletionTimestamp"):
            # The caller got no response and did not repeat the deletion, so it is undone with the request to destroy.
            assert lifecycle.done_by_loops(lambda volume=volume: has_no_deletion_date(lifecycle, volume), LATER)
            labels = (lifecycle.document(volume) or {})["metadata"]["labels"]
            assert (lifecycle.volume(name), DESTROY_REQUESTED in labels) == (volume, False)
        else:
            assert is_restored(lifecycle, name) is False
            assert until(lambda volume=volume: destroyed(lifecycle, volume), TIMEOUT, every=0.5)
            assert (lifecycle.homes(name), lifecycle.claim(name)) == ([], None)
        if not killed:
            break
    # The writes to the volume and the claim
    assert step == 3


def destroyed(lifecycle: Lifecycle, volume: str) -> bool:
    """Return whether a volume is gone, after a pass of the loop that destroys on request."""
    assert run(destroy_on_request, lifecycle.context(), lambda: True).failures == ()
    return lifecycle.phase(volume) == "gone"


def test_restoring_survives_a_kill_after_each_write(lifecycle: Lifecycle, pool: str) -> None:
    name = lifecycle.create_workspace(pool)
    volume = lifecycle.volume(name)
    step = 0
    while True:
        step += 1
        assert lifecycle.delete(name) == volume
        killed = until_it_runs(lifecycle, name, step)
        assert lifecycle.loops() == []
        # A repeated request finishes the restoration.
        assert until(lambda: is_restored(lifecycle, name), TIMEOUT)
        check_on_volume(lifecycle, name, volume)
        if not killed:
            break
    # The writes to the volume, its claim, the workspace's claim, and the dates
    assert step == 5


def has_no_deletion_date(lifecycle: Lifecycle, volume: str) -> bool:
    return DELETED_AT not in (lifecycle.document(volume) or {})["metadata"].get("annotations", {})


def until_it_runs(lifecycle: Lifecycle, name: str, step: int, *more: str) -> bool:
    """Return whether the restoration was killed at a step; repeat it while objects are still being deleted."""
    killed: list[bool] = []

    def ran() -> bool:
        killed.append(lifecycle.kill("restart", name, step, *more))
        return killed[-1] or lifecycle.claim(name, f"sandbox-{more[0]}" if more else "") is not None

    assert until(ran, TIMEOUT, every=0.5)
    return killed[-1]


def is_restored(lifecycle: Lifecycle, name: str, within: str | None = None) -> bool:
    volume = run(retained_volume, lifecycle.api, OWNER, name)
    return volume is not None and run(restore_workspace, lifecycle.api, volume, within).outcome in {"made", "there"}


def check_on_volume(lifecycle: Lifecycle, name: str, volume: str, namespace: str = "") -> None:
    """Check that the workspace exists once, on its own volume, which has no deletion date."""
    where = f"{EXTENSIONS}/namespaces/{namespace or lifecycle.live_class.namespace}/sandboxclaims/{name}"
    assert becomes_ready(lifecycle.live_class.client, where), lifecycle.live_class.client.get(where)
    assert (lifecycle.volume(name, namespace), lifecycle.homes(name)) == (volume, [volume])
    assert (lifecycle.document(volume) or {})["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert has_no_deletion_date(lifecycle, volume)


def test_moving_to_another_class_survives_a_kill_after_each_write(
    lifecycle: Lifecycle, other: LiveClass, pool: str
) -> None:
    other.deploy(IMAGES[1])
    name = lifecycle.create_workspace(pool)
    volume = lifecycle.volume(name)
    # The target class is recorded on the volume, and the claim still exists: the move is undone after a while.
    assert lifecycle.kill("move", name, 1, other.name)
    assert lifecycle.done_by_loops(lambda: has_no_deletion_date(lifecycle, volume), LATER)
    check_on_volume(lifecycle, name, volume)
    # The claim is deleted: the loop finishes the move.
    assert lifecycle.kill("move", name, 2, other.name)
    assert until(lambda: lifecycle.phase(volume) == "Released", TIMEOUT)
    assert until(
        lambda: not lifecycle.loops() and lifecycle.claim(name, other.namespace) is not None, TIMEOUT, every=0.5
    )
    check_on_volume(lifecycle, name, volume, other.namespace)
    assert lifecycle.claim(name) is None
    other.client.delete(f"{EXTENSIONS}/namespaces/{other.namespace}/sandboxclaims/{name}")
