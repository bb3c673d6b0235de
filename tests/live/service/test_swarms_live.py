"""The swarm of a task on the live control plane: cold, together, with a volume in common and one of each one's own."""

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
from tests.live.conftest import World
from tests.live.controlplane.things import PATIENCE, becomes_ready
from tests.live.service.blocking import run
from tests.live.service.conftest import EXTENSIONS, IMAGES, Box
from tests.live.service.lifecycle import OWNER, Stage

RETENTION = timedelta(days=30)
TASK = "crawl"


@pytest.fixture
def stage(box: Box, world: World) -> Iterator[Stage]:
    """A class whose sandboxes share, without any that wait."""
    box.size, box.storage, box.most = 0, "shared", 4
    box.deploy(IMAGES[0])
    assert until(lambda: box.get("resourcequotas", "sandbox", "/api/v1").get("status", {}).get("hard"), PATIENCE)
    stage_ = Stage(box, world)
    yield stage_
    run(delete_swarm, box.cluster, box.space, TASK, RETENTION)
    stage_.clear()


def swarm_of(box: Box, task: str = TASK, count: int = 3) -> Swarm:
    plan = box.plan(IMAGES[0])
    return swarm(plan, releases_of(plan)[0], task, count, owner=OWNER)


def test_a_swarm_comes_up_whole_shares_a_volume_and_goes(stage: Stage) -> None:
    box = stage.box
    (own,) = [row["metadata"]["name"] for row in box.all("sandboxtemplates")]
    sandboxes = run(create_swarm, box.cluster, swarm_of(box), timeout=PATIENCE)
    assert list(sandboxes) == ["crawl-0", "crawl-1", "crawl-2"]
    pods = [box.get("pods", name, "/api/v1") for name in sandboxes.values()]
    volumes = [mounted(pod) for pod in pods]
    assert {volume["shared"] for volume in volumes} == {"shared-crawl"}
    assert len({volume["home"] for volume in volumes}) == 3
    assert {pod["metadata"]["labels"]["sandbox.users.io/task"] for pod in pods} == {"crawl"}
    handles = {
        row["spec"]["csi"]["volumeHandle"]
        for row in box.client.get("/api/v1/persistentvolumes")["items"]
        if row["spec"].get("claimRef", {}).get("namespace") == box.space
    }
    assert len(handles) == 4

    with pytest.raises(SwarmError, match=r"no room for 3 more: .*pods: 3 needed, 1 of"):
        run(create_swarm, box.cluster, swarm_of(box, "more"), timeout=1)
    assert len(box.all("sandboxclaims")) == 3
    run(delete_swarm, box.cluster, box.space, TASK, RETENTION)
    assert until(lambda: not box.all("persistentvolumeclaims", "/api/v1"), PATIENCE)
    assert box.all("sandboxclaims") == []
    # What is left is the class's own.
    assert [row["metadata"]["name"] for row in box.all("sandboxtemplates")] == [own]


def test_deleted_and_created_again_it_has_the_data_that_was_kept(stage: Stage) -> None:
    box = stage.box
    run(create_swarm, box.cluster, swarm_of(box), timeout=PATIENCE)
    before = volumes_of(stage)
    assert len({*before.values()}) == 4
    run(delete_swarm, box.cluster, box.space, TASK, RETENTION)
    # At once, and before any pass.
    assert dated(stage) == {*before.values()}
    run(create_swarm, box.cluster, swarm_of(box), timeout=PATIENCE)
    assert (volumes_of(stage), dated(stage)) == (before, set())
    for name in ("crawl-0", "crawl-1", "crawl-2"):
        assert mounted(box.get("pods", name, "/api/v1"))["shared"] == "shared-crawl"
    for later in (timedelta(0), timedelta(hours=1)):
        context = stage.context(later)
        assert run(apply_retention, context, always).failures == ()
        assert run(maintain_slots, context, always).failures == ()
        assert not stage.metrics.found["slots"].keys() & {"workspace-off-its-home", "volume-claim-without-swarm"}
    assert len(box.all("sandboxclaims")) == 3
    assert volumes_of(stage) == before


def test_a_member_that_is_resumed_alone_mounts_what_was_kept_of_its_task(stage: Stage) -> None:
    box = stage.box
    run(create_swarm, box.cluster, swarm_of(box), timeout=PATIENCE)
    before = volumes_of(stage)
    for whole in (True, False):
        if whole:
            stage.delete("crawl-1")
        else:
            run(delete_swarm, box.cluster, box.space, TASK, RETENTION)
        assert until(lambda: came_back(stage, "crawl-1"), PATIENCE, every=0.5)
        where = f"{EXTENSIONS}/namespaces/{box.space}/sandboxclaims/crawl-1"
        assert becomes_ready(box.client, where), box.client.get(where)
        assert mounted(box.get("pods", "crawl-1", "/api/v1"))["shared"] == "shared-crawl"
        assert {volumes_of(stage, 2)[key] for key in ("crawl-1", "shared")} == {before["crawl-1"], before["shared"]}
        assert not dated(stage) & {before["crawl-1"], before["shared"]}
    run(create_swarm, box.cluster, swarm_of(box), timeout=PATIENCE)
    assert (volumes_of(stage), dated(stage)) == (before, set())


@pytest.mark.parametrize("action", ["end-swarm", "swarm"])
def test_killed_while_it_is_deleted_or_returns(stage: Stage, action: str) -> None:
    box, two = stage.box, swarm_of(stage.box, count=2)
    run(create_swarm, box.cluster, two, timeout=PATIENCE)
    before = volumes_of(stage, 2)
    more = [] if action == "end-swarm" else [json.dumps(box.class_settings(IMAGES[0])), "2"]
    # Each step of it is killed in tests/fast; here every third, by `kill -9`.
    step, killed = 1, True
    while killed:
        if action == "swarm":
            run(delete_swarm, box.cluster, box.space, TASK, RETENTION)
        killed = stage.kill(action, TASK, step, *more)
        assert (
            run(apply_retention, stage.context(), always).failures,
            run(maintain_slots, stage.context(), always).failures,
        ) == ((), ())
        if action == "end-swarm":
            run(delete_swarm, box.cluster, box.space, TASK, RETENTION)
            assert dated(stage) == {*before.values()}
        assert until(lambda: whole(stage, two), PATIENCE)
        assert (volumes_of(stage, 2), dated(stage)) == (before, set())
        step += 3
    assert step > 8


def whole(stage: Stage, of: Swarm) -> bool:
    """Return whether it is there, by asking again for as long as an earlier one is on its way out."""
    try:
        return len(run(create_swarm, stage.box.cluster, of, timeout=PATIENCE)) == len(of.claims)
    except SwarmError as error:
        if error.kind != "busy":
            raise
        return False


def came_back(stage: Stage, name: str) -> bool:
    volume = run(retained_volume, stage.api, OWNER, name)
    assert volume is not None
    return run(restore_workspace, stage.api, volume).outcome in {"made", "there"}


def volumes_of(stage: Stage, count: int = 3) -> dict[str, str]:
    """The volumes of a swarm, by what they are for."""
    found = {member(TASK, number): stage.volume(member(TASK, number)) for number in range(count)}
    shared = stage.api.find(VOLUME_CLAIMS, f"shared-{TASK}", stage.box.space) or {}
    return {**found, "shared": section(shared, "spec").get("volumeName", "")}


def dated(stage: Stage) -> set[str]:
    """The volumes that say that they were deleted."""
    rows = stage.api.list(VOLUMES, labels={USER_LABEL: OWNER})
    return {row["metadata"]["name"] for row in rows if DELETED_AT in section(row["metadata"], "annotations")}


def mounted(pod: dict[str, Any]) -> dict[str, str]:
    """The claims that a pod mounts, by volume."""
    claims = [volume for volume in pod["spec"]["volumes"] if "persistentVolumeClaim" in volume]
    return {claim["name"]: claim["persistentVolumeClaim"]["claimName"] for claim in claims}
