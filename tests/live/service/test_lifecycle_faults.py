"""Many at once, a server that is gone, pods and nodes that die, clocks that are off: nothing lost, nothing doubled."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentenv.core.lifecycle.orphaned_storage import SETTLED
from agentenv.core.nodes.tiers import CAPACITY_LABEL, labels, taints, wall_of
from agentenv.core.workspaces.workspace import DELETED_AT, DESTROY_AFTER, SUSPENDED_BECAUSE
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape
from agentenv.service.kube.client import CONFIGURATIONS, LEASES, KubeClient, section
from agentenv.service.kube.clock import ServerClock
from agentenv.service.loops.leader_election import NAME, Leader, LeaseTimes
from agentenv.service.loops.retention import apply_retention
from agentenv.service.loops.runner import lead
from agentenv.service.loops.scheduler import Loop, Scheduler
from agentenv.service.loops.slots import ORPHAN_TAG, maintain_slots
from agentenv.service.loops.workspace_passes import end_expired, suspend_idle
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.restore import restore_workspace, retained_volume
from tests.live.conftest import World
from tests.live.controlplane.things import PATIENCE, becomes_ready
from tests.live.service.blocking import Blocking, run, start
from tests.live.service.closable_proxy import gate
from tests.live.service.conftest import EXTENSIONS, IMAGES, Box
from tests.live.service.lifecycle import OWNER, OwnNamespaces, Stage
from tests.live.service.test_releases_live import point, points

MONTHS = timedelta(days=60)


def always() -> bool:
    return True


@pytest.fixture(scope="module")
def box(world: World, ground: Client, system: str) -> Iterator[Box]:
    """One class for all of them: each has workspaces of its own."""
    cluster = Blocking.from_kubeconfig(world.plane.kubeconfig())
    box_ = Box(f"box{uuid.uuid4().hex[:6]}", ground, cluster, system, most=30)
    yield box_
    ground.delete(f"/api/v1/namespaces/{box_.space}")
    cluster.close()


@pytest.fixture
def stage(box: Box, world: World) -> Iterator[Stage]:
    stage_ = Stage(box, world)
    yield stage_
    stage_.clear()
    for page in [*box.cluster.list(CONFIGURATIONS, "default", {"sandbox.users.io/record": None})]:
        box.client.delete(f"/api/v1/namespaces/default/configmaps/{page['metadata']['name']}")
    box.client.delete(f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{NAME}")


@pytest.fixture
def pool(box: Box) -> str:
    pool_ = box.deploy(IMAGES[0])
    assert until(lambda: box.full(pool_), PATIENCE)
    return pool_


def ready(stage: Stage, name: str) -> bool:
    return becomes_ready(stage.box.client, f"{EXTENSIONS}/namespaces/{stage.box.space}/sandboxclaims/{name}")


def test_of_many_who_bring_it_back_at_once_it_comes_back_once(stage: Stage, pool: str, world: World) -> None:
    name = stage.make(pool)
    volume = stage.delete(name)

    def replica(_: int) -> str:
        cluster = Blocking.from_kubeconfig(world.plane.kubeconfig())
        try:
            while True:
                found = run(retained_volume, cluster, OWNER, name)
                assert found is not None
                outcome = run(restore_workspace, cluster, found).outcome
                if outcome in {"made", "there", "refused"}:
                    return outcome
        finally:
            cluster.close()

    with ThreadPoolExecutor(6) as hands:
        outcomes = [*hands.map(replica, range(6))]
    assert sorted(outcomes) == ["made", *["there"] * 5]
    assert ready(stage, name)
    assert (stage.volume(name), stage.homes(name)) == (volume, [volume])


def test_whoever_comes_back_as_the_data_is_about_to_go_has_it_or_is_told(stage: Stage, pool: str) -> None:
    """A pass that destroys and a return, at the same moment: never a workspace without its data."""
    for _ in range(3):
        name = stage.make(pool)
        volume = stage.delete(name, timedelta(seconds=1))
        document = stage.document(volume)
        assert document is not None
        start = threading.Barrier(2)

        def destroy(start: threading.Barrier = start) -> None:
            # Its time is over by all clocks, and nobody's way back that began now is.
            context = stage.context(timedelta(minutes=2))
            start.wait(PATIENCE)
            run(apply_retention, context, always)

        def come(start: threading.Barrier = start, document: object = document) -> str:
            start.wait(PATIENCE)
            assert isinstance(document, dict)
            return run(restore_workspace, stage.api, document).outcome

        with ThreadPoolExecutor(2) as hands:
            going, coming = hands.submit(destroy), hands.submit(come)
            going.result()
            outcome = coming.result()
        if outcome == "made":
            assert ready(stage, name)
            assert stage.volume(name) == volume
            assert (stage.document(volume) or {})["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        else:
            assert outcome in {"overtaken", "refused", "waiting"}
            assert stage.claim(name) is None


def test_data_goes_when_it_is_due_and_its_access_point_with_it_and_the_record_stays(
    stage: Stage, pool: str, world: World
) -> None:
    name = stage.make(pool)
    volume = stage.delete(name)
    at = point(stage.document(volume) or {})
    assert run(apply_retention, stage.context(timedelta(days=29)), always).steps == 0
    assert (stage.phase(volume), at in points(world, stage.box.system)) == ("Released", True)
    assert until(lambda: run(apply_retention, stage.context(MONTHS), always).steps == 1, PATIENCE)
    assert until(lambda: stage.phase(volume) == "gone" and at not in points(world, stage.box.system), PATIENCE)
    assert run(apply_retention, stage.context(MONTHS), always).steps == 1
    pages = stage.box.cluster.list(CONFIGURATIONS, "default", {"sandbox.users.io/record": "destroyed"})
    rows = {key: json.loads(text) for page in pages for key, text in section(page, "data").items()}
    assert (rows[volume]["owner"], rows[volume]["workspace"]) == (OWNER, name)
    assert rows[volume]["handle"].endswith(at)
    assert rows[volume]["gone"] >= rows[volume]["decided"]


def test_data_that_was_deleted_by_a_clock_that_is_months_behind_is_kept_for_its_whole_time(
    stage: Stage, pool: str
) -> None:
    name = stage.make(pool)
    volume = stage.delete(name, at=datetime.now(UTC) - MONTHS)
    for later in (timedelta(minutes=2), timedelta(days=29)):
        assert run(apply_retention, stage.context(later), always).steps == 0
    assert (stage.document(volume) or {})["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert until(lambda: run(apply_retention, stage.context(timedelta(days=31)), always).steps == 1, PATIENCE)
    assert until(lambda: stage.phase(volume) == "gone", PATIENCE)


def test_a_claim_that_was_deleted_by_hand_leaves_data_that_is_kept_for_its_time(stage: Stage, pool: str) -> None:
    name = stage.make(pool)
    volume = stage.volume(name)
    stage.box.client.delete(f"{EXTENSIONS}/namespaces/{stage.box.space}/sandboxclaims/{name}")
    assert until(lambda: stage.phase(volume) == "Released" and stage.claim(name) is None, PATIENCE)
    # The driver may be writing to what was just let go of.
    assert until(lambda: run(apply_retention, stage.context(MONTHS), always).steps == 1, PATIENCE)
    notes = (stage.document(volume) or {})["metadata"]["annotations"]
    # From the moment in which it was seen, not from one that nobody knows.
    retention = datetime.fromisoformat(notes[DESTROY_AFTER]) - datetime.fromisoformat(notes[DELETED_AT])
    assert retention == timedelta(days=30)
    assert datetime.fromisoformat(notes[DESTROY_AFTER]) > datetime.now(UTC) + MONTHS
    assert stage.phase(volume) == "Released"


def test_a_replica_whose_clock_is_months_ahead_goes_by_the_servers(stage: Stage, pool: str) -> None:
    name, running = stage.make(pool), stage.make(pool)
    volume = stage.delete(name)
    clock = ServerClock(lambda: datetime.now(UTC) + MONTHS)
    leader = Leader(stage.api.api, "default", "ahead", clock=clock)
    context = stage.context()
    context.clock = clock
    # From the first moment in which it leads: no second renewal has to come before.
    for _ in range(2):
        assert run(leader.renew)
        assert clock.known
        assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
        assert [run(pass_, context, always).steps for pass_ in (apply_retention, suspend_idle, end_expired)] == [
            0,
            0,
            0,
        ]
    assert (stage.phase(volume), leader.is_leader()) == ("Released", True)
    assert (stage.mode(running), stage.notes(running).get(SUSPENDED_BECAUSE)) == ("Running", None)
    run(leader.resign)
    assert ((stage.api.find(LEASES, NAME, "default") or {})["spec"]["holderIdentity"]) == ""


def test_two_replicas_and_a_server_that_is_gone_for_a_while(
    stage: Stage, pool: str, world: World, tmp_path: Path
) -> None:
    name = stage.make(pool)
    volume = stage.volume(name)
    stop, metrics = asyncio.Event(), [Metrics(), Metrics()]
    with gate(world.plane.kubeconfig(), tmp_path) as (way, through):
        running: list[Future[None]] = []
        for number in range(2):
            # One cannot reach the server for a while, and the other always can.
            way_in = through if number == 0 else world.plane.kubeconfig()
            api = OwnNamespaces(KubeClient.from_kubeconfig(way_in, attempts=1), stage.box.space)
            context = stage.context(timedelta(minutes=2), api)
            leader = Leader(api, "default", f"r{number}", terms=LeaseTimes(renews=0.5))
            loops = [
                Loop("idle", 0.2, lambda still, context=context: suspend_idle(context, still)),
                Loop("retention", 0.2, lambda still, context=context: apply_retention(context, still)),
            ]
            scheduler = Scheduler(loops, leader.is_leader, metrics[number])
            running.append(start(lead, leader, scheduler, metrics[number], stop))
            assert until(lambda: any(leads(metric) for metric in metrics), PATIENCE)
        assert [leads(metric) for metric in metrics] == [True, False]
        assert until(lambda: passes(metrics[0]) > 2, PATIENCE)
        way.shut()
        # It leads no longer, and the other one does; both never.
        seen: list[tuple[bool, bool]] = []

        def taken_over() -> bool:
            # In this order: the first one cannot lead again, so if it leads after the other began, both do.
            second = leads(metrics[1])
            seen.append((leads(metrics[0]), second))
            return seen[-1] == (False, True)

        assert until(taken_over, PATIENCE, every=0.2)
        assert (True, True) not in seen
        assert failures(metrics[0]) >= 1
        # Whoever is left does the work.
        stage.box.client.request(
            "PATCH",
            f"{EXTENSIONS}/namespaces/{stage.box.space}/sandboxclaims/{name}",
            {"metadata": {"annotations": {"sandbox.users.io/idle-after": "0", "sandbox.users.io/last-active": None}}},
            content="application/merge-patch+json",
        )
        way.open()
        assert until(lambda: stage.notes(name).get(SUSPENDED_BECAUSE) == "idle", PATIENCE)
        assert until(lambda: stage.mode(name) == "Suspended", PATIENCE)
        run(_set, stop)
        for future in running:
            future.result(PATIENCE)
        assert [leads(metric) for metric in metrics] == [False, False]
    assert (stage.volume(name), stage.phase(volume)) == (volume, "Bound")


async def _set(stop: asyncio.Event) -> None:
    stop.set()


def leads(metrics: Metrics) -> bool:
    return bool(metrics.registry.get_sample_value("agentenv_leader"))


def passes(metrics: Metrics) -> float:
    return metrics.registry.get_sample_value("agentenv_loop_seconds_count", {"loop": "idle"}) or 0.0


def failures(metrics: Metrics) -> float:
    rows = (
        metrics.registry.get_sample_value("agentenv_loop_failures_total", {"loop": loop})
        for loop in ("idle", "retention")
    )
    return sum(row or 0.0 for row in rows)


def test_a_pod_that_dies_and_a_node_that_goes_leave_a_workspace_on_its_volume(
    stage: Stage, pool: str, world: World
) -> None:
    name = stage.make(pool)
    volume, sandbox = stage.volume(name), stage.sandbox(name)
    where = f"/api/v1/namespaces/{stage.box.space}/pods/{sandbox}"
    first = stage.box.client.get(where)
    stage.box.client.delete(where, gracePeriodSeconds=0)
    assert until(lambda: another(stage, where, first["metadata"]["uid"]), PATIENCE)
    # Its claim says for a moment longer that it is ready: what counts is the pod that there is now.
    assert becomes_ready(stage.box.client, where)
    assert ready(stage, name)
    assert stage.loops() == []

    # Another node first, for there has to be somewhere to go.
    wall = wall_of("verified")
    node = f"verified-{uuid.uuid4().hex[:6]}"
    marks = tuple(f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in taints(wall))
    of = {**labels(wall), CAPACITY_LABEL: "on-demand"}
    shape = NodeShape(node, "us-east-1b", "m7g.xlarge", "16", "60Gi", labels=of, taints=marks)
    world.plane.add_nodes([shape])
    second = stage.box.client.get(where)
    stage.box.client.delete(f"/api/v1/nodes/{second['spec']['nodeName']}")
    stage.box.client.delete(where, gracePeriodSeconds=0)
    assert until(lambda: another(stage, where, second["metadata"]["uid"]), PATIENCE)
    assert becomes_ready(stage.box.client, where)
    assert ready(stage, name)
    assert stage.box.client.get(where)["spec"]["nodeName"] == node
    assert stage.loops() == []
    assert (stage.volume(name), stage.homes(name), stage.mode(name)) == (volume, [volume], "Running")


def another(stage: Stage, where: str, uid: str) -> bool:
    found = stage.box.client.find(where)
    return found is not None and found["metadata"]["uid"] != uid


def test_a_lost_sandbox_comes_back_on_its_own_files_and_what_it_had_meanwhile_is_kept(stage: Stage, pool: str) -> None:
    name = stage.make(pool)
    volume, sandbox = stage.volume(name), stage.sandbox(name)
    stage.box.client.delete(f"/apis/agents.x-k8s.io/v1beta1/namespaces/{stage.box.space}/sandboxes/{sandbox}")
    # Upstream gives it another one, with an empty home; it may take a minute until it looks.
    assert until(lambda: stage.sandbox(name) != sandbox and stage.volume(name) not in {"", volume}, 3 * PATIENCE)
    meanwhile = stage.volume(name)
    # Should its pod have been on a node that is gone, nobody takes that away for a minute.
    assert until(lambda: stage.phase(volume) == "Released", 3 * PATIENCE)
    soon = timedelta(seconds=30)
    assert until(lambda: not stage.loops(soon) and stage.volume(name) == volume, PATIENCE, every=0.5)
    assert ready(stage, name)
    assert stage.homes(name) == [volume]
    assert stage.homes(f"{name}-left") == [meanwhile]
    left = stage.document(meanwhile) or {}
    assert left["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert stage.metrics.found["slots"].get("workspace-off-its-home") is None


def test_slots_are_tagged_at_the_claim_and_what_nothing_leads_to_is_told_and_left(
    stage: Stage, pool: str, world: World
) -> None:
    name = stage.make(pool)
    at = point(stage.document(stage.volume(name)) or {})
    efs = world.aws("efs")
    lone = efs.create_access_point(
        ClientToken=uuid.uuid4().hex,
        FileSystemId=stage.box.system,
        PosixUser={"Uid": 7, "Gid": 7},
        RootDirectory={"Path": f"/classes/{stage.box.name}/nobody"},
    )["AccessPointId"]
    try:
        run(maintain_slots, stage.context(), always)
        assert stage.metrics.found["slots"].get("point-without-volume") is None
        assert tags(world, at) >= {("sandbox-user", OWNER), ("sandbox-class", stage.box.name)}
        assert ORPHAN_TAG in {key for key, _ in tags(world, lone)}
        run(maintain_slots, stage.context(SETTLED + timedelta(minutes=1)), always)
        assert stage.metrics.found["slots"]["point-without-volume"] >= 1
        assert lone in points(world, stage.box.system)
        # A volume that leads there, with another path and other ids than its own, is found by the audit.
        stage.loops()
        before = dict(stage.metrics.found["audit"])
        stage.box.client.create(leading(stage, lone))
        stage.loops()
        wrong = stage.metrics.found["audit"]
        assert {kind: wrong.get(kind, 0) - before.get(kind, 0) for kind in ("other-path", "other-ids")} == {
            "other-path": 1,
            "other-ids": 1,
        }
    finally:
        stage.box.client.delete("/api/v1/persistentvolumes/stray")
        efs.delete_access_point(AccessPointId=lone)


def leading(stage: Stage, at: str) -> dict[str, object]:
    ref = {"namespace": stage.box.space, "name": "home-stray", "apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "claimRef": ref,
        "csi": {"driver": "efs.csi.aws.com", "volumeHandle": f"{stage.box.system}::{at}"},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "stray"}, "spec": spec}


def tags(world: World, at: str) -> set[tuple[str, str]]:
    (found,) = world.aws("efs").describe_access_points(AccessPointId=at)["AccessPoints"]
    return {(tag["Key"], tag["Value"]) for tag in found["Tags"]}
