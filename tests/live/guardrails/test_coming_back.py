"""Tests of restored workspaces with the guardrails in force, as the service's own user."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentenv.core.classes.names import cold_pool
from agentenv.core.values.posix_ids import class_id
from agentenv.core.workspaces.swarms import Swarm
from agentenv.rehearsal.controlplane.client import until
from agentenv.service.kube.client import CLAIMS, VOLUMES, section
from agentenv.service.workspaces.delete import delete_workspace
from agentenv.service.workspaces.restore import restore_workspace, retained_volume
from agentenv.service.workspaces.retain_volume import RetentionResult, retain_volume
from agentenv.service.workspaces.swarms import create_swarm, delete_swarm
from tests.live.controlplane.objects import PATIENCE, becomes_ready
from tests.live.guardrails.stage import CLASS, LOOSE, SERVICE, SHARED, Guarded, claim, swarm
from tests.live.guardrails.test_service_works import acting_as
from tests.live.service.blocking import Blocking, run

OWNER = "u-back"


@pytest.fixture
def service(guarded: Guarded) -> Blocking:
    return Blocking(acting_as(guarded, SERVICE).without_retries())


def test_a_workspace_is_restored_in_its_class_and_in_another(guarded: Guarded, service: Blocking) -> None:
    name = "w-back"
    document = claim(guarded, name, user=OWNER)
    document["metadata"]["labels"]["sandbox.users.io/workspace"] = name
    document["spec"]["additionalPodMetadata"]["labels"]["sandbox.users.io/workspace"] = name
    assert service.create(CLAIMS, document)
    volume = await_ready_and_retained(guarded, service, name, guarded.space)
    try:
        delete_and_await_release(service, name, guarded.space)
        assert restore(service, name, CLASS) == "made"
        assert await_ready_and_retained(guarded, service, name, guarded.space) == volume

        delete_and_await_release(service, name, guarded.space)
        assert restore(service, name, LOOSE) == "made"
        assert await_ready_and_retained(guarded, service, name, guarded.open_space) == volume
        pod = guarded.admin.get(guarded.core("pods", name, guarded.open_space))
        assert pod["spec"]["securityContext"]["runAsUser"] == class_id(CLASS)
    finally:
        for space in (guarded.space, guarded.open_space):
            guarded.admin.delete(f"/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/{space}/sandboxclaims/{name}")
        guarded.admin.merge(
            f"/api/v1/persistentvolumes/{volume}", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}
        )


def test_a_swarm_and_a_member_are_restored_with_their_volumes(guarded: Guarded, service: Blocking) -> None:
    of = swarm(guarded)
    for document in guarded.classes[SHARED].documents():
        if document["kind"] != "Namespace":
            guarded.admin.apply(document)
    (name,) = run(create_swarm, service, of, timeout=PATIENCE)
    before = homes(service, of)
    assert set(before) == {name, None}
    try:
        run(delete_swarm, service, of.namespace, of.task, timedelta(days=30))
        assert list(run(create_swarm, service, of, timeout=PATIENCE)) == [name]
        assert homes(service, of) == before
        run(delete_swarm, service, of.namespace, of.task, timedelta(days=30))
        # Alone, with the template and the pool of its task made anew for it.
        results: list[Any] = []

        def came() -> bool:
            results.append(run(restore_workspace, service, run(retained_volume, service, of.owner, name) or {}))
            return results[-1].outcome in {"made", "there"}

        assert until(came, PATIENCE), results[-1]
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
    """The volumes of a swarm, by workspace; what is shared is of none."""
    rows = service.list(VOLUMES, labels={"sandbox.users.io/user": of.owner, "sandbox.users.io/task": of.task})
    return {row["metadata"]["labels"].get("sandbox.users.io/workspace"): row["metadata"]["name"] for row in rows}


def await_ready_and_retained(guarded: Guarded, service: Blocking, name: str, space: str) -> str:
    """It is ready and its volume is kept; the volume."""
    where = f"/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/{space}/sandboxclaims/{name}"
    assert becomes_ready(guarded.admin, where), guarded.admin.get(where)
    results: list[RetentionResult] = []

    def retained() -> bool:
        # Its controller writes to a claim that has just become ready.
        results.append(run(retain_volume, service, service.find(CLAIMS, name, space) or {}))
        return results[-1].outcome in {"kept", "already"}

    assert until(retained, PATIENCE), results[-1]
    return results[-1].volume


def delete_and_await_release(service: Blocking, name: str, space: str) -> None:
    def deleted() -> bool:
        found = service.find(CLAIMS, name, space)
        return found is None or run(delete_workspace, service, found, timedelta(days=30), datetime.now(UTC)) == "done"

    assert until(deleted, PATIENCE)

    def released() -> bool:
        volume = run(retained_volume, service, OWNER, name)
        return volume is not None and section(volume, "status").get("phase") == "Released"

    assert until(released, PATIENCE)


def restore(service: Blocking, name: str, within: str) -> str:
    results: list[Any] = []

    def came() -> bool:
        volume = run(retained_volume, service, OWNER, name)
        assert volume is not None
        results.append(run(restore_workspace, service, volume, within))
        return results[-1].outcome in {"made", "there"}

    assert until(came, PATIENCE), results[-1]
    return results[-1].outcome


def test_an_orphaned_home_is_not_given_to_another_owner(guarded: Guarded, service: Blocking) -> None:
    """Whoever claims by the name of a sandbox that is gone comes by what it left behind, and is not given it."""
    name, admin = "w-freed", guarded.admin
    victim = claim(guarded, name, user=OWNER)
    victim["spec"]["warmPoolRef"]["name"] = cold_pool(guarded.pool)
    assert service.create(CLAIMS, victim)
    volume = await_ready_and_retained(guarded, service, name, guarded.space)
    own = f"/api/v1/persistentvolumes/{volume}"
    home = guarded.core("persistentvolumeclaims", f"home-{name}")
    try:
        # The guardrails let only deployers go so far.
        free: Any = [{"op": "remove", "path": "/metadata/ownerReferences"}]
        admin.request("PATCH", home, free, content="application/json-patch+json")
        admin.delete(guarded.extension("sandboxclaims", name))
        assert until(lambda: admin.find(guarded.extension("sandboxes", name)) is None, PATIENCE)
        assert until(lambda: admin.find(guarded.core("pods", name)) is None, PATIENCE)

        stranger = claim(guarded, name, user="u-stranger")
        stranger["spec"]["warmPoolRef"]["name"] = cold_pool(guarded.pool)
        assert service.create(CLAIMS, stranger)
        assert becomes_ready(admin, guarded.extension("sandboxclaims", name))
        pod = admin.get(guarded.core("pods", name))
        assert {"claimName": f"home-{name}"} in [
            volume.get("persistentVolumeClaim") for volume in pod["spec"]["volumes"]
        ]
        assert admin.get(home)["spec"]["volumeName"] == volume
        result = run(retain_volume, service, service.find(CLAIMS, name, guarded.space) or {})
        assert (result.outcome, result.foreign, result.volume) == ("refused", True, volume)
        assert admin.get(own)["metadata"]["labels"]["sandbox.users.io/user"] == OWNER
        now = service.find(CLAIMS, name, guarded.space) or {}
        assert run(delete_workspace, service, now, timedelta(days=1), datetime.now(UTC)) == "done"
        assert until(lambda: admin.get(own)["status"]["phase"] == "Released", PATIENCE)
        assert "sandbox.users.io/deleted-at" not in (admin.get(own)["metadata"].get("annotations") or {})
    finally:
        admin.delete(guarded.extension("sandboxclaims", name))
        admin.merge(own, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
