"""Coming back to one's files while the guardrails are in force: everything by the service in its own name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentenv.core.classes.names import cold_pool
from agentenv.core.values.posix_ids import class_id
from agentenv.core.workspaces.swarms import Swarm
from agentenv.rehearsal.controlplane.client import ApiError, Client, until
from agentenv.service.kube.sync_client import CLAIMS, VOLUMES, Document, KubeApi, SyncKubeApiError, section
from agentenv.service.workspaces.delete import delete_workspace
from agentenv.service.workspaces.restore import restore_workspace, retained_volume
from agentenv.service.workspaces.retain_volume import RetentionResult, retain_volume
from agentenv.service.workspaces.swarms import create_swarm, delete_swarm
from tests.live.controlplane.things import PATIENCE, becomes_ready
from tests.live.guardrails.stage import CLASS, LOOSE, SERVICE, SHARED, Guarded, claim, swarm

OWNER = "u-back"


class Speaking(KubeApi):
    """The API server as somebody speaks to it."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(
        self, kind: Any, namespace: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> Iterator[Document]:
        chosen = ",".join(key if value is None else f"{key}={value}" for key, value in (labels or {}).items())
        found = self._client.get(self._path(kind, namespace), **({"labelSelector": chosen} if chosen else {}))
        return iter(found["items"])

    def find(self, kind: Any, name: str, namespace: str | None = None) -> Document | None:
        return self._client.find(self._path(kind, namespace, name))

    def create(self, kind: Any, document: Document) -> bool:
        about = document["metadata"]
        whole = {"apiVersion": _version(kind), "kind": kind._api_info.resource.kind, **document}
        return self._done("POST", self._path(kind, about.get("namespace")), whole)

    def patch(self, kind: Any, existing: Document, changes: Document) -> bool:
        about = existing["metadata"]
        version = {"uid": about["uid"], "resourceVersion": about["resourceVersion"]}
        merged = {**changes, "metadata": {**changes.get("metadata", {}), **version}}
        where = self._path(kind, about.get("namespace"), about["name"])
        return self._done("PATCH", where, merged, "application/merge-patch+json")

    def delete(self, kind: Any, existing: Document) -> bool:
        about = existing["metadata"]
        meant = {"preconditions": {"uid": about["uid"], "resourceVersion": about["resourceVersion"]}}
        return self._done("DELETE", self._path(kind, about.get("namespace"), about["name"]), meant)

    def _path(self, kind: Any, namespace: str | None = None, name: str = "") -> str:
        version, plural = _version(kind), kind._api_info.plural
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        within = f"/namespaces/{namespace}" if namespace else ""
        return f"{base}{within}/{plural}{f'/{name}' if name else ''}"

    def _done(self, method: str, path: str, body: Document, content: str = "application/json") -> bool:
        try:
            self._client.request(method, path, body, content=content)
        except ApiError as error:
            if error.status in {404, 409}:
                return False
            raise SyncKubeApiError(str(error), error.status) from error
        return True


def _version(kind: Any) -> str:
    of = kind._api_info.resource
    return f"{of.group}/{of.version}" if of.group else of.version


@pytest.fixture
def service(guarded: Guarded) -> KubeApi:
    return Speaking(guarded.speak_as(SERVICE))


def test_a_workspace_comes_back_in_its_own_class_and_in_another(guarded: Guarded, service: KubeApi) -> None:
    name = "w-back"
    document = claim(guarded, name, user=OWNER)
    document["metadata"]["labels"]["sandbox.users.io/workspace"] = name
    document["spec"]["additionalPodMetadata"]["labels"]["sandbox.users.io/workspace"] = name
    assert service.create(CLAIMS, document)
    volume = stands(guarded, service, name, guarded.space)
    try:
        goes(service, name, guarded.space)
        assert back(service, name, CLASS) == "made"
        assert stands(guarded, service, name, guarded.space) == volume

        goes(service, name, guarded.space)
        assert back(service, name, LOOSE) == "made"
        assert stands(guarded, service, name, guarded.open_space) == volume
        pod = guarded.admin.get(guarded.core("pods", name, guarded.open_space))
        assert pod["spec"]["securityContext"]["runAsUser"] == class_id(CLASS)
    finally:
        for space in (guarded.space, guarded.open_space):
            guarded.admin.delete(f"/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/{space}/sandboxclaims/{name}")
        guarded.admin.merge(
            f"/api/v1/persistentvolumes/{volume}", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}
        )


def test_a_swarm_and_a_member_of_it_return_to_what_was_kept(guarded: Guarded, service: KubeApi) -> None:
    of = swarm(guarded)
    for document in guarded.classes[SHARED].documents():
        if document["kind"] != "Namespace":
            guarded.admin.apply(document)
    (name,) = create_swarm(service, of, timeout=PATIENCE)
    before = homes(service, of)
    assert set(before) == {name, None}
    try:
        delete_swarm(service, of.namespace, of.task, timedelta(days=30))
        assert list(create_swarm(service, of, timeout=PATIENCE)) == [name]
        assert homes(service, of) == before
        delete_swarm(service, of.namespace, of.task, timedelta(days=30))
        # Alone, with the template and the pool of its task made anew for it.
        told: list[Any] = []

        def came() -> bool:
            told.append(restore_workspace(service, retained_volume(service, of.owner, name) or {}))
            return told[-1].outcome in {"made", "there"}

        assert until(came, PATIENCE), told[-1]
        where = f"/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/{of.namespace}/sandboxclaims/{name}"
        assert becomes_ready(guarded.admin, where), guarded.admin.get(where)
        assert homes(service, of) == before
        pod = guarded.admin.get(f"/api/v1/namespaces/{of.namespace}/pods/{name}")
        claims = [one.get("persistentVolumeClaim", {}).get("claimName") for one in pod["spec"]["volumes"]]
        assert {f"home-{name}", f"shared-{of.task}"} <= {*claims}
    finally:
        delete_swarm(service, of.namespace, of.task, timedelta(0))
        for volume in before.values():
            guarded.admin.merge(
                f"/api/v1/persistentvolumes/{volume}", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}
            )


def homes(service: KubeApi, of: Swarm) -> dict[str | None, str]:
    """The volumes of a swarm, by workspace; what is shared is of none."""
    rows = service.list(VOLUMES, labels={"sandbox.users.io/user": of.owner, "sandbox.users.io/task": of.task})
    return {one["metadata"]["labels"].get("sandbox.users.io/workspace"): one["metadata"]["name"] for one in rows}


def stands(guarded: Guarded, service: KubeApi, name: str, space: str) -> str:
    """It is ready and its volume is kept; the volume."""
    where = f"/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/{space}/sandboxclaims/{name}"
    assert becomes_ready(guarded.admin, where), guarded.admin.get(where)
    told: list[RetentionResult] = []

    def kept() -> bool:
        # Its controller writes to a claim that has just become ready.
        told.append(retain_volume(service, service.find(CLAIMS, name, space) or {}))
        return told[-1].outcome in {"kept", "already"}

    assert until(kept, PATIENCE), told[-1]
    return told[-1].volume


def goes(service: KubeApi, name: str, space: str) -> None:
    def went() -> bool:
        found = service.find(CLAIMS, name, space)
        return found is None or delete_workspace(service, found, timedelta(days=30), datetime.now(UTC)) == "done"

    assert until(went, PATIENCE)

    def released() -> bool:
        volume = retained_volume(service, OWNER, name)
        return volume is not None and section(volume, "status").get("phase") == "Released"

    assert until(released, PATIENCE)


def back(service: KubeApi, name: str, within: str) -> str:
    told: list[Any] = []

    def came() -> bool:
        volume = retained_volume(service, OWNER, name)
        assert volume is not None
        told.append(restore_workspace(service, volume, within))
        return told[-1].outcome in {"made", "there"}

    assert until(came, PATIENCE), told[-1]
    return told[-1].outcome


def test_a_home_that_was_set_free_is_nobody_elses(guarded: Guarded, service: KubeApi) -> None:
    """Whoever claims by the name of a sandbox that is gone comes by what it left behind, and is not given it."""
    name, admin = "w-freed", guarded.admin
    victim = claim(guarded, name, user=OWNER)
    victim["spec"]["warmPoolRef"]["name"] = cold_pool(guarded.pool)
    assert service.create(CLAIMS, victim)
    volume = stands(guarded, service, name, guarded.space)
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
        assert {"claimName": f"home-{name}"} in [one.get("persistentVolumeClaim") for one in pod["spec"]["volumes"]]
        assert admin.get(home)["spec"]["volumeName"] == volume
        kept = retain_volume(service, service.find(CLAIMS, name, guarded.space) or {})
        assert (kept.outcome, kept.foreign, kept.volume) == ("refused", True, volume)
        assert admin.get(own)["metadata"]["labels"]["sandbox.users.io/user"] == OWNER
        now = service.find(CLAIMS, name, guarded.space) or {}
        assert delete_workspace(service, now, timedelta(days=1), datetime.now(UTC)) == "done"
        assert until(lambda: admin.get(own)["status"]["phase"] == "Released", PATIENCE)
        assert "sandbox.users.io/deleted-at" not in (admin.get(own)["metadata"].get("annotations") or {})
    finally:
        admin.delete(guarded.extension("sandboxclaims", name))
        admin.merge(own, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
