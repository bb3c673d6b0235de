"""Swarms on the live control plane: cold starts of all members, with a shared volume and a home for each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from agentenv.core.classes.names import USER_LABEL
from agentenv.core.classes.releases import releases_of
from agentenv.core.workspaces.swarms import Swarm, member, swarm
from agentenv.core.workspaces.workspace import DELETED_AT
from agentenv.rehearsal.controlplane.client import until
from agentenv.service.kube.client import VOLUME_CLAIMS, VOLUMES, section
from agentenv.service.loops.retention import apply_retention
from agentenv.service.loops.slots import maintain_slots
from agentenv.service.workspaces.restore import restore_workspace, retained_volume
from agentenv.service.workspaces.swarms import SwarmError, create_swarm, delete_swarm
from tests.fast.service.loops.cluster import always
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT, becomes_ready
from tests.live.service.blocking import run
from tests.live.service.conftest import EXTENSIONS, IMAGES, LiveClass
from tests.live.service.lifecycle import OWNER, Lifecycle

RETENTION = timedelta(days=30)
TASK = "crawl"


@pytest.fixture
def lifecycle(live_class: LiveClass, live: LiveCluster) -> Iterator[Lifecycle]:
    """A class with shared volumes, without a warm pool."""
    live_class.size, live_class.storage, live_class.max_sandboxes = 0, "shared", 4
    live_class.deploy(IMAGES[0])
    assert until(lambda: live_class.get("resourcequotas", "sandbox", "/api/v1").get("status", {}).get("hard"), TIMEOUT)
    lifecycle_ = Lifecycle(live_class, live)
    yield lifecycle_
    run(delete_swarm, live_class.cluster, live_class.namespace, TASK, RETENTION)
    lifecycle_.delete_all()


def swarm_of(live_class: LiveClass, task: str = TASK, count: int = 3) -> Swarm:
    plan = live_class.plan(IMAGES[0])
    return swarm(plan, releases_of(plan)[0], task, count, owner=OWNER)


def test_swarm_starts_whole_with_a_shared_volume_and_is_deleted(lifecycle: Lifecycle) -> None:
    live_class = lifecycle.live_class
    (own,) = [row["metadata"]["name"] for row in live_class.all("sandboxtemplates")]
    sandboxes = run(create_swarm, live_class.cluster, swarm_of(live_class), timeout=TIMEOUT)
    assert list(sandboxes) == ["crawl-0", "crawl-1", "crawl-2"]
    pods = [live_class.get("pods", name, "/api/v1") for name in sandboxes.values()]
    volumes = [mounted(pod) for pod in pods]
    assert {volume["shared"] for volume in volumes} == {"shared-crawl"}
    assert len({volume["home"] for volume in volumes}) == 3
    assert {pod["metadata"]["labels"]["sandbox.users.io/task"] for pod in pods} == {"crawl"}
    handles = {
        row["spec"]["csi"]["volumeHandle"]
        for row in live_class.client.get("/api/v1/persistentvolumes")["items"]
        if row["spec"].get("claimRef", {}).get("namespace") == live_class.namespace
    }
    assert len(handles) == 4

    with pytest.raises(SwarmError, match=r"no room for 3 more: .*pods: 3 needed, 1 of"):
        run(create_swarm, live_class.cluster, swarm_of(live_class, "more"), timeout=1)
    assert len(live_class.all("sandboxclaims")) == 3
    run(delete_swarm, live_class.cluster, live_class.namespace, TASK, RETENTION)
    assert until(lambda: not live_class.all("persistentvolumeclaims", "/api/v1"), TIMEOUT)
    assert live_class.all("sandboxclaims") == []
    # The template of the class remains
    assert [row["metadata"]["name"] for row in live_class.all("sandboxtemplates")] == [own]


def test_recreated_swarm_has_its_retained_data(lifecycle: Lifecycle) -> None:
    live_class = lifecycle.live_class
    run(create_swarm, live_class.cluster, swarm_of(live_class), timeout=TIMEOUT)
    before = volumes_of(lifecycle)
    assert len({*before.values()}) == 4
    run(delete_swarm, live_class.cluster, live_class.namespace, TASK, RETENTION)
    # At once, before a pass of the loops
    assert volumes_with_deletion_date(lifecycle) == {*before.values()}
    run(create_swarm, live_class.cluster, swarm_of(live_class), timeout=TIMEOUT)
    assert (volumes_of(lifecycle), volumes_with_deletion_date(lifecycle)) == (before, set())
    for name in ("crawl-0", "crawl-1", "crawl-2"):
        assert mounted(live_class.get("pods", name, "/api/v1"))["shared"] == "shared-crawl"
    for later in (timedelta(0), timedelta(hours=1)):
        context = lifecycle.context(later)
        assert run(apply_retention, context, always).failures == ()
        assert run(maintain_slots, context, always).failures == ()
        assert not lifecycle.metrics.found["slots"].keys() & {"workspace-off-its-home", "volume-claim-without-swarm"}
    assert len(live_class.all("sandboxclaims")) == 3
    assert volumes_of(lifecycle) == before


def test_member_restored_alone_mounts_the_shared_volume_of_its_task(lifecycle: Lifecycle) -> None:
    live_class = lifecycle.live_class
    run(create_swarm, live_class.cluster, swarm_of(live_class), timeout=TIMEOUT)
    before = volumes_of(lifecycle)
    for check_exists_once in (True, False):
        if check_exists_once:
            lifecycle.delete("crawl-1")
        else:
            run(delete_swarm, live_class.cluster, live_class.namespace, TASK, RETENTION)
        assert until(lambda: is_member_restored(lifecycle, "crawl-1"), TIMEOUT, every=0.5)
        where = f"{EXTENSIONS}/namespaces/{live_class.namespace}/sandboxclaims/crawl-1"
        assert becomes_ready(live_class.client, where), live_class.client.get(where)
        assert mounted(live_class.get("pods", "crawl-1", "/api/v1"))["shared"] == "shared-crawl"
        assert {volumes_of(lifecycle, 2)[key] for key in ("crawl-1", "shared")} == {before["crawl-1"], before["shared"]}
        assert not volumes_with_deletion_date(lifecycle) & {before["crawl-1"], before["shared"]}
    run(create_swarm, live_class.cluster, swarm_of(live_class), timeout=TIMEOUT)
    assert (volumes_of(lifecycle), volumes_with_deletion_date(lifecycle)) == (before, set())


@pytest.mark.parametrize("action", ["end-swarm", "swarm"])
def test_deleting_and_recreating_a_swarm_survive_kills(lifecycle: Lifecycle, action: str) -> None:
    live_class, two = lifecycle.live_class, swarm_of(lifecycle.live_class, count=2)
    run(create_swarm, live_class.cluster, two, timeout=TIMEOUT)
    before = volumes_of(lifecycle, 2)
    more = [] if action == "end-swarm" else [json.dumps(live_class.class_settings(IMAGES[0])), "2"]
    # tests/fast covers each write; here every third is killed by `kill -9`.
    step, killed = 1, True
    while killed:
        if action == "swarm":
            run(delete_swarm, live_class.cluster, live_class.namespace, TASK, RETENTION)
        killed = lifecycle.kill(action, TASK, step, *more)
        assert (
            run(apply_retention, lifecycle.context(), always).failures,
            run(maintain_slots, lifecycle.context(), always).failures,
        ) == ((), ())
        if action == "end-swarm":
            run(delete_swarm, live_class.cluster, live_class.namespace, TASK, RETENTION)
            assert volumes_with_deletion_date(lifecycle) == {*before.values()}
        assert until(lambda: check_exists_once(lifecycle, two), TIMEOUT)
        assert (volumes_of(lifecycle, 2), volumes_with_deletion_date(lifecycle)) == (before, set())
        step += 3
    assert step > 8


def check_exists_once(lifecycle: Lifecycle, of: Swarm) -> bool:
    """Return whether a swarm exists, created again while its former objects are being deleted."""
    try:
        return len(run(create_swarm, lifecycle.live_class.cluster, of, timeout=TIMEOUT)) == len(of.claims)
    except SwarmError as error:
        if error.kind != "busy":
            raise
        return False


def is_member_restored(lifecycle: Lifecycle, name: str) -> bool:
    volume = run(retained_volume, lifecycle.api, OWNER, name)
    assert volume is not None
    return run(restore_workspace, lifecycle.api, volume).outcome in {"made", "there"}


def volumes_of(lifecycle: Lifecycle, count: int = 3) -> dict[str, str]:
    """Return the volumes of a swarm, by member, and the shared one."""
    found = {member(TASK, number): lifecycle.volume(member(TASK, number)) for number in range(count)}
    shared = lifecycle.api.find(VOLUME_CLAIMS, f"shared-{TASK}", lifecycle.live_class.namespace) or {}
    return {**found, "shared": section(shared, "spec").get("volumeName", "")}


def volumes_with_deletion_date(lifecycle: Lifecycle) -> set[str]:
    """Return the volumes with a deletion date."""
    rows = lifecycle.api.list(VOLUMES, labels={USER_LABEL: OWNER})
    return {row["metadata"]["name"] for row in rows if DELETED_AT in section(row["metadata"], "annotations")}


def mounted(pod: dict[str, Any]) -> dict[str, str]:
    """Return the volume claims that a pod mounts, by volume."""
    claims = [volume for volume in pod["spec"]["volumes"] if "persistentVolumeClaim" in volume]
    return {claim["name"]: claim["persistentVolumeClaim"]["claimName"] for claim in claims}
