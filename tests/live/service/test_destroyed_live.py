"""A workspace deleted with its data: nobody returns to it, and it is gone before the next pass over all volumes."""

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
from tests.live.conftest import World
from tests.live.controlplane.things import PATIENCE
from tests.live.service.blocking import run
from tests.live.service.conftest import IMAGES, Box
from tests.live.service.lifecycle import Stage
from tests.live.service.replicas import ReplicaConfig, Replicas
from tests.live.service.test_api_live import VETTED


@pytest.fixture
def company(world: World, box: Box, tmp_path: Path) -> Iterator[Replicas]:
    """Replicas of the API, and one of the loops."""
    box.more = VETTED
    pool = box.deploy(IMAGES[0])
    assert until(lambda: box.full(pool), PATIENCE)
    issuer = FakeIssuer()
    config = ReplicaConfig(world.plane.kubeconfig(), issuer.url, [box.class_settings()])
    replicas = Replicas(config, world.environment, issuer, tmp_path)
    replicas.replica(loops=True).ready()
    yield replicas
    replicas.close()
    issuer.close()
    for page in [*box.cluster.list(CONFIGURATIONS, "default", {"sandbox.users.io/record": None})]:
        box.client.delete(f"/api/v1/namespaces/default/configmaps/{page['metadata']['name']}")
    box.client.delete(f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{NAME}")


def test_whoever_asks_again_is_told_until_when_and_then_has_an_empty_home(company: Replicas, box: Box) -> None:
    replicas = [company.replica().ready() for _ in range(2)]
    ann, again = (replica.client(company.issuer, "ann") for replica in replicas)
    request = {"json": {"class": box.name}, "params": {"wait": 60}}
    created = ann.post("/v1/workspaces", **request).json()
    volume = box.home(created["sandbox"])["metadata"]["name"]
    assert ann.delete(f"/v1/workspaces/{created['id']}", params={"destroy": "true"}).status_code == 202
    refused = again.post("/v1/workspaces", **request)
    assert (refused.status_code, refused.headers["Content-Type"]) == (409, "application/problem+json")
    assert refused.json()["gone_in"] == int(refused.headers["Retry-After"]) > 0
    assert "being destroyed" in refused.json()["detail"]

    def made_anew() -> bool:
        answer = again.post("/v1/workspaces", **request)
        assert answer.status_code in {201, 409}, answer.text
        return answer.status_code == 201

    # The pass over all volumes was made when the replicas began, and is due in ten minutes.
    assert until(made_anew, PATIENCE, every=0.5)
    now = again.get(f"/v1/workspaces/{created['id']}").json()
    assert (now["id"], now["state"]) == (created["id"], "running")
    assert box.home(now["sandbox"])["metadata"]["name"] != volume
    assert box.cluster.find(VOLUMES, volume) is None


def test_a_return_at_the_same_moment_does_not_win(world: World, box: Box) -> None:
    pool = box.deploy(IMAGES[0])
    assert until(lambda: box.full(pool), PATIENCE)
    stage = Stage(box, world)
    name = stage.make(pool)
    volume = stage.delete(name, timedelta(0))
    document = stage.document(volume) or {}
    start = threading.Barrier(2)

    def come() -> str:
        start.wait(10)
        return run(restore_workspace, stage.api, document).outcome

    with ThreadPoolExecutor(1) as hands:
        coming = hands.submit(come)
        start.wait(10)
        assert until(
            lambda: not run(destroy_on_request, stage.context(), always).failures and stage.phase(volume) == "gone",
            PATIENCE,
        )
        assert coming.result() == "refused"
    assert (stage.claim(name), stage.homes(name)) == (None, [])
