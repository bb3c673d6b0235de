"""Tests of storage metering with the guardrails in force.

Its objects are accepted, its job gets a pod with its volumes, and its service account may only measure homes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentenv.components.storage.home_metering import NAME
from agentenv.core.lifecycle.access_point_audit import Point
from agentenv.core.service import home_metering as plan
from agentenv.core.service.rbac import role
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.service.home_metering import FOUND, FileSystem, passes
from agentenv.service.kube.client import VOLUMES, KubeApiError
from agentenv.service.ledger.read_holdings import MEASURED
from tests.live.controlplane.objects import TIMEOUT
from tests.live.guardrails.guarded import CLASS, PROVISIONER, SHARED, Guarded, Object, volume
from tests.live.service.blocking import Blocking, run

RBAC = "rbac.authorization.k8s.io"
HOMES = {"one": f"/classes/{CLASS}/one", "two": f"/classes/{SHARED}/two"}


class StubAccessPoints:
    """A stub of the EFS API: the access points of the homes."""

    def of(self, file_system: str) -> Sequence[Point]:
        return [Point(_point(name), file_system, path, 1, 1) for name, path in HOMES.items()]

    def tag(self, point: str, tags: object) -> None:
        raise AssertionError((point, tags))

    def untag(self, point: str, names: object) -> None:
        raise AssertionError((point, names))


def _point(name: str) -> str:
    return f"fsap-{sum(map(ord, name)):017x}"


@pytest.fixture(scope="module")
def admin(guarded: Guarded) -> Iterator[Client]:
    """The client of the deployer, after the creation of the component's objects."""
    admin = guarded.admin
    about = {"name": NAME, "namespace": NAME}
    bound: Object = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": NAME},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", **about}],
    }
    allowed = role("ClusterRole", NAME, plan.rbac_rules())
    for document in (allowed, bound):
        admin.apply(document)
    yield admin
    for document in (bound, allowed):
        admin.delete(admin.path(document))


def _collector_kubeconfig(guarded: Guarded) -> dict[str, Any]:
    """Return a kubeconfig with a token of the collector's account."""
    token_request: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{NAME}/serviceaccounts/{NAME}/token"
    token = guarded.admin.request("POST", path, token_request)["status"]["token"]
    authority = b64encode(guarded.live.plane.ca_pem.encode()).decode()
    server = {"server": guarded.live.plane.server, "certificate-authority-data": authority}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": server}],
        "users": [{"name": "it", "user": {"token": token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "current-context": "it",
    }


def test_job_gets_a_pod_with_all_homes(guarded: Guarded, admin: Client) -> None:
    looks = plan.scan_jobs(guarded.settings)[0]
    for number, folder in enumerate(looks.folders):
        admin.apply(plan.volume(folder, f"{guarded.file_system}::fsap-{number:017x}"))
        admin.apply(plan.claim(folder))
    cronjob = admin.apply(plan.job(looks, guarded.settings, guarded.file_system, "us-east-1"))
    assert cronjob["spec"]["concurrencyPolicy"] == "Forbid"
    now: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "now", "namespace": NAME},
        "spec": cronjob["spec"]["jobTemplate"]["spec"],
    }
    path = admin.path(admin.create(now))
    assert until(lambda: (admin.get(path).get("status") or {}).get("succeeded"), TIMEOUT), admin.get(path)
    pods = admin.get(f"/api/v1/namespaces/{NAME}/pods", labelSelector="batch.kubernetes.io/job-name=now")["items"]
    [pod] = pods
    claims = [volume["persistentVolumeClaim"] for volume in pod["spec"]["volumes"] if "persistentVolumeClaim" in volume]
    assert {claim["claimName"] for claim in claims} == {folder.volume for folder in looks.folders}
    for folder in looks.folders:
        bound = admin.get(f"/api/v1/namespaces/{NAME}/persistentvolumeclaims/{folder.volume}")
        assert bound["status"]["phase"] == "Bound"


def test_collector_may_only_record_sizes(guarded: Guarded, admin: Client, tmp_path: Path) -> None:
    for name, path in HOMES.items():
        home = tmp_path / path.lstrip("/") / "deep"
        home.mkdir(parents=True)
        (home / "file").write_bytes(b"x" * 50_000)
        handle = {"driver": "efs.csi.aws.com", "volumeHandle": f"{guarded.file_system}::{_point(name)}"}
        guarded.client_as(PROVISIONER).create(volume(guarded, f"home-{name}", csi=handle))
    cluster = Blocking.from_kubeconfig_document(_collector_kubeconfig(guarded))
    below = tuple(f"/classes/{name}" for name in (CLASS, SHARED))
    file_system = FileSystem(guarded.file_system, tmp_path, 10**6, below)
    try:
        assert run(passes, cluster, StubAccessPoints(), [file_system], 10_000) == 0
        for name in HOMES:
            notes = admin.get(f"/api/v1/persistentvolumes/home-{name}")["metadata"]["annotations"]
            assert int(notes[FOUND]) > 50_000
            assert notes[MEASURED].isdecimal()
        home = cluster.find(VOLUMES, "home-one")
        assert home is not None
        with pytest.raises(KubeApiError, match="volume-kept"):
            cluster.patch(VOLUMES, home, {"spec": {"claimRef": {"name": "home-of-somebody"}}})
        with pytest.raises(KubeApiError, match="forbidden"):
            cluster.delete(VOLUMES, home)
    finally:
        cluster.close()
