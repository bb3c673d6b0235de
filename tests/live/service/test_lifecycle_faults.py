"""Races, an unreachable API server, failed pods and nodes, and clock skew lose and duplicate nothing."""

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
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT, becomes_ready
from tests.live.service.blocking import Blocking, run, start
from tests.live.service.conftest import EXTENSIONS, LiveClass, own_class
from tests.live.service.lifecycle import OWNER, Lifecycle, OwnNamespaces
from tests.live.service.relayed import relayed
from tests.live.service.test_releases_live import point, points

MONTHS = timedelta(days=60)


def always() -> bool:
    return True


@pytest.fixture(scope="module")
def live_class(live: LiveCluster, cluster_client: Client, file_system: str) -> Iterator[LiveClass]:
    """One class for all tests, each with workspaces of its own."""
    with own_class(live, cluster_client, file_system, max_sandboxes=30) as live_class:
        yield live_class


@pytest.fixture
def lifecycle(lifecycle: Lifecycle, live_class: LiveClass) -> Iterator[Lifecycle]:
    yield lifecycle
    for page in [*live_class.cluster.list(CONFIGURATIONS, "default", {"sandbox.users.io/record": None})]:
        live_class.client.delete(f"/api/v1/namespaces/default/configmaps/{page['metadata']['name']}")
    live_class.client.delete(f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{NAME}")


def ready(lifecycle: Lifecycle, name: str) -> bool:
    return becomes_ready(
        lifecycle.live_class.client, f"{EXTENSIONS}/namespaces/{lifecycle.live_class.namespace}/sandboxclaims/{name}"
    )


def test_concurrent_restores_create_one_workspace(lifecycle: Lifecycle, pool: str, live: LiveCluster) -> None:
    name = lifecycle.create_workspace(pool)
    volume = lifecycle.delete(name)

    def replica(_: int) -> str:
        cluster = Blocking.from_kubeconfig(live.plane.kubeconfig())
        try:
            while True:
                found = run(retained_volume, cluster, OWNER, name)
                assert found is not None
                outcome = run(restore_workspace, cluster, found).outcome
                if outcome in {"made", "there", "refused"}:
                    return outcome
        finally:
            cluster.close()

    with ThreadPoolExecutor(6) as executor:
        outcomes = [*executor.map(replica, range(6))]
    assert sorted(outcomes) == ["made", *["there"] * 5]
    assert ready(lifecycle, name)
    assert (lifecycle.volume(name), lifecycle.homes(name)) == (volume, [volume])


def test_restore_during_destruction_has_its_data_or_is_refused(lifecycle: Lifecycle, pool: str) -> None:
    """Whichever of destruction and restoration wins, no workspace is without its data."""
    for _ in range(3):
        name = lifecycle.create_workspace(pool)
        volume = lifecycle.delete(name, timedelta(seconds=1))
        document = lifecycle.document(volume)
        assert document is not None
        start = threading.Barrier(2)

        def destroy(start: threading.Barrier = start) -> None:
            # Its retention has ended, and a restoration that starts now has not timed out.
            context = lifecycle.context(timedelta(minutes=2))
            start.wait(TIMEOUT)
            run(apply_retention, context, always)

        def restore_(start: threading.Barrier = start, document: object = document) -> str:
            start.wait(TIMEOUT)
            assert isinstance(document, dict)
            return run(restore_workspace, lifecycle.api, document).outcome

        with ThreadPoolExecutor(2) as executor:
            going, coming = executor.submit(destroy), executor.submit(restore_)
            going.result()
            outcome = coming.result()
        if outcome == "made":
            assert ready(lifecycle, name)
            assert lifecycle.volume(name) == volume
            assert (lifecycle.document(volume) or {})["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        else:
            assert outcome in {"overtaken", "refused", "waiting"}
            assert lifecycle.claim(name) is None


def destroy(lifecycle: Lifecycle, volume: str, later: timedelta) -> int:
    """Apply retention until a volume is destroyed and this is recorded, and return the number of steps.

    The volume may be gone before the pass that decided on it ends, which then records it too.
    """
    steps = 0

    def recorded() -> bool:
        nonlocal steps
        steps += run(apply_retention, lifecycle.context(later), always).steps
        return steps >= 2 and lifecycle.phase(volume) == "gone"

    assert until(recorded, TIMEOUT, every=0.2)
    return steps


def test_expired_data_is_destroyed_with_its_access_point_and_recorded(
    lifecycle: Lifecycle, pool: str, live: LiveCluster
) -> None:
    name = lifecycle.create_workspace(pool)
    volume = lifecycle.delete(name)
    at = point(lifecycle.document(volume) or {})
    assert run(apply_retention, lifecycle.context(timedelta(days=29)), always).steps == 0
    assert (lifecycle.phase(volume), at in points(live, lifecycle.live_class.file_system)) == ("Released", True)
    assert destroy(lifecycle, volume, MONTHS) == 2
    assert at not in points(live, lifecycle.live_class.file_system)
    assert run(apply_retention, lifecycle.context(MONTHS), always).steps == 0
    pages = lifecycle.live_class.cluster.list(CONFIGURATIONS, "default", {"sandbox.users.io/record": "destroyed"})
    rows = {key: json.loads(text) for page in pages for key, text in section(page, "data").items()}
    assert (rows[volume]["owner"], rows[volume]["workspace"]) == (OWNER, name)
    assert rows[volume]["handle"].endswith(at)
    assert rows[volume]["gone"] >= rows[volume]["decided"]


def test_deletion_by_a_late_clock_keeps_the_whole_retention(lifecycle: Lifecycle, pool: str) -> None:
    name = lifecycle.create_workspace(pool)
    volume = lifecycle.delete(name, at=datetime.now(UTC) - MONTHS)
    for later in (timedelta(minutes=2), timedelta(days=29)):
        assert run(apply_retention, lifecycle.context(later), always).steps == 0
    assert (lifecycle.document(volume) or {})["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert destroy(lifecycle, volume, timedelta(days=31)) == 2


def test_claim_deleted_by_hand_leaves_data_for_its_retention(lifecycle: Lifecycle, pool: str) -> None:
    name = lifecycle.create_workspace(pool)
    volume = lifecycle.volume(name)
    lifecycle.live_class.client.delete(f"{EXTENSIONS}/namespaces/{lifecycle.live_class.namespace}/sandboxclaims/{name}")
    assert until(lambda: lifecycle.phase(volume) == "Released" and lifecycle.claim(name) is None, TIMEOUT)
    # The driver may still write to the released volume.
    assert until(lambda: run(apply_retention, lifecycle.context(MONTHS), always).steps == 1, TIMEOUT)
    notes = (lifecycle.document(volume) or {})["metadata"]["annotations"]
    # The retention starts when a pass first sees the volume.
    retention = datetime.fromisoformat(notes[DESTROY_AFTER]) - datetime.fromisoformat(notes[DELETED_AT])
    assert retention == timedelta(days=30)
    assert datetime.fromisoformat(notes[DESTROY_AFTER]) > datetime.now(UTC) + MONTHS
    assert lifecycle.phase(volume) == "Released"


def test_replica_with_a_fast_clock_uses_the_servers_clock(lifecycle: Lifecycle, pool: str) -> None:
    name, running = lifecycle.create_workspace(pool), lifecycle.create_workspace(pool)
    volume = lifecycle.delete(name)
    clock = ServerClock(lambda: datetime.now(UTC) + MONTHS)
    leader = Leader(lifecycle.api.api, "default", "ahead", clock=clock)
    context = lifecycle.context()
    context.clock = clock
    # The server's clock is known at the first renewal.
    for _ in range(2):
        assert run(leader.renew)
        assert clock.known
        assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
        assert [run(pass_, context, always).steps for pass_ in (apply_retention, suspend_idle, end_expired)] == [
            0,
            0,
            0,
        ]
    assert (lifecycle.phase(volume), leader.is_leader()) == ("Released", True)
    assert (lifecycle.mode(running), lifecycle.notes(running).get(SUSPENDED_BECAUSE)) == ("Running", None)
    run(leader.resign)
    assert ((lifecycle.api.find(LEASES, NAME, "default") or {})["spec"]["holderIdentity"]) == ""


def test_leadership_passes_when_a_replica_loses_the_server(
    lifecycle: Lifecycle, pool: str, live: LiveCluster, tmp_path: Path
) -> None:
    name = lifecycle.create_workspace(pool)
    volume = lifecycle.volume(name)
    stop, metrics = asyncio.Event(), [Metrics(), Metrics()]
    with relayed(live.plane.kubeconfig(), tmp_path) as (relay, relayed_kubeconfig):
        running: list[Future[None]] = []
        for number in range(2):
            # Only the first replica will lose the server.
            kubeconfig_ = relayed_kubeconfig if number == 0 else live.plane.kubeconfig()
            api = OwnNamespaces(KubeClient.from_kubeconfig(kubeconfig_, attempts=1), lifecycle.live_class.namespace)
            context = lifecycle.context(timedelta(minutes=2), api)
            leader = Leader(api, "default", f"r{number}", terms=LeaseTimes(renews=0.5))
            loops = [
                Loop("idle", 0.2, lambda still, context=context: suspend_idle(context, still)),
                Loop("retention", 0.2, lambda still, context=context: apply_retention(context, still)),
            ]
            scheduler = Scheduler(loops, leader.is_leader, metrics[number])
            running.append(start(lead, leader, scheduler, metrics[number], stop))
            assert until(lambda: any(leads(metric) for metric in metrics), TIMEOUT)
        assert [leads(metric) for metric in metrics] == [True, False]
        assert until(lambda: passes(metrics[0]) > 2, TIMEOUT)
        relay.cut()
        # The lease passes to the other replica; never do both hold it.
        seen: list[tuple[bool, bool]] = []

        def taken_over() -> bool:
            # In this order: the first cannot lead again, so if it leads after the second began, both lead.
            second = leads(metrics[1])
            seen.append((leads(metrics[0]), second))
            return seen[-1] == (False, True)

        assert until(taken_over, TIMEOUT, every=0.2)
        assert (True, True) not in seen
        assert failures(metrics[0]) >= 1
        # The remaining replica does the work.
        lifecycle.live_class.client.request(
            "PATCH",
            f"{EXTENSIONS}/namespaces/{lifecycle.live_class.namespace}/sandboxclaims/{name}",
            {"metadata": {"annotations": {"sandbox.users.io/idle-after": "0", "sandbox.users.io/last-active": None}}},
            content="application/merge-patch+json",
        )
        relay.restore()
        assert until(lambda: lifecycle.notes(name).get(SUSPENDED_BECAUSE) == "idle", TIMEOUT)
        assert until(lambda: lifecycle.mode(name) == "Suspended", TIMEOUT)
        run(_set, stop)
        for future in running:
            future.result(TIMEOUT)
        assert [leads(metric) for metric in metrics] == [False, False]
    assert (lifecycle.volume(name), lifecycle.phase(volume)) == (volume, "Bound")


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


def test_workspace_keeps_its_volume_when_its_pod_and_node_are_lost(
    lifecycle: Lifecycle, pool: str, live: LiveCluster
) -> None:
    name = lifecycle.create_workspace(pool)
    volume, sandbox = lifecycle.volume(name), lifecycle.sandbox(name)
    where = f"/api/v1/namespaces/{lifecycle.live_class.namespace}/pods/{sandbox}"
    first = lifecycle.live_class.client.get(where)
    lifecycle.live_class.client.delete(where, gracePeriodSeconds=0)
    assert until(lambda: another(lifecycle, where, first["metadata"]["uid"]), TIMEOUT)
    # The claim is still ready for a moment; the current pod counts.
    assert becomes_ready(lifecycle.live_class.client, where)
    assert ready(lifecycle, name)
    assert lifecycle.loops() == []

    # Another node, to which the pod can be scheduled
    wall = wall_of("verified")
    node = f"verified-{uuid.uuid4().hex[:6]}"
    marks = tuple(f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in taints(wall))
    of = {**labels(wall), CAPACITY_LABEL: "on-demand"}
    shape = NodeShape(node, "us-east-1b", "m7g.xlarge", "16", "60Gi", labels=of, taints=marks)
    live.plane.add_nodes([shape])
    second = lifecycle.live_class.client.get(where)
    lifecycle.live_class.client.delete(f"/api/v1/nodes/{second['spec']['nodeName']}")
    lifecycle.live_class.client.delete(where, gracePeriodSeconds=0)
    assert until(lambda: another(lifecycle, where, second["metadata"]["uid"]), TIMEOUT)
    assert becomes_ready(lifecycle.live_class.client, where)
    assert ready(lifecycle, name)
    assert lifecycle.live_class.client.get(where)["spec"]["nodeName"] == node
    assert lifecycle.loops() == []
    assert (lifecycle.volume(name), lifecycle.homes(name), lifecycle.mode(name)) == (volume, [volume], "Running")


def another(lifecycle: Lifecycle, where: str, uid: str) -> bool:
    found = lifecycle.live_class.client.find(where)
    return found is not None and found["metadata"]["uid"] != uid


def test_replaced_sandbox_gets_its_home_and_the_interim_home_is_retained(lifecycle: Lifecycle, pool: str) -> None:
    name = lifecycle.create_workspace(pool)
    volume, sandbox = lifecycle.volume(name), lifecycle.sandbox(name)
    lifecycle.live_class.client.delete(
        f"/apis/agents.x-k8s.io/v1beta1/namespaces/{lifecycle.live_class.namespace}/sandboxes/{sandbox}"
    )
    # The controller creates another sandbox with an empty home, after up to a minute.
    assert until(lambda: lifecycle.sandbox(name) != sandbox and lifecycle.volume(name) not in {"", volume}, 3 * TIMEOUT)
    meanwhile = lifecycle.volume(name)
    # A pod on a deleted node is deleted after a minute.
    assert until(lambda: lifecycle.phase(volume) == "Released", 3 * TIMEOUT)
    soon = timedelta(seconds=30)
    assert until(lambda: not lifecycle.loops(soon) and lifecycle.volume(name) == volume, TIMEOUT, every=0.5)
    assert ready(lifecycle, name)
    assert lifecycle.homes(name) == [volume]
    assert lifecycle.homes(f"{name}-left") == [meanwhile]
    left = lifecycle.document(meanwhile) or {}
    assert left["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert lifecycle.metrics.found["slots"].get("workspace-off-its-home") is None


def test_claimed_homes_are_tagged_and_orphans_are_reported(lifecycle: Lifecycle, pool: str, live: LiveCluster) -> None:
    name = lifecycle.create_workspace(pool)
    at = point(lifecycle.document(lifecycle.volume(name)) or {})
    efs = live.aws("efs")
    lone = efs.create_access_point(
        ClientToken=uuid.uuid4().hex,
        FileSystemId=lifecycle.live_class.file_system,
        PosixUser={"Uid": 7, "Gid": 7},
        RootDirectory={"Path": f"/classes/{lifecycle.live_class.name}/nobody"},
    )["AccessPointId"]
    try:
        run(maintain_slots, lifecycle.context(), always)
        assert lifecycle.metrics.found["slots"].get("point-without-volume") is None
        assert tags(live, at) >= {("sandbox-user", OWNER), ("sandbox-class", lifecycle.live_class.name)}
        assert ORPHAN_TAG in {key for key, _ in tags(live, lone)}
        run(maintain_slots, lifecycle.context(SETTLED + timedelta(minutes=1)), always)
        assert lifecycle.metrics.found["slots"]["point-without-volume"] >= 1
        assert lone in points(live, lifecycle.live_class.file_system)
        # The audit finds a volume of that access point with another path and other ids.
        lifecycle.loops()
        before = dict(lifecycle.metrics.found["audit"])
        lifecycle.live_class.client.create(leading(lifecycle, lone))
        lifecycle.loops()
        wrong = lifecycle.metrics.found["audit"]
        assert {kind: wrong.get(kind, 0) - before.get(kind, 0) for kind in ("other-path", "other-ids")} == {
            "other-path": 1,
            "other-ids": 1,
        }
    finally:
        lifecycle.live_class.client.delete("/api/v1/persistentvolumes/stray")
        efs.delete_access_point(AccessPointId=lone)


def leading(lifecycle: Lifecycle, at: str) -> dict[str, object]:
    ref = {
        "namespace": lifecycle.live_class.namespace,
        "name": "home-stray",
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
    }
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "claimRef": ref,
        "csi": {"driver": "efs.csi.aws.com", "volumeHandle": f"{lifecycle.live_class.file_system}::{at}"},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "stray"}, "spec": spec}


def tags(live: LiveCluster, at: str) -> set[tuple[str, str]]:
    (found,) = live.aws("efs").describe_access_points(AccessPointId=at)["AccessPoints"]
    return {(tag["Key"], tag["Value"]) for tag in found["Tags"]}
