"""A workspace deleted with its data: it is not restored, and its volume is destroyed before the next full pass."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from agentenv.rehearsal.controlplane.client import until
from agentenv.service.kube.client import CONFIGURATIONS, VOLUMES
from agentenv.service.loops.leader_election import NAME
from agentenv.service.loops.retention import destroy_on_request
from agentenv.service.workspaces.restore import restore_workspace
from tests.fast.service.http.auth.issuer import FakeIssuer
from tests.fast.service.loops.cluster import always
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT
from tests.live.service.blocking import run
from tests.live.service.conftest import LiveClass
from tests.live.service.lifecycle import Lifecycle
from tests.live.service.replicas import ReplicaConfig, Replicas
from tests.live.service.test_api_live import VETTED

HOLD = "tests.example.com/hold"


@pytest.fixture
def replica_group(live: LiveCluster, live_class: LiveClass, tmp_path: Path) -> Iterator[Replicas]:
    """Replicas of the API, and one replica of the loops."""
    live_class.extra_settings = VETTED
    live_class.deploy_until_full()
    issuer = FakeIssuer()
    config = ReplicaConfig(live.plane.kubeconfig(), issuer.url, [live_class.class_settings()])
    replicas = Replicas(config, live.environment, issuer, tmp_path)
    replicas.replica(loops=True).ready()
    yield replicas
    replicas.close()
    issuer.close()
    for page in [*live_class.cluster.list(CONFIGURATIONS, "default", {"sandbox.users.io/record": None})]:
        live_class.client.delete(f"/api/v1/namespaces/default/configmaps/{page['metadata']['name']}")
    live_class.client.delete(f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{NAME}")


def test_create_waits_for_the_destruction_and_gets_an_empty_home(
    replica_group: Replicas, live_class: LiveClass
) -> None:
    replicas = [replica_group.replica().ready() for _ in range(2)]
    ann, again = (replica.client(replica_group.issuer, "ann") for replica in replicas)
    request = {"json": {"class": live_class.name}, "params": {"wait": 60}}
    created = ann.post("/v1/workspaces", **request).json()
    volume = live_class.home(created["sandbox"])["metadata"]["name"]
    # It cannot be released, and so not be destroyed, before somebody was refused.
    home = f"/api/v1/namespaces/{live_class.namespace}/persistentvolumeclaims/home-{created['sandbox']}"
    live_class.client.merge(home, {"metadata": {"finalizers": ["kubernetes.io/pvc-protection", HOLD]}})
    assert ann.delete(f"/v1/workspaces/{created['id']}", params={"destroy": "true"}).status_code == 202
    refused = again.post("/v1/workspaces", **request)
    assert (refused.status_code, refused.headers["Content-Type"]) == (409, "application/problem+json")
    assert refused.json()["gone_in"] == int(refused.headers["Retry-After"]) > 0
    assert "being destroyed" in refused.json()["detail"]

    def released() -> bool:
        # Kubernetes may have removed its own finalizer meanwhile, which cannot be added again.
        found = live_class.client.get(home)["metadata"]
        left = [finalizer for finalizer in found["finalizers"] if finalizer != HOLD]
        version = {"resourceVersion": found["resourceVersion"]}
        return bool(live_class.client.merge(home, {"metadata": {**version, "finalizers": left}}))

    assert until(released, TIMEOUT)

    def made_anew() -> bool:
        answer = again.post("/v1/workspaces", **request)
        assert answer.status_code in {201, 409}, answer.text
        return answer.status_code == 201

    # The full pass ran when the replicas started, and is due in ten minutes.
    assert until(made_anew, TIMEOUT, every=0.5)
    now = again.get(f"/v1/workspaces/{created['id']}").json()
    assert (now["id"], now["state"]) == (created["id"], "running")
    assert live_class.home(now["sandbox"])["metadata"]["name"] != volume
    assert live_class.cluster.find(VOLUMES, volume) is None


def test_concurrent_restore_is_refused(live: LiveCluster, live_class: LiveClass) -> None:
    pool = live_class.deploy_until_full()
    lifecycle = Lifecycle(live_class, live)
    name = lifecycle.create_workspace(pool)
    volume = lifecycle.delete(name, timedelta(0))
    document = lifecycle.document(volume) or {}
    start = threading.Barrier(2)

    def restore_() -> str:
        start.wait(TIMEOUT)
        return run(restore_workspace, lifecycle.api, document).outcome

    with ThreadPoolExecutor(1) as executor:
        coming = executor.submit(restore_)
        start.wait(TIMEOUT)
        assert until(
            lambda: (
                not run(destroy_on_request, lifecycle.context(), always).failures and lifecycle.phase(volume) == "gone"
            ),
            TIMEOUT,
        )
        assert coming.result() == "refused"
    assert (lifecycle.claim(name), lifecycle.homes(name)) == (None, [])
