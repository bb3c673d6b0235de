"""One odd claim on a real API server: replicas stay ready, lists have the others, and loops go on.

A replica whose watches end is another matter: it sees nothing any more, so its process ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agentenv.rehearsal.controlplane.client import until
from agentenv.service.__main__ import EXIT_FAILED
from agentenv.service.kube import view
from agentenv.service.kube.client import CLAIMS
from tests.fast.service.http.auth.issuer import FakeIssuer
from tests.live.conftest import World
from tests.live.controlplane.things import PATIENCE
from tests.live.service.conftest import IMAGES, Box
from tests.live.service.lifecycle import Stage
from tests.live.service.replicas import ReplicaConfig, Replicas
from tests.live.service.serving import Served, configuration, serving
from tests.live.service.test_api_live import VETTED

LEASES, BUDGET = "sandbox.users.io/leases", "sandbox.users.io/budget"


@pytest.fixture(scope="module")
def issuer() -> Iterator[FakeIssuer]:
    issuer_ = FakeIssuer()
    yield issuer_
    issuer_.close()


@pytest.fixture
def stage(world: World, box: Box) -> Stage:
    """A class whose pool is full."""
    box.more = VETTED
    pool = box.deploy(IMAGES[0])
    assert until(lambda: box.full(pool), PATIENCE)
    return Stage(box, world)


def create(served: Served, box: Box, owner: str) -> str:
    with served.client(owner) as client:
        answer = client.post("/v1/workspaces", json={"class": box.name}, params={"wait": 60})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]


def spoil(box: Box, name: str, **notes: str) -> None:
    """Write annotations on a claim as somebody with kubectl could."""

    def noted() -> bool:
        claim = box.cluster.find(CLAIMS, name, box.space)
        assert claim is not None
        return box.cluster.patch(CLAIMS, claim, {"metadata": {"annotations": notes}})

    assert until(noted, PATIENCE)


def listed(served: Served, owner: str, replica: int) -> list[str]:
    with served.client(owner, replica) as client:
        answer = client.get("/v1/workspaces")
        assert answer.status_code == 200, answer.text
        return [item["id"] for item in answer.json()["items"]]


def ready(served: Served) -> set[int]:
    return {httpx2.get(f"{url}/readyz", trust_env=False).status_code for url in served.urls}


def test_an_annotation_nested_too_deeply_blinds_no_replica_and_stops_no_loop(
    world: World, stage: Stage, issuer: FakeIssuer
) -> None:
    box = stage.box
    configuration_ = configuration(world.plane.kubeconfig(), issuer, [box.class_settings()])
    with serving(configuration_, issuer, replicas=2) as served:
        odd = create(served, box, "bob")
        spoil(box, odd, **{LEASES: "[" * 20_000, BUDGET: "1E+999999"})
        # What happens after the odd object is told, too, and of the odd one what can be read.
        sound = create(served, box, "ann")
        for replica in (0, 1):
            assert until(lambda replica=replica: listed(served, "ann", replica) == [sound], PATIENCE)
            assert listed(served, "bob", replica) == [odd]
        assert ready(served) == {200}
        with serving(configuration_, issuer) as restarted:
            assert listed(restarted, "ann", 0) == [sound]
        later = timedelta(days=1)
        assert stage.done_by_loops(lambda: [why for _, why in stage.metrics.slept] == ["idle", "idle"], later)
        for owner, id_ in (("ann", sound), ("bob", odd)):
            with served.client(owner) as client:
                path = f"/v1/workspaces/{id_}"
                assert until(lambda c=client, p=path: c.get(p).json()["state"] == "suspended", PATIENCE)
                assert client.delete(path).status_code == 202


def test_an_object_that_cannot_be_read_is_counted_and_left_out(
    world: World, stage: Stage, issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = stage.box
    configuration_ = configuration(world.plane.kubeconfig(), issuer, [box.class_settings()])
    with serving(configuration_, issuer) as served:
        odd, read = create(served, box, "cyd"), view.workspace_of_claim
        assert until(lambda: listed(served, "cyd", 0) == [odd], PATIENCE)

        def of_claim(claim: Any) -> Any:
            if claim["metadata"]["name"] == odd:
                raise RecursionError("a defect of the reader")
            return read(claim)

        monkeypatch.setattr(view, "workspace_of_claim", of_claim)
        spoil(box, odd, **{BUDGET: "1"})
        # What was known of it is true no longer, and so not told.
        assert until(lambda: listed(served, "cyd", 0) == [], PATIENCE)
        sound = create(served, box, "dan")
        assert until(lambda: listed(served, "dan", 0) == [sound], PATIENCE)
        assert ready(served) == {200}

        def counted() -> float | None:
            labels = {"kind": "SandboxClaim"}
            return served.metrics[0].registry.get_sample_value("agentenv_unreadable_objects", labels)

        assert until(lambda: counted() == 1, PATIENCE)
        with serving(configuration_, issuer) as restarted:
            assert (listed(restarted, "dan", 0), listed(restarted, "cyd", 0)) == ([sound], [])
        monkeypatch.setattr(view, "workspace_of_claim", read)
        spoil(box, odd, **{BUDGET: "2"})
        assert until(lambda: listed(served, "cyd", 0) == [odd], PATIENCE)
        assert until(lambda: counted() == 0, PATIENCE)


def test_a_process_whose_watches_end_ends_with_an_error(
    world: World, stage: Stage, issuer: FakeIssuer, tmp_path: Path
) -> None:
    box = stage.box
    config = ReplicaConfig(world.plane.kubeconfig(), issuer.url, [box.class_settings()])
    company = Replicas(replace(config, defect=True), world.environment, issuer, tmp_path)
    try:
        replica = company.replica().ready()
        with serving(configuration(config.kubeconfig, issuer, config.classes), issuer) as served:
            create(served, box, "eve")
        assert until(lambda: replica.dead, PATIENCE), replica.log_tail
        assert replica.exit_code == EXIT_FAILED, replica.log_tail
        assert '"level": "error"' in replica.log_tail
        assert '"message": "a watch ended"' in replica.log_tail
        assert "the watches of the cluster ended" in replica.log_tail
    finally:
        company.close()
