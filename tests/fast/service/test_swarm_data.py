"""The data of swarms is retained like that of workspaces: dated, restored, and destroyed when due."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from agentenv.config import read
from agentenv.core.classes.plan import ClassPlan, plans
from agentenv.core.classes.releases import releases_of
from agentenv.core.classes.template import template
from agentenv.core.lifecycle.orphaned_storage import SETTLED
from agentenv.core.lifecycle.restore import MOVING_TO
from agentenv.core.workspaces.swarms import Swarm, swarm
from agentenv.core.workspaces.workspace import DELETED_AT, DESTROY_AFTER, DESTROY_REQUESTED
from agentenv.service.kube.client import (
    CLAIMS,
    CONFIGURATIONS,
    POOLS,
    SANDBOXES,
    TEMPLATES,
    VOLUME_CLAIMS,
    VOLUMES,
    Document,
    section,
)
from agentenv.service.ledger.read_holdings import ListedObjects, holdings
from agentenv.service.loops.context import cluster_context
from agentenv.service.loops.retention import apply_retention, destroy_on_request
from agentenv.service.loops.slots import maintain_slots
from agentenv.service.workspaces import swarm_outcome
from agentenv.service.workspaces.delete import delete_workspace
from agentenv.service.workspaces.restore import restore_workspace, retained_volume
from agentenv.service.workspaces.retain_volume import retain_all_volumes
from agentenv.service.workspaces.swarms import SwarmError, create_swarm, delete_swarm, destroy_retained_data
from tests.fast.config.stack_samples import ACCESS
from tests.fast.service.fake_api_server import Api, Killed, run
from tests.fast.service.loops.cluster import START, RecordedMetrics, StubClock, always
from tests.fast.service.simulated_cluster import NAMESPACE, SimulatedCluster

RETENTION = timedelta(days=30)
NAMES = ["t-1-0", "t-1-1", "t-1-2"]


def plan_of(name: str = "box") -> ClassPlan:
    image = f"registry.example.com/sandbox@sha256:{'0' * 64}"
    sandbox_class: dict[str, Any] = {"name": name, "image": image, "storage": {"kind": "shared", "size": "5Gi"}}
    (plan,) = plans(
        read({"aws:region": "us-east-1", **ACCESS, "agent-environment:sandboxClasses": [sandbox_class]}, "dev")
    )
    return plan


def swarm_request(count: int = 3, class_name: str = "box") -> Swarm:
    plan = plan_of(class_name)
    return swarm(plan, releases_of(plan)[0], "t-1", count, owner="u-1")


def create(cluster: SimulatedCluster, requested: Swarm | None = None) -> dict[str, str]:
    start = cluster.waited
    return run(
        create_swarm,
        cluster,
        requested or swarm_request(),
        timeout=5,
        pause=cluster.pause,
        clock=lambda: cluster.waited - start,
        now=lambda: START,
    )


def delete(cluster: SimulatedCluster, keep_for: timedelta = RETENTION, now: datetime = START) -> None:
    run(delete_swarm, cluster, NAMESPACE, "t-1", keep_for, now=lambda: now, pause=cluster.pause)


def deletions(cluster: SimulatedCluster) -> dict[str, str]:
    """Return the recorded deletions of volumes."""
    metadata = [volume["metadata"] for volume in cluster.list(VOLUMES)]
    dates = {row["name"]: section(row, "annotations").get(DELETED_AT) for row in metadata}
    return {name: date for name, date in dates.items() if date}


def volumes(cluster: SimulatedCluster) -> dict[str, str]:
    """Return the volumes of a swarm: of its members, and the shared one."""
    result = {name: cluster.volume(NAMESPACE, f"home-{name}") for name in NAMES}
    return {**result, "shared": cluster.volume(NAMESPACE, "shared-t-1")}


def passes(cluster: SimulatedCluster, after_time: timedelta = timedelta(0)) -> dict[str, Mapping[str, int]]:
    """Run a pass of the loops that may change the data of a swarm, and return their findings."""
    reporter = RecordedMetrics()
    context = cluster_context(Api(cluster), StubClock(lambda: START + after_time), reporter, "default", "r1")
    for document in (apply_retention, destroy_on_request, maintain_slots):
        assert run(document, context, always).failures == ()
    return reporter.found


@pytest.fixture
def cluster() -> SimulatedCluster:
    created = SimulatedCluster()
    create(created)
    return created


def test_volumes_of_a_deleted_swarm_are_dated_at_once(cluster: SimulatedCluster) -> None:
    before = volumes(cluster)
    delete(cluster)
    assert cluster.deleted() == dict.fromkeys(before.values(), True)
    for volume in cluster.list(VOLUMES):
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert (
            volume["metadata"]["labels"].items()
            >= {
                "sandbox.users.io/user": "u-1",
                "sandbox.users.io/task": "t-1",
                "sandbox.users.io/mode": "agent",
            }.items()
        )
    workspaces = {volume["metadata"]["labels"].get("sandbox.users.io/workspace") for volume in cluster.list(VOLUMES)}
    assert workspaces == {*NAMES, None}
    assert [name for kind in (CLAIMS, POOLS, TEMPLATES, VOLUME_CLAIMS) for name in cluster.names(kind)] == []
    # The next pass and a second deletion change nothing.
    objects = dict(cluster.objects)
    passes(cluster)
    delete(cluster)
    assert cluster.objects == objects


def kill(cluster: SimulatedCluster, change: int) -> None:
    seen = [0]

    def count_and_kill(_: int) -> None:
        seen[0] += 1
        if seen[0] == change:
            raise Killed

    cluster.before = count_and_kill


def stop_killing(cluster: SimulatedCluster) -> None:
    cluster.before = lambda _: None


def killed_at_each_step(
    action: Callable[[SimulatedCluster], object], *prepare: Callable[[SimulatedCluster], object], steps: int = 10
) -> Iterator[tuple[SimulatedCluster, dict[str, str]]]:
    """Yield a cluster for each of more than so many steps at which an action is killed, and the volumes before it."""
    for change in itertools.count(1):
        cluster = SimulatedCluster()
        create(cluster)
        before = volumes(cluster)
        for each in prepare:
            each(cluster)
        kill(cluster, change)
        try:
            action(cluster)
        except Killed:
            stop_killing(cluster)
            yield cluster, before
        else:
            assert change > steps
            return


@pytest.mark.parametrize("keep_for", [RETENTION, timedelta(0)])
def test_a_deletion_that_is_killed_at_any_step_keeps_recorded_timestamps(keep_for: timedelta) -> None:
    start, recorded = START + SETTLED, dict[str, str]()
    for cluster, _ in killed_at_each_step(lambda cluster: delete(cluster, keep_for, start)):
        recorded = deletions(cluster)
        delete(cluster, keep_for, start + timedelta(minutes=1))
        assert len(deletions(cluster)) == len(cluster.names(VOLUMES)) == 4
        assert deletions(cluster).items() >= recorded.items()
    assert len(recorded) == 4


def test_a_later_destruction_keeps_the_timestamps_of_the_deletion(cluster: SimulatedCluster) -> None:
    """The data is charged from that timestamp on."""
    delete(cluster)
    before = deletions(cluster)
    assert run(destroy_retained_data, cluster, "u-1", "t-1", START + timedelta(days=3)) == len(before) == 4
    assert deletions(cluster) == before
    assert all(DESTROY_REQUESTED in document["metadata"]["labels"] for document in cluster.list(VOLUMES))


def test_a_swarm_that_is_created_again_is_restored(cluster: SimulatedCluster) -> None:
    before = volumes(cluster)
    delete(cluster)
    assert list(create(cluster)) == NAMES
    assert volumes(cluster) == before
    assert cluster.deleted() == dict.fromkeys(before.values(), False)
    (pool,) = cluster.names(POOLS)
    assert {document["spec"]["warmPoolRef"]["name"] for document in cluster.list(CLAIMS)} == {pool}
    # The loops find nothing, and delete no member.
    assert passes(cluster)["slots"] == passes(cluster, timedelta(hours=1))["slots"] == {}
    assert (cluster.names(CLAIMS), volumes(cluster)) == (NAMES, before)


def test_additional_members_of_a_restored_swarm_have_new_homes(cluster: SimulatedCluster) -> None:
    before = volumes(cluster)
    delete(cluster)
    assert len(create(cluster, swarm_request(5))) == 5
    assert volumes(cluster) == before
    assert len(cluster.names(VOLUMES)) == 6
    pool = run(swarm_outcome.pool_of, cluster, NAMESPACE, "t-1")
    assert pool is not None
    assert (swarm_outcome.requested_count(pool), swarm_outcome.handed_over_count(pool)) == (5, 5)


def test_a_deletion_that_is_killed_at_any_step_can_be_repeated() -> None:
    for cluster, before in killed_at_each_step(delete):
        # A pass meanwhile destroys nothing and deletes no member.
        claims = cluster.names(CLAIMS)
        passes(cluster)
        assert cluster.names(CLAIMS) == claims
        delete(cluster)
        assert {name for name, is_deleted in cluster.deleted().items() if is_deleted} == {*before.values()}
        create(cluster)
        assert volumes(cluster) == before


def test_a_restore_that_is_killed_at_any_step_can_be_repeated() -> None:
    for cluster, before in killed_at_each_step(create, delete):
        passes(cluster)
        create(cluster)
        assert volumes(cluster) == before
        assert cluster.deleted() == dict.fromkeys(before.values(), False)


@pytest.mark.parametrize("capacity", [0, 1, 2])
def test_a_restore_that_is_given_up_leaves_the_data_deleted(cluster: SimulatedCluster, capacity: int) -> None:
    before = volumes(cluster)
    delete(cluster, timedelta(days=9))
    cluster.capacity = capacity
    with pytest.raises(SwarmError, match=f"{capacity} of 3"):
        create(cluster)
    assert cluster.names(CLAIMS) == cluster.names(POOLS) == []
    for name in before.values():
        annotations = cluster.objects[VOLUMES, "", name]["metadata"]["annotations"]
        assert annotations[DESTROY_AFTER].startswith(f"{START + timedelta(days=9):%Y-%m-%d}")
    cluster.capacity = 9
    create(cluster)
    assert volumes(cluster) == before


def test_a_pass_during_a_restore_leaves_the_dates(cluster: SimulatedCluster) -> None:
    before = volumes(cluster)
    delete(cluster)
    cluster.capacity = 2
    pause, seen_deleted = cluster.pause, list[bool]()

    def pause_and_check(seconds: float) -> None:
        pause(seconds)
        passes(cluster, timedelta(days=1))
        seen_deleted.append(all(cluster.deleted().values()))

    with pytest.raises(SwarmError):
        run(
            create_swarm,
            cluster,
            swarm_request(),
            timeout=5,
            pause=pause_and_check,
            clock=lambda: cluster.waited,
            now=lambda: START + timedelta(days=1),
        )
    assert set(seen_deleted) == {True}
    assert cluster.deleted() == dict.fromkeys(before.values(), True)


def test_two_concurrent_restores_create_one_swarm(cluster: SimulatedCluster) -> None:
    before = volumes(cluster)
    delete(cluster)
    for step in range(1, 14):
        seen = [0]

        def create_beside(_: int, step: int = step, seen: list[int] = seen) -> None:
            seen[0] += 1
            if seen[0] == step:
                stop_killing(cluster)
                create(cluster)

        cluster.before = create_beside
        assert list(create(cluster)) == NAMES
        stop_killing(cluster)
        assert volumes(cluster) == before
        assert cluster.deleted() == dict.fromkeys(before.values(), False)
        delete(cluster)


def test_a_member_that_was_deleted_alone_is_restored_with_the_swarm(cluster: SimulatedCluster) -> None:
    before = volumes(cluster)
    assert run(delete_workspace, cluster, cluster.find(CLAIMS, "t-1-1", NAMESPACE) or {}, RETENTION, START) == "done"
    assert [name for name, is_deleted in cluster.deleted().items() if is_deleted] == [before["t-1-1"]]
    passes(cluster, timedelta(days=20))
    assert [name for name, is_deleted in cluster.deleted().items() if is_deleted] == [before["t-1-1"]]
    create(cluster)
    assert volumes(cluster) == before


def resume(cluster: SimulatedCluster, name: str) -> str:
    volume = run(retained_volume, cluster, "u-1", name)
    assert volume is not None
    outcome = run(restore_workspace, cluster, volume, now=lambda: START).outcome
    cluster.pause(0)
    return outcome


def add_template(cluster: SimulatedCluster) -> None:
    """Add the template of the class to the cluster."""
    plan = plan_of()
    document = template(plan, releases_of(plan)[0], 0, {"sandbox.users.io/channel": "stable"})
    document["metadata"]["name"] = "box-t"
    cluster.put(TEMPLATES, document)


@pytest.mark.parametrize("swarm_exists", [True, False])
def test_a_member_that_is_resumed_alone_has_the_shared_volume(cluster: SimulatedCluster, *, swarm_exists: bool) -> None:
    add_template(cluster)
    before = volumes(cluster)
    if swarm_exists:
        assert (
            run(delete_workspace, cluster, cluster.find(CLAIMS, "t-1-1", NAMESPACE) or {}, RETENTION, START) == "done"
        )
    else:
        delete(cluster)
    assert resume(cluster, "t-1-1") == "made"
    claim = cluster.find(CLAIMS, "t-1-1", NAMESPACE) or {}
    pool = cluster.find(POOLS, claim["spec"]["warmPoolRef"]["name"], NAMESPACE) or {}
    template_ = cluster.find(TEMPLATES, pool["spec"]["sandboxTemplateRef"]["name"], NAMESPACE) or {}
    mounts = [volume.get("persistentVolumeClaim") for volume in template_["spec"]["podTemplate"]["spec"]["volumes"]]
    assert {"claimName": "shared-t-1"} in mounts
    assert template_["spec"]["podTemplate"]["metadata"]["labels"]["sandbox.users.io/task"] == "t-1"
    assert cluster.volume(NAMESPACE, "home-t-1-1") == before["t-1-1"]
    assert cluster.volume(NAMESPACE, "shared-t-1") == before["shared"]
    is_deleted = cluster.deleted()
    assert (is_deleted[before["t-1-1"]], is_deleted[before["shared"]], is_deleted[before["t-1-0"]]) == (
        False,
        False,
        not swarm_exists,
    )
    # The others are restored when the swarm is created again.
    create(cluster)
    assert volumes(cluster) == before
    pool = run(swarm_outcome.pool_of, cluster, NAMESPACE, "t-1") or {}
    assert swarm_outcome.requested_count(pool) == 3


def test_a_members_restore_that_is_killed_at_any_step_can_be_repeated() -> None:
    for cluster, before in killed_at_each_step(lambda cluster: resume(cluster, "t-1-1"), add_template, delete, steps=5):
        assert resume(cluster, "t-1-1") in {"made", "there"}
        passes(cluster, timedelta(hours=1))
        assert cluster.volume(NAMESPACE, "home-t-1-1") == before["t-1-1"]
        assert cluster.volume(NAMESPACE, "shared-t-1") == before["shared"]
        is_deleted = cluster.deleted()
        assert (is_deleted[before["t-1-1"]], is_deleted[before["shared"]]) == (False, False)


def test_a_member_is_not_restored_while_its_swarm_is_being_deleted(cluster: SimulatedCluster) -> None:
    add_template(cluster)
    assert run(delete_workspace, cluster, cluster.find(CLAIMS, "t-1-1", NAMESPACE) or {}, RETENTION, START) == "done"
    run(swarm_outcome.mark_deleted, cluster, NAMESPACE, "t-1")
    assert resume(cluster, "t-1-1") == "waiting"
    assert cluster.names(CLAIMS) == ["t-1-0", "t-1-2"]


def record(cluster: SimulatedCluster) -> str:
    return "".join(str(section(document, "data")) for document in cluster.list(CONFIGURATIONS, "default"))


def test_a_shared_volume_is_destroyed_when_due_with_a_record(cluster: SimulatedCluster) -> None:
    shared = volumes(cluster)["shared"]
    delete(cluster)
    for days, policy in ((29, "Retain"), (31, "Delete")):
        passes(cluster, timedelta(days=days))
        assert cluster.objects[VOLUMES, "", shared]["spec"]["persistentVolumeReclaimPolicy"] == policy
    assert (shared in record(cluster), "shared-t-1" in record(cluster)) == (True, True)


def test_a_shared_volume_is_retained_while_a_member_exists(cluster: SimulatedCluster) -> None:
    before = volumes(cluster)
    delete(cluster)
    add_template(cluster)
    assert resume(cluster, "t-1-0") == "made"
    passes(cluster, timedelta(days=40))
    policies = {
        name: cluster.objects[VOLUMES, "", name]["spec"]["persistentVolumeReclaimPolicy"] for name in before.values()
    }
    assert [policies[before[name]] for name in ("t-1-0", "shared", "t-1-1")] == ["Retain", "Retain", "Delete"]


def test_a_shared_volume_without_a_swarm_is_released_and_retained(cluster: SimulatedCluster) -> None:
    shared = volumes(cluster)["shared"]
    for name in NAMES:
        assert run(delete_workspace, cluster, cluster.find(CLAIMS, name, NAMESPACE) or {}, RETENTION, START) == "done"
    # While its pool exists, the swarm may be created again.
    passes(cluster, SETTLED * 2)
    assert cluster.names(VOLUME_CLAIMS) == ["shared-t-1"]
    for pool in [*cluster.list(POOLS)]:
        cluster.delete(POOLS, pool)
    result = passes(cluster, SETTLED / 2)
    assert (result["slots"], cluster.names(VOLUME_CLAIMS)) == ({}, ["shared-t-1"])
    result = passes(cluster, SETTLED * 2)
    assert (result["slots"], cluster.names(VOLUME_CLAIMS)) == ({"volume-claim-without-swarm": 1}, [])
    passes(cluster, SETTLED * 2)
    annotations = cluster.objects[VOLUMES, "", shared]["metadata"]["annotations"]
    assert {DELETED_AT, DESTROY_AFTER} <= annotations.keys()
    create(cluster)
    assert cluster.volume(NAMESPACE, "shared-t-1") == shared


def test_a_shared_volume_is_retained_where_its_creation_was_killed() -> None:
    cluster = SimulatedCluster()
    create(cluster)
    volume = cluster.objects[VOLUMES, "", volumes(cluster)["shared"]]
    volume["spec"]["persistentVolumeReclaimPolicy"] = "Delete"
    volume["metadata"].pop("labels")
    run(retain_all_volumes, cluster)
    retained = cluster.objects[VOLUMES, "", volumes(cluster)["shared"]]
    assert retained["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert retained["metadata"]["labels"]["sandbox.users.io/task"] == "t-1"


def test_a_swarm_that_was_never_handed_over_leaves_no_data() -> None:
    cluster = SimulatedCluster(capacity=2)
    with pytest.raises(SwarmError):
        create(cluster)
    assert cluster.names(VOLUMES) == []


def test_a_requested_destruction_refuses_to_restore_the_swarm(cluster: SimulatedCluster) -> None:
    before = volumes(cluster)
    assert run(delete_workspace, cluster, cluster.find(CLAIMS, "t-1-1", NAMESPACE) or {}, RETENTION, START) == "done"
    delete(cluster, timedelta(0))
    assert run(destroy_retained_data, cluster, "u-1", "t-1", START) == len(before)
    assert all(DESTROY_REQUESTED in document["metadata"]["labels"] for document in cluster.list(VOLUMES))
    with pytest.raises(SwarmError, match="being destroyed") as refused:
        create(cluster)
    assert (refused.value.kind, refused.value.gone_in > 0) == ("being-destroyed", True)
    assert cluster.names(CLAIMS) == cluster.names(VOLUME_CLAIMS) == []
    passes(cluster)
    assert {document["spec"]["persistentVolumeReclaimPolicy"] for document in cluster.list(VOLUMES)} == {"Delete"}
    for name in cluster.names(VOLUMES):
        del cluster.objects[VOLUMES, "", name]
    create(cluster)
    assert not {*volumes(cluster).values()} & {*before.values()}


@pytest.mark.parametrize("way", ["class", "moving"])
def test_retained_data_of_another_class_refuses_the_swarm(cluster: SimulatedCluster, way: str) -> None:
    delete(cluster)
    if way == "moving":
        for volume in [*cluster.list(VOLUMES)]:
            cluster.patch(VOLUMES, volume, {"metadata": {"annotations": {MOVING_TO: "other"}}})
    with pytest.raises(SwarmError, match="is of class") as refused:
        create(cluster, swarm_request(class_name="other") if way == "class" else swarm_request())
    assert refused.value.kind == "key-reused"
    assert cluster.names(CLAIMS) == []


def test_a_member_that_runs_is_not_restored(cluster: SimulatedCluster) -> None:
    """Each member has a new home beside a retained one, as after an older version."""
    lost: list[Document] = []
    for number, name in enumerate(NAMES):
        retained = cluster.find(VOLUMES, cluster.volume(NAMESPACE, f"home-{name}")) or {}
        retained["metadata"] |= {"name": f"pvc-lost-{number}", "uid": f"lost-{number}"}
        retained["status"] = {"phase": "Released", "lastPhaseTransitionTime": "2026-11-01T00:00:00Z"}
        lost.append(retained)
        cluster.put(VOLUMES, retained)
    assert passes(cluster, timedelta(hours=1))["slots"] == {"workspace-off-its-home": 3}
    assert (cluster.names(CLAIMS), cluster.names(SANDBOXES)) == (NAMES, NAMES)


def test_a_restore_waits_for_the_deletion_of_an_earlier_claim(cluster: SimulatedCluster) -> None:
    before = volumes(cluster)
    claim = cluster.objects[CLAIMS, NAMESPACE, "t-1-1"]
    volume = cluster.find(VOLUMES, before["t-1-1"]) or {}
    assert cluster.patch(VOLUMES, volume, {"metadata": {"annotations": {DELETED_AT: "2026-11-18T11:00:00Z"}}})
    claim["metadata"]["deletionTimestamp"] = "2026-11-18T11:00:00Z"
    pause, waits = cluster.pause, [3]

    def pause_and_check(seconds: float) -> None:
        waits[0] -= 1
        if waits[0] == 0:
            deleting_claim = cluster.find(CLAIMS, "t-1-1", NAMESPACE) or {}
            assert cluster.delete(CLAIMS, deleting_claim)
        pause(seconds)

    result = run(
        create_swarm,
        cluster,
        swarm_request(),
        timeout=9,
        pause=pause_and_check,
        clock=lambda: cluster.waited,
        now=lambda: START,
    )
    assert list(result) == NAMES
    assert volumes(cluster) == before


def test_the_ledger_names_a_shared_volume_by_its_claim(cluster: SimulatedCluster) -> None:
    """Rows end by owner and workspace, so the shared volumes of two tasks need different names."""
    delete(cluster)
    rows = run(holdings, ListedObjects([], [], [], [], cluster.list(VOLUMES)))
    assert {(document.owner, document.workspace, document.task) for document in rows} == {
        ("u-1", name, "t-1") for name in (*NAMES, "shared-t-1")
    }


def test_data_that_is_being_destroyed_is_not_dated_again(cluster: SimulatedCluster) -> None:
    """Its pods still use it while a second deletion asks to retain it."""
    shared = volumes(cluster)["shared"]
    claim = cluster.find(VOLUME_CLAIMS, "shared-t-1", NAMESPACE) or {}
    delete(cluster, timedelta(0))
    claim["metadata"]["deletionTimestamp"] = "2026-11-18T12:00:00Z"
    cluster.put(VOLUME_CLAIMS, claim)
    delete(cluster)
    assert DESTROY_REQUESTED in cluster.objects[VOLUMES, "", shared]["metadata"]["labels"]
