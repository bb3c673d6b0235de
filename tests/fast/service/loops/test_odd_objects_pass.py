"""An unreadable object stops no pass: the others are processed, and nothing counts as deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from agentenv.core.classes.names import TASK_LABEL, USER_LABEL
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import DESTROY_REQUESTED
from agentenv.service.home_metering import measured_bytes
from agentenv.service.kube.client import CLAIMS, CONFIGURATIONS, POOLS, TEMPLATES, VOLUME_CLAIMS, VOLUMES, Document
from agentenv.service.loops.audit import audit_access_points
from agentenv.service.loops.retention import apply_retention, destroy_on_request
from agentenv.service.loops.slots import maintain_slots
from agentenv.service.loops.workspace_passes import end_expired, suspend_idle, wake_due
from agentenv.service.workspaces.destruction_records import LABEL, OPEN, Records
from agentenv.service.workspaces.retain_volume import retain_all_volumes
from agentenv.service.workspaces.retire_releases import retire_releases
from tests.fast.service.fake_api_server import Api, run
from tests.fast.service.loops.cluster import SPACE, START, Cluster, always

LONG = 10 * 24 * 3600.0
# Fields without which an object cannot be told apart; the real API server always sets them.
ABOUT = {"namespace": SPACE, "labels": {"sandbox.users.io/user": "u-odd"}, "creationTimestamp": format_timestamp(START)}
NAMELESS: Document = {"metadata": ABOUT, "spec": 5}


@pytest.fixture
def cluster() -> Cluster:
    """A house with a sound workspace that is due for everything, and odd objects beside it."""
    cluster = Cluster()
    cluster.workspace("w-1")
    cluster.workspace("w-odd", **{"sandbox.users.io/leases": "[" * 20_000, "sandbox.users.io/budget": "1E+999999"})
    listed = cluster.server.list

    def list_(kind: Any, *where: Any, **more: Any) -> Any:
        yield from ([NAMELESS] if kind in {CLAIMS, VOLUMES} else [])
        yield from listed(kind, *where, **more)

    cluster.server.list = list_  # type: ignore[method-assign]
    return cluster


def test_both_idle_and_both_are_suspended(cluster: Cluster) -> None:
    cluster.advance(LONG)
    done = run(suspend_idle, cluster.context(), always)
    assert (done.steps, done.failures) == (2, ())
    assert {cluster.mode(), cluster.mode("w-odd")} == {"Suspended"}


@pytest.mark.parametrize("act", [wake_due, end_expired, audit_access_points])
def test_a_pass_completes(cluster: Cluster, act: Callable[..., Any]) -> None:
    cluster.advance(LONG)
    run(act, cluster.context(), always)


def test_an_unreadable_claim_does_not_block_the_others(cluster: Cluster) -> None:
    context = cluster.context()
    found = cluster.server.find

    def find(kind: Any, name: str, namespace: str | None = None) -> Document | None:
        return NAMELESS if (kind, name) == (CLAIMS, "w-odd") else found(kind, name, namespace)

    cluster.server.find = find  # type: ignore[method-assign]
    cluster.advance(LONG)
    done = run(suspend_idle, context, always)
    assert (done.steps, cluster.mode()) == (1, "Suspended")
    assert done.failures == (f"SandboxClaim {SPACE} cannot be read: UnreadableError",)


def test_expired_data_is_destroyed_and_unreadable_volumes_are_reported(cluster: Cluster) -> None:
    past = format_timestamp(START - timedelta(days=40))
    dates = {
        "sandbox.users.io/deleted-at": past,
        "sandbox.users.io/destroy-after": format_timestamp(START - timedelta(days=10)),
    }
    cluster.volume("w-gone", "Released", **dates)
    cluster.volume("w-far", "Released", **{**dates, "sandbox.users.io/destroy-after": "9999-12-31T23:59:59-14:00"})
    done = run(apply_retention, cluster.context(), always)
    assert done.failures == (f"PersistentVolume {SPACE} cannot be read: UnreadableError",)
    policies = {
        name: object_["spec"]["persistentVolumeReclaimPolicy"]
        for (kind, _, name), object_ in cluster.server.objects.items()
        if kind is VOLUMES
    }
    assert policies == {"pv-w-1": "Retain", "pv-w-odd": "Retain", "pv-w-gone": "Delete", "pv-w-far": "Retain"}


def test_requested_data_is_destroyed_and_unreadable_volumes_are_reported(cluster: Cluster) -> None:
    for name in ("w-a", "w-gone"):
        cluster.volume(name, "Released", **{"sandbox.users.io/deleted-at": format_timestamp(START)})
        cluster.server.objects[VOLUMES, "", f"pv-{name}"]["metadata"]["labels"][DESTROY_REQUESTED] = "true"
    cluster.server.objects[VOLUMES, "", "pv-w-a"]["metadata"].pop("uid")
    done = run(destroy_on_request, cluster.context(), always)
    assert done.failures == (
        f"PersistentVolume {SPACE} cannot be read: UnreadableError",
        "pv-w-a cannot be read: KeyError",
    )
    assert cluster.server.objects[VOLUMES, "", "pv-w-gone"]["spec"]["persistentVolumeReclaimPolicy"] == "Delete"


@pytest.mark.parametrize("capacity", [{"storage": "5e9"}, {}, None, {"storage": ["5Gi"]}])
def test_a_failing_move_does_not_delay_the_destruction_of_other_data(cluster: Cluster, capacity: Any) -> None:
    dates = {
        "sandbox.users.io/deleted-at": format_timestamp(START - timedelta(days=40)),
        "sandbox.users.io/destroy-after": format_timestamp(START - timedelta(days=10)),
    }
    cluster.limit(releases="stable/box-a")
    template: Document = {"metadata": {"name": "box-a", "namespace": SPACE}}
    homes = [{"metadata": {"name": "home"}, "spec": {"resources": {"requests": {"storage": "5Gi"}}}}]
    cluster.server.put(TEMPLATES, {**template, "spec": {"volumeClaimTemplates": homes, "podTemplate": {}}})
    cluster.volume("w-a-moving", "Released", **dates, **{"sandbox.users.io/moving-to": "box"})
    cluster.server.objects[VOLUMES, "", "pv-w-a-moving"]["spec"]["capacity"] = capacity
    cluster.volume("w-gone", "Released", **dates)
    done = run(apply_retention, cluster.context(), always)
    assert any(failure.startswith("pv-w-a-moving cannot be read: ") for failure in done.failures), done.failures
    assert cluster.server.objects[VOLUMES, "", "pv-w-gone"]["spec"]["persistentVolumeReclaimPolicy"] == "Delete"


def test_an_unreadable_record_stays_open_and_the_others_are_completed(cluster: Cluster) -> None:
    records = Records(Api(cluster.server), "default")
    assert run(records.write, "pv-gone", {"owner": "u-1"}, START)
    (page,) = cluster.server.list(CONFIGURATIONS, "default", {LABEL: "destroyed", OPEN: "true"})
    assert cluster.server.patch(CONFIGURATIONS, page, {"data": {"pv-odd": "[" * 20_000, "pv-list": "[]"}})
    assert [name for name, _ in run(records.unfinished)] == ["pv-gone"]
    run(apply_retention, cluster.context(), always)
    assert not [*run(records.unfinished)]
    assert run(records.close, START + timedelta(days=2)) == 0


def test_slots_are_checked_despite_unreadable_objects(cluster: Cluster) -> None:
    done = run(maintain_slots, cluster.context(), always)
    assert [failure.partition(" ")[0] for failure in done.failures] == ["SandboxClaim"]


def test_slots_and_shared_volumes_are_checked_despite_an_unreadable_swarm(cluster: Cluster) -> None:
    labels = {"sandbox.users.io/class": "box", TASK_LABEL: "t-1", USER_LABEL: "u-1"}
    about: Document = {"namespace": SPACE, "labels": labels, "creationTimestamp": format_timestamp(START)}
    cluster.server.put(VOLUME_CLAIMS, {"metadata": {**about, "name": "shared-t-1"}, "spec": {"volumeName": "pv-w-1"}})
    listed = cluster.server.list

    def list_(kind: Any, *where: Any, **more: Any) -> Any:
        yield from ([{"metadata": {"labels": labels}}, NAMELESS] if kind in {POOLS, VOLUME_CLAIMS} else [])
        yield from listed(kind, *where, **more)

    cluster.server.list = list_  # type: ignore[method-assign]
    cluster.advance(LONG)
    done = run(maintain_slots, cluster.context(), always)
    assert {failure.partition(" ")[0] for failure in done.failures} == {
        "SandboxClaim",
        "SandboxWarmPool",
        "PersistentVolumeClaim",
    }
    # One that cannot be read may be its swarm's, as its labels say.
    assert cluster.server.find(VOLUME_CLAIMS, "shared-t-1", SPACE) is not None


def test_a_shared_volume_is_retained_despite_an_unreadable_claim(cluster: Cluster) -> None:
    labels = {TASK_LABEL: "t-1", USER_LABEL: "u-1"}
    about: Document = {"namespace": SPACE, "name": "shared-t-1", "labels": labels}
    cluster.server.put(VOLUME_CLAIMS, {"metadata": about, "spec": {"volumeName": "pv-shared"}})
    uid = cluster.server.objects[VOLUME_CLAIMS, SPACE, "shared-t-1"]["metadata"]["uid"]
    cluster.volume("shared", "Bound", uid=uid)
    cluster.server.objects[VOLUMES, "", "pv-shared"]["metadata"]["labels"] = {}
    listed = cluster.server.list

    def list_(kind: Any, *where: Any, **more: Any) -> Any:
        yield from ([{"metadata": {"name": "shared-odd", "labels": labels}}] if kind is VOLUME_CLAIMS else [])
        yield from listed(kind, *where, **more)

    cluster.server.list = list_  # type: ignore[method-assign]
    (odd,) = [result for result in run(retain_all_volumes, cluster.server) if result.outcome == "refused"]
    assert (odd.claim, odd.why) == ("shared-odd", "it cannot be read: UnreadableError")
    assert cluster.server.objects[VOLUMES, "", "pv-shared"]["metadata"]["labels"][TASK_LABEL] == "t-1"


def test_volumes_are_retained_and_measured_despite_unreadable_objects(cluster: Cluster) -> None:
    assert {volume.claim for volume in run(retain_all_volumes, cluster.server)} == {"w-1", "w-odd"}
    for name, size in (("w-1", "4096"), ("w-odd", "9" * 5000)):
        volume = cluster.server.objects[VOLUMES, "", f"pv-{name}"]
        volume["metadata"]["annotations"]["sandbox.users.io/measured-bytes"] = size
    assert run(measured_bytes, cluster.server) == {"pv-w-1": 4096}


def test_no_release_of_a_class_is_retired_while_a_claim_is_unreadable(cluster: Cluster) -> None:
    cluster.limit(releases="stable/new", poolHours="[" * 20_000)
    old: Document = {"metadata": {"name": "old", "namespace": SPACE}, "spec": {"replicas": 0}}
    cluster.server.put(TEMPLATES, {"metadata": dict(old["metadata"]), "spec": {}})
    cluster.server.put(POOLS, {**old, "spec": {"replicas": 0, "sandboxTemplateRef": {"name": "old"}}})
    (looked,) = run(retire_releases, cluster.server, act=True, clock=lambda: START)
    assert (looked.done, looked.plan.steps) == ((), ())
    assert looked.refused == (f"SandboxClaim {SPACE} cannot be read: UnreadableError",)
