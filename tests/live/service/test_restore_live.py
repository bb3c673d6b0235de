"""Coming back: a deleted workspace on its own volume and access point, in its own class and in another one."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from agentenv.core.values.posix_ids import class_id
from agentenv.core.workspaces import claims
from agentenv.core.workspaces.workspace import Workspace
from agentenv.rehearsal.controlplane.client import until
from agentenv.service.kube.client import CLAIMS, VOLUMES
from agentenv.service.workspaces.restore import RestoreResult, restore_workspace, retained_volume
from agentenv.service.workspaces.restore_requests import WorkspaceRestorer
from agentenv.service.workspaces.retain_volume import retain_all_volumes
from tests.live.conftest import World
from tests.live.controlplane.things import PATIENCE, becomes_ready, condition
from tests.live.service.blocking import run
from tests.live.service.conftest import EXTENSIONS, IMAGES, Box
from tests.live.service.test_releases_live import SANDBOXES, point, points

Object = dict[str, Any]
OWNER = "u-4711"


def make(box: Box, pool: str, name: str, owner: str = OWNER) -> str:
    """A workspace of a warm slot, whose volume is kept; the volume's name."""
    box.client.create(claims.claim(box.name, pool, name, owner=owner, workspace=name))
    path = f"{EXTENSIONS}/namespaces/{box.space}/sandboxclaims/{name}"
    assert becomes_ready(box.client, path), box.client.get(path)

    def is_retained() -> bool:
        # Its controller writes to a claim that has just become ready.
        return {result.outcome for result in run(retain_all_volumes, box.cluster) if result.claim == name} <= {
            "kept",
            "already",
        }

    assert until(is_retained, PATIENCE)
    return volume_of(box, name)


def volume_of(box: Box, name: str) -> str:
    """The volume that a workspace's sandbox has."""
    sandbox = box.get("sandboxclaims", name)["status"]["sandbox"]["name"]
    return box.get("persistentvolumeclaims", f"home-{sandbox}", "/api/v1")["spec"]["volumeName"]


def gone(box: Box, name: str) -> None:
    """Its claim and all that hung on it went, and its volume is let go of."""
    box.client.delete(f"{EXTENSIONS}/namespaces/{box.space}/sandboxclaims/{name}")
    released(box, name)


def released(box: Box, name: str) -> None:
    def is_released() -> bool:
        found = run(retained_volume, box.cluster, OWNER, name)
        return found is not None and found["status"]["phase"] == "Released"

    assert until(is_released, PATIENCE)
    claim = f"{EXTENSIONS}/namespaces/{box.space}/sandboxclaims/{name}"
    assert until(lambda: box.client.find(claim) is None, PATIENCE)


def back(box: Box, name: str, within: str | None = None) -> RestoreResult:
    """As whoever serves people does it: again, until it is there."""
    found: list[RestoreResult] = []

    def stands() -> bool:
        volume = run(retained_volume, box.cluster, OWNER, name)
        assert volume is not None
        found.append(run(restore_workspace, box.cluster, volume, within))
        return found[-1].outcome in {"made", "there"}

    assert until(stands, PATIENCE), found[-1]
    return found[-1]


def refilled(box: Box) -> bool:
    """Return whether the pool has made a sandbox for each that was claimed, with all that belongs to it."""
    rows = box.all("sandboxes", SANDBOXES)
    return len(rows) == box.size and all(condition(row, "Ready").get("status") == "True" for row in rows)


def ready(box: Box, name: str) -> Object:
    path = f"{EXTENSIONS}/namespaces/{box.space}/sandboxclaims/{name}"
    assert becomes_ready(box.client, path), (box.client.get(path), box.all("persistentvolumeclaims", "/api/v1"))
    return box.client.get(path)


def test_a_deleted_workspace_comes_back_on_its_own_volume_and_not_on_a_warm_slots(box: Box, world: World) -> None:
    pool = box.deploy(IMAGES[0])
    assert until(lambda: box.full(pool), PATIENCE)
    name = f"w-{uuid.uuid4().hex[:8]}"
    volume = make(box, pool, name)
    home = box.client.get(f"/api/v1/persistentvolumes/{volume}")
    gone(box, name)
    assert until(lambda: refilled(box), PATIENCE)
    before = points(world, box.system)

    assert back(box, name).outcome == "made"
    claim = ready(box, name)
    assert claim["spec"]["warmPoolRef"]["name"] == f"{pool}-cold"
    # It started cold, under its own name, though the pool was full: with its volume, and nobody's else.
    assert claim["status"]["sandbox"]["name"] == name
    assert volume_of(box, name) == volume
    now = box.client.get(f"/api/v1/persistentvolumes/{volume}")
    assert (now["status"]["phase"], now["spec"]["csi"]) == ("Bound", home["spec"]["csi"])
    assert "sandbox.users.io/deleted-at" not in now["metadata"].get("annotations", {})
    assert points(world, box.system) == before
    pvc = box.get("persistentvolumeclaims", f"home-{name}", "/api/v1")
    assert pvc["metadata"]["ownerReferences"][0]["kind"] == "Sandbox"
    assert until(
        lambda: [result.outcome for result in run(retain_all_volumes, box.cluster) if result.claim == name] == ["kept"],
        PATIENCE,
    )

    # Once more, and again: it goes with its sandbox as a slot does, and its volume stays.
    assert back(box, name).outcome == "there"
    gone(box, name)
    assert back(box, name).outcome == "made"
    ready(box, name)
    assert volume_of(box, name) == volume
    sleeps_and_wakes(box, name, volume)


def sleeps_and_wakes(box: Box, name: str, volume: str) -> None:
    where = f"{SANDBOXES}/namespaces/{box.space}/sandboxes/{name}"
    turn: Callable[[str], Any] = lambda mode: box.client.request(  # noqa: E731
        "PATCH", where, {"spec": {"operatingMode": mode}}, content="application/merge-patch+json"
    )
    turn("Suspended")
    assert until(lambda: box.client.find(f"/api/v1/namespaces/{box.space}/pods/{name}") is None, PATIENCE)
    turn("Running")
    ready(box, name)
    assert volume_of(box, name) == volume


def test_in_another_class_it_runs_with_the_ids_that_its_files_have(box: Box, world: World) -> None:
    pool = box.deploy(IMAGES[0])
    other = Box(f"more{uuid.uuid4().hex[:6]}", box.client, box.cluster, box.system, size=1)
    own = other.deploy(IMAGES[1])
    try:
        assert until(lambda: box.full(pool) and other.full(own), PATIENCE)
        name = f"w-{uuid.uuid4().hex[:8]}"
        volume = make(box, pool, name)
        gone(box, name)
        assert back(other, name, other.name).outcome == "made"
        ready(other, name)
        assert volume_of(other, name) == volume
        pod = other.get("pods", name, "/api/v1")
        ids = pod["spec"]["securityContext"]
        assert (ids["runAsUser"], ids["runAsGroup"]) == (class_id(box.name), class_id(box.name))
        labels = pod["metadata"]["labels"]
        assert (labels["sandbox.users.io/class"], labels["sandbox.users.io/home-class"]) == (other.name, box.name)
        assert pod["spec"]["containers"][0]["image"] == IMAGES[1]
        found = box.client.get(f"/api/v1/persistentvolumes/{volume}")
        rows = world.aws("efs").describe_access_points(AccessPointId=point(found))["AccessPoints"]
        assert rows[0]["PosixUser"]["Uid"] == class_id(box.name)

        # And back, on the same files, with a template of its class's own again.
        gone(other, name)
        assert back(box, name, box.name).outcome == "made"
        ready(box, name)
        assert volume_of(box, name) == volume
        assert "sandbox.users.io/home-class" not in box.get("pods", name, "/api/v1")["metadata"]["labels"]
    finally:
        box.client.delete(f"/api/v1/namespaces/{other.space}")


def test_whoever_asks_over_the_api_waits_until_it_has_moved_and_come_back(box: Box) -> None:
    """The same steps, awaited: what is on its way out is waited for."""
    pool = box.deploy(IMAGES[0])
    other = Box(f"more{uuid.uuid4().hex[:6]}", box.client, box.cluster, box.system, size=0)
    other.deploy(IMAGES[1])
    try:
        assert until(lambda: box.full(pool), PATIENCE)
        name = f"w-{uuid.uuid4().hex[:8]}"
        volume = make(box, pool, name)
        home = WorkspaceRestorer(box.cluster.api)
        to: Any = SimpleNamespace(name=other.name)
        claim = box.cluster.find(CLAIMS, name, box.space)
        assert claim is not None
        moved = run(home.change_class, claim, to)
        assert (moved.id, moved.class_name, moved.owner) == (name, other.name, OWNER)
        ready(other, name)
        assert volume_of(other, name) == volume
        # Deleted there and asked for again, it is back there.
        gone(other, name)
        found = box.cluster.find(VOLUMES, volume) or {}
        workspace = Workspace(name, OWNER, other.name, "user", "deleted", volume=volume)
        back_again = run(home.restore, found, workspace)
        assert (back_again.class_name, back_again.last_active is not None) == (other.name, True)
        ready(other, name)
        assert volume_of(other, name) == volume
    finally:
        box.client.delete(f"/api/v1/namespaces/{other.space}")


def test_nobody_comes_back_on_anothers_volume(box: Box) -> None:
    pool = box.deploy(IMAGES[0])
    assert until(lambda: box.full(pool), PATIENCE)
    name = f"w-{uuid.uuid4().hex[:8]}"
    volume = make(box, pool, name)
    assert run(retained_volume, box.cluster, "u-9", name) is None
    # While its sandbox stands, its volume is not for anybody else: it stands, and nothing is made.
    found = box.cluster.find(VOLUMES, volume)
    assert found is not None
    assert run(restore_workspace, box.cluster, found).outcome == "there"
    assert [row["metadata"]["name"] for row in box.all("sandboxclaims")] == [name]
