"""Tests of restored workspaces with the guardrails in force, as the service's own user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentenv.core.classes.names import cold_pool
from agentenv.core.values.posix_ids import class_id
from agentenv.core.workspaces.swarms import Swarm
from agentenv.local import processes
from agentenv.rehearsal.controlplane.client import until
from agentenv.service.kube.client import CLAIMS, VOLUMES, section
from agentenv.service.workspaces.delete import delete_workspace
from agentenv.service.workspaces.restore import restore_workspace, retained_volume
from agentenv.service.workspaces.retain_volume import RetentionResult, retain_volume
from agentenv.service.workspaces.swarms import create_swarm, delete_swarm
from tests.live.controlplane.objects import TIMEOUT, becomes_ready
from tests.live.guardrails.guarded import CLASS, LOOSE, SERVICE, SHARED, Guarded, claim, swarm
from tests.live.guardrails.test_service_works import acting_as
from tests.live.service.blocking import Blocking, run

OWNER, CONTROLLER = "u-back", "agent-sandbox-controller"


@pytest.fixture
def service(guarded: Guarded) -> Blocking:
    return Blocking(acting_as(guarded, SERVICE).without_retries())


def test_workspace_is_restored_in_its_class_and_in_another(guarded: Guarded, service: Blocking) -> None:
    name = "w-back"
    document = claim(guarded, name, user=OWNER)
    document["metadata"]["labels"]["sandbox.users.io/workspace"] = name
    document["spec"]["additionalPodMetadata"]["labels"]["sandbox.users.io/workspace"] = name
    assert service.create(CLAIMS, document)
    volume = await_ready_and_retained(guarded, service, name, guarded.namespace)
    try:
        delete_and_await_release(service, name, guarded.namespace)
        assert restore(service, name, CLASS) == "made"
        assert await_ready_and_retained(guarded, service, name, guarded.namespace) == volume

        delete_and_await_release(service, name, guarded.namespace)
        assert restore(service, name, LOOSE) == "made"
        assert await_ready_and_retained(guarded, service, name, guarded.open_namespace) == volume
        pod = guarded.admin.get(guarded.core("pods", name, guarded.open_namespace))
        assert pod["spec"]["securityContext"]["runAsUser"] == class_id(CLASS)
    finally:
        for namespace in (guarded.namespace, guarded.open_namespace):
            guarded.admin.delete(
                f"/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/{namespace}/sandboxclaims/{name}"
            )
        guarded.admin.merge(
            f"/api/v1/persistentvolumes/{volume}", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}
        )


def test_swarm_and_member_are_restored_with_their_volumes(guarded: Guarded, service: Blocking) -> None:
    of = swarm(guarded)
    for document in guarded.classes[SHARED].documents():
        if document["kind"] != "Namespace":
            guarded.admin.apply(document)
    (name,) = run(create_swarm, service, of, timeout=TIMEOUT)
    before = homes(service, of)
    assert set(before) == {name, None}
    try:
        run(delete_swarm, service, of.namespace, of.task, timedelta(days=30))
        assert list(run(create_swarm, service, of, timeout=TIMEOUT)) == [name]
        assert homes(service, of) == before
        run(delete_swarm, service, of.namespace, of.task, timedelta(days=30))
        # Alone, with a new template and pool of its task.
        results: list[Any] = []

        def is_restored() -> bool:
            results.append(run(restore_workspace, service, run(retained_volume, service, of.owner, name) or {}))
            return results[-1].outcome in {"made", "there"}

        assert until(is_restored, TIMEOUT), results[-1]
        where = f"/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/{of.namespace}/sandboxclaims/{name}"
        assert becomes_ready(guarded.admin, where), guarded.admin.get(where)
        assert homes(service, of) == before
        pod = guarded.admin.get(f"/api/v1/namespaces/{of.namespace}/pods/{name}")
        claims = [volume.get("persistentVolumeClaim", {}).get("claimName") for volume in pod["spec"]["volumes"]]
        assert {f"home-{name}", f"shared-{of.task}"} <= {*claims}
    finally:
        run(delete_swarm, service, of.namespace, of.task, timedelta(0))
        for volume in before.values():
            guarded.admin.merge(
                f"/api/v1/persistentvolumes/{volume}", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}
            )


def homes(service: Blocking, of: Swarm) -> dict[str | None, str]:
    """Return the volumes of a swarm, by workspace; the shared one has none."""
    rows = service.list(VOLUMES, labels={"sandbox.users.io/user": of.owner, "sandbox.users.io/task": of.task})
    return {row["metadata"]["labels"].get("sandbox.users.io/workspace"): row["metadata"]["name"] for row in rows}


def await_ready_and_retained(guarded: Guarded, service: Blocking, name: str, namespace: str) -> str:
    """Wait until a workspace is ready and its volume is retained; return the volume."""
    where = f"/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/{namespace}/sandboxclaims/{name}"
    assert becomes_ready(guarded.admin, where), guarded.admin.get(where)
    results: list[RetentionResult] = []

    def retained() -> bool:
        # The controller may still write to a ready claim.
        results.append(run(retain_volume, service, service.find(CLAIMS, name, namespace) or {}))
        return results[-1].outcome in {"kept", "already"}

    assert until(retained, TIMEOUT), results[-1]
    return results[-1].volume


def delete_and_await_release(service: Blocking, name: str, namespace: str) -> None:
    def deleted() -> bool:
        found = service.find(CLAIMS, name, namespace)
        return found is None or run(delete_workspace, service, found, timedelta(days=30), datetime.now(UTC)) == "done"

    assert until(deleted, TIMEOUT)

    def released() -> bool:
        volume = run(retained_volume, service, OWNER, name)
        return volume is not None and section(volume, "status").get("phase") == "Released"

    assert until(released, TIMEOUT)


def restore(service: Blocking, name: str, within: str) -> str:
    results: list[Any] = []

    def is_restored() -> bool:
        volume = run(retained_volume, service, OWNER, name)
        assert volume is not None
        results.append(run(restore_workspace, service, volume, within))
        return results[-1].outcome in {"made", "there"}

    assert until(is_restored, TIMEOUT), results[-1]
    return results[-1].outcome


@contextmanager
def sandbox_controller_stopped(guarded: Guarded) -> Iterator[None]:
    """Stop the controller, and start it again without what it had cached."""
    run_id = guarded.live.environment[processes.MARK]
    stopped = [process for process in processes.marked(run_id) if CONTROLLER in process.cmdline()[0]]
    assert stopped
    for process in stopped:
        process.suspend()
    try:
        yield
    finally:
        for process in stopped:
            process.kill()


def test_orphaned_home_is_not_attached_for_another_owner(guarded: Guarded, service: Blocking) -> None:
    """A claim by the name of a deleted sandbox does not get its volume."""
    name, admin = "w-freed", guarded.admin
    victim = claim(guarded, name, user=OWNER)
    victim["spec"]["warmPoolRef"]["name"] = cold_pool(guarded.pool)
    assert service.create(CLAIMS, victim)
    volume = await_ready_and_retained(guarded, service, name, guarded.namespace)
    own = f"/api/v1/persistentvolumes/{volume}"
    home = guarded.core("persistentvolumeclaims", f"home-{name}")
    try:
        # The controller would own the volume claim again, also by a cached sandbox.
        with sandbox_controller_stopped(guarded):
            # The guardrails allow this to deployers only.
            free: Any = [{"op": "remove", "path": "/metadata/ownerReferences"}]
            admin.request("PATCH", home, free, content="application/json-patch+json")
            admin.delete(guarded.extension("sandboxclaims", name))
            assert until(lambda: admin.find(guarded.extension("sandboxes", name)) is None, TIMEOUT)
        assert until(lambda: admin.find(guarded.core("pods", name)) is None, TIMEOUT)

        stranger = claim(guarded, name, user="u-stranger")
        stranger["spec"]["warmPoolRef"]["name"] = cold_pool(guarded.pool)
        assert service.create(CLAIMS, stranger)
        assert becomes_ready(admin, guarded.extension("sandboxclaims", name))
        pod = admin.get(guarded.core("pods", name))
        assert {"claimName": f"home-{name}"} in [
            volume.get("persistentVolumeClaim") for volume in pod["spec"]["volumes"]
        ]
        assert admin.get(home)["spec"]["volumeName"] == volume
        result = run(retain_volume, service, service.find(CLAIMS, name, guarded.namespace) or {})
        assert (result.outcome, result.foreign, result.volume) == ("refused", True, volume)
        assert admin.get(own)["metadata"]["labels"]["sandbox.users.io/user"] == OWNER
        now = service.find(CLAIMS, name, guarded.namespace) or {}
        assert run(delete_workspace, service, now, timedelta(days=1), datetime.now(UTC)) == "done"
        assert until(lambda: admin.get(own)["status"]["phase"] == "Released", TIMEOUT)
        assert "sandbox.users.io/deleted-at" not in (admin.get(own)["metadata"].get("annotations") or {})
    finally:
        admin.delete(guarded.extension("sandboxclaims", name))
        admin.merge(own, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
