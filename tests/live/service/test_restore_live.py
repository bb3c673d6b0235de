"""A deleted workspace is restored on its own volume and access point, in its own class and in another one."""

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
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT, becomes_ready, condition
from tests.live.service.blocking import run
from tests.live.service.conftest import EXTENSIONS, IMAGES, LiveClass
from tests.live.service.test_releases_live import SANDBOXES, point, points

Object = dict[str, Any]
OWNER = "u-4711"


def create_workspace(live_class: LiveClass, pool: str, name: str, owner: str = OWNER) -> str:
    """Create a workspace from the warm pool, retain its volume, and return the volume's name."""
    live_class.client.create(claims.claim(live_class.name, pool, name, owner=owner, workspace=name))
    path = f"{EXTENSIONS}/namespaces/{live_class.namespace}/sandboxclaims/{name}"
    assert becomes_ready(live_class.client, path), live_class.client.get(path)

    def is_retained() -> bool:
        # Its controller writes to a claim that has just become ready.
        outcomes = {result.outcome for result in run(retain_all_volumes, live_class.cluster) if result.claim == name}
        return bool(outcomes) and outcomes <= {"kept", "already"}

    assert until(is_retained, TIMEOUT)
    return volume_of(live_class, name)


def volume_of(live_class: LiveClass, name: str) -> str:
    """Return the volume of a workspace's sandbox."""
    sandbox = live_class.get("sandboxclaims", name)["status"]["sandbox"]["name"]
    return live_class.get("persistentvolumeclaims", f"home-{sandbox}", "/api/v1")["spec"]["volumeName"]


def delete_claim(live_class: LiveClass, name: str) -> None:
    """Delete a claim, and wait until its volume is released."""
    live_class.client.delete(f"{EXTENSIONS}/namespaces/{live_class.namespace}/sandboxclaims/{name}")
    released(live_class, name)


def released(live_class: LiveClass, name: str) -> None:
    def is_released() -> bool:
        found = run(retained_volume, live_class.cluster, OWNER, name)
        return found is not None and found["status"]["phase"] == "Released"

    assert until(is_released, TIMEOUT)
    claim = f"{EXTENSIONS}/namespaces/{live_class.namespace}/sandboxclaims/{name}"
    assert until(lambda: live_class.client.find(claim) is None, TIMEOUT)


def restore(live_class: LiveClass, name: str, within: str | None = None) -> RestoreResult:
    """Restore the workspace, repeatedly until it exists."""
    found: list[RestoreResult] = []

    def is_restored() -> bool:
        volume = run(retained_volume, live_class.cluster, OWNER, name)
        assert volume is not None
        found.append(run(restore_workspace, live_class.cluster, volume, within))
        return found[-1].outcome in {"made", "there"}

    assert until(is_restored, TIMEOUT), found[-1]
    return found[-1]


def refilled(live_class: LiveClass) -> bool:
    """Return whether the pool is full of ready sandboxes again."""
    rows = live_class.all("sandboxes", SANDBOXES)
    return len(rows) == live_class.size and all(condition(row, "Ready").get("status") == "True" for row in rows)


def ready(live_class: LiveClass, name: str) -> Object:
    path = f"{EXTENSIONS}/namespaces/{live_class.namespace}/sandboxclaims/{name}"
    assert becomes_ready(live_class.client, path), (
        live_class.client.get(path),
        live_class.all("persistentvolumeclaims", "/api/v1"),
    )
    return live_class.client.get(path)


def test_deleted_workspace_is_restored_on_its_own_volume(live_class: LiveClass, live: LiveCluster) -> None:
    pool = live_class.deploy_until_full()
    name = f"w-{uuid.uuid4().hex[:8]}"
    volume = create_workspace(live_class, pool, name)
    home = live_class.client.get(f"/api/v1/persistentvolumes/{volume}")
    delete_claim(live_class, name)
    assert until(lambda: refilled(live_class), TIMEOUT)
    before = points(live, live_class.file_system)

    assert restore(live_class, name).outcome == "made"
    claim = ready(live_class, name)
    assert claim["spec"]["warmPoolRef"]["name"] == f"{pool}-cold"
    # A cold start under its own name, though the pool was full, because only a new sandbox gets its volume
    assert claim["status"]["sandbox"]["name"] == name
    assert volume_of(live_class, name) == volume
    now = live_class.client.get(f"/api/v1/persistentvolumes/{volume}")
    assert (now["status"]["phase"], now["spec"]["csi"]) == ("Bound", home["spec"]["csi"])
    assert "sandbox.users.io/deleted-at" not in now["metadata"].get("annotations", {})
    assert points(live, live_class.file_system) == before
    pvc = live_class.get("persistentvolumeclaims", f"home-{name}", "/api/v1")
    assert pvc["metadata"]["ownerReferences"][0]["kind"] == "Sandbox"
    assert until(
        lambda: (
            [result.outcome for result in run(retain_all_volumes, live_class.cluster) if result.claim == name]
            == ["kept"]
        ),
        TIMEOUT,
    )

    # Deleted again: its volume stays.
    assert restore(live_class, name).outcome == "there"
    delete_claim(live_class, name)
    assert restore(live_class, name).outcome == "made"
    ready(live_class, name)
    assert volume_of(live_class, name) == volume
    check_suspend_and_resume(live_class, name, volume)


def check_suspend_and_resume(live_class: LiveClass, name: str, volume: str) -> None:
    where = f"{SANDBOXES}/namespaces/{live_class.namespace}/sandboxes/{name}"
    set_operating_mode: Callable[[str], Any] = lambda mode: live_class.client.request(  # noqa: E731
        "PATCH", where, {"spec": {"operatingMode": mode}}, content="application/merge-patch+json"
    )
    set_operating_mode("Suspended")
    assert until(
        lambda: live_class.client.find(f"/api/v1/namespaces/{live_class.namespace}/pods/{name}") is None, TIMEOUT
    )
    set_operating_mode("Running")
    ready(live_class, name)
    assert volume_of(live_class, name) == volume


def test_workspace_in_another_class_runs_with_the_ids_of_its_files(live_class: LiveClass, live: LiveCluster) -> None:
    pool = live_class.deploy(IMAGES[0])
    other = LiveClass(
        f"more{uuid.uuid4().hex[:6]}", live_class.client, live_class.cluster, live_class.file_system, size=1
    )
    own = other.deploy(IMAGES[1])
    try:
        assert until(lambda: live_class.is_full(pool) and other.is_full(own), TIMEOUT)
        name = f"w-{uuid.uuid4().hex[:8]}"
        volume = create_workspace(live_class, pool, name)
        delete_claim(live_class, name)
        assert restore(other, name, other.name).outcome == "made"
        ready(other, name)
        assert volume_of(other, name) == volume
        pod = other.get("pods", name, "/api/v1")
        ids = pod["spec"]["securityContext"]
        assert (ids["runAsUser"], ids["runAsGroup"]) == (class_id(live_class.name), class_id(live_class.name))
        labels = pod["metadata"]["labels"]
        assert (labels["sandbox.users.io/class"], labels["sandbox.users.io/home-class"]) == (
            other.name,
            live_class.name,
        )
        assert pod["spec"]["containers"][0]["image"] == IMAGES[1]
        found = live_class.client.get(f"/api/v1/persistentvolumes/{volume}")
        rows = live.aws("efs").describe_access_points(AccessPointId=point(found))["AccessPoints"]
        assert rows[0]["PosixUser"]["Uid"] == class_id(live_class.name)

        # Back in its own class, with the class's template
        delete_claim(other, name)
        assert restore(live_class, name, live_class.name).outcome == "made"
        ready(live_class, name)
        assert volume_of(live_class, name) == volume
        assert "sandbox.users.io/home-class" not in live_class.get("pods", name, "/api/v1")["metadata"]["labels"]
    finally:
        live_class.client.delete(f"/api/v1/namespaces/{other.namespace}")


def test_api_waits_until_a_workspace_is_moved_and_restored(live_class: LiveClass) -> None:
    """The API waits for the deletion of the old objects."""
    pool = live_class.deploy(IMAGES[0])
    other = LiveClass(
        f"more{uuid.uuid4().hex[:6]}", live_class.client, live_class.cluster, live_class.file_system, size=0
    )
    other.deploy(IMAGES[1])
    try:
        assert until(lambda: live_class.is_full(pool), TIMEOUT)
        name = f"w-{uuid.uuid4().hex[:8]}"
        volume = create_workspace(live_class, pool, name)
        home = WorkspaceRestorer(live_class.cluster.api)
        to: Any = SimpleNamespace(name=other.name)
        claim = live_class.cluster.find(CLAIMS, name, live_class.namespace)
        assert claim is not None
        moved = run(home.change_class, claim, to)
        assert (moved.id, moved.class_name, moved.owner) == (name, other.name, OWNER)
        ready(other, name)
        assert volume_of(other, name) == volume
        # Deleted in its new class, it is restored there.
        delete_claim(other, name)
        found = live_class.cluster.find(VOLUMES, volume) or {}
        workspace = Workspace(name, OWNER, other.name, "user", "deleted", volume=volume)
        back_again = run(home.restore, found, workspace)
        assert (back_again.class_name, back_again.last_active is not None) == (other.name, True)
        ready(other, name)
        assert volume_of(other, name) == volume
    finally:
        live_class.client.delete(f"/api/v1/namespaces/{other.namespace}")


def test_volume_is_not_restored_for_another_owner(live_class: LiveClass) -> None:
    pool = live_class.deploy_until_full()
    name = f"w-{uuid.uuid4().hex[:8]}"
    volume = create_workspace(live_class, pool, name)
    assert run(retained_volume, live_class.cluster, "u-9", name) is None
    # The volume of an existing sandbox is not given to another one.
    found = live_class.cluster.find(VOLUMES, volume)
    assert found is not None
    assert run(restore_workspace, live_class.cluster, found).outcome == "there"
    assert [row["metadata"]["name"] for row in live_class.all("sandboxclaims")] == [name]
