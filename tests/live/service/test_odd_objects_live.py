"""A malformed claim on a real API server: replicas stay ready, lists have the others, and loops go on.

A replica whose watches end sees no changes any more, so its process ends.
"""

from __future__ import annotations

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
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT
from tests.live.service.conftest import LiveClass
from tests.live.service.lifecycle import Lifecycle
from tests.live.service.replicas import ReplicaConfig, Replicas
from tests.live.service.serving import Served, configuration, serving
from tests.live.service.test_api_live import VETTED

LEASES, BUDGET = "sandbox.users.io/leases", "sandbox.users.io/budget"


@pytest.fixture
def lifecycle(live: LiveCluster, live_class: LiveClass) -> Lifecycle:
    """Deploy a class, and wait until its pool is full."""
    live_class.extra_settings = VETTED
    live_class.deploy_until_full()
    return Lifecycle(live_class, live)


def create(served: Served, live_class: LiveClass, owner: str) -> str:
    with served.client(owner) as client:
        answer = client.post("/v1/workspaces", json={"class": live_class.name}, params={"wait": 60})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]


def annotate(live_class: LiveClass, name: str, **notes: str) -> None:
    """Write annotations on a claim, as with kubectl."""

    def noted() -> bool:
        claim = live_class.cluster.find(CLAIMS, name, live_class.namespace)
        assert claim is not None
        return live_class.cluster.patch(CLAIMS, claim, {"metadata": {"annotations": notes}})

    assert until(noted, TIMEOUT)


def listed(served: Served, owner: str, replica: int) -> list[str]:
    with served.client(owner, replica) as client:
        answer = client.get("/v1/workspaces")
        assert answer.status_code == 200, answer.text
        return [item["id"] for item in answer.json()["items"]]


def ready(served: Served) -> set[int]:
    return {httpx2.get(f"{url}/readyz", trust_env=False, timeout=TIMEOUT).status_code for url in served.urls}


def test_deeply_nested_annotation_stops_no_replica_and_no_loop(
    live: LiveCluster, lifecycle: Lifecycle, issuer: FakeIssuer
) -> None:
    live_class = lifecycle.live_class
    configuration_ = configuration(live.plane.kubeconfig(), issuer, [live_class.class_settings()])
    with serving(configuration_, issuer, replicas=2) as served:
        odd = create(served, live_class, "bob")
        annotate(live_class, odd, **{LEASES: "[" * 20_000, BUDGET: "1E+999999"})
        # Later events arrive, and the readable fields of the malformed claim are served.
        sound = create(served, live_class, "ann")
        for replica in (0, 1):
            assert until(lambda replica=replica: listed(served, "ann", replica) == [sound], TIMEOUT)
            assert listed(served, "bob", replica) == [odd]
        assert ready(served) == {200}
        with serving(configuration_, issuer) as restarted:
            assert listed(restarted, "ann", 0) == [sound]
        later = timedelta(days=1)
        assert lifecycle.done_by_loops(lambda: [why for _, why in lifecycle.metrics.slept] == ["idle", "idle"], later)
        for owner, id_ in (("ann", sound), ("bob", odd)):
            with served.client(owner) as client:
                path = f"/v1/workspaces/{id_}"
                assert until(lambda c=client, p=path: c.get(p).json()["state"] == "suspended", TIMEOUT)
                assert client.delete(path).status_code == 202


def test_unreadable_object_is_counted_and_omitted(
    live: LiveCluster, lifecycle: Lifecycle, issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_class = lifecycle.live_class
    configuration_ = configuration(live.plane.kubeconfig(), issuer, [live_class.class_settings()])
    with serving(configuration_, issuer) as served:
        odd, read = create(served, live_class, "cyd"), view.workspace_of_claim
        assert until(lambda: listed(served, "cyd", 0) == [odd], TIMEOUT)

        def failing_reader(claim: Any) -> Any:
            if claim["metadata"]["name"] == odd:
                raise RecursionError("a defect of the reader")
            return read(claim)

        monkeypatch.setattr(view, "workspace_of_claim", failing_reader)
        annotate(live_class, odd, **{BUDGET: "1"})
        # Its last readable version is outdated, so it is not served.
        assert until(lambda: listed(served, "cyd", 0) == [], TIMEOUT)
        sound = create(served, live_class, "dan")
        assert until(lambda: listed(served, "dan", 0) == [sound], TIMEOUT)
        assert ready(served) == {200}

        def counted() -> float | None:
            labels = {"kind": "SandboxClaim"}
            return served.metrics[0].registry.get_sample_value("agentenv_unreadable_objects", labels)

        assert until(lambda: counted() == 1, TIMEOUT)
        with serving(configuration_, issuer) as restarted:
            assert (listed(restarted, "dan", 0), listed(restarted, "cyd", 0)) == ([sound], [])
        monkeypatch.setattr(view, "workspace_of_claim", read)
        annotate(live_class, odd, **{BUDGET: "2"})
        assert until(lambda: listed(served, "cyd", 0) == [odd], TIMEOUT)
        assert until(lambda: counted() == 0, TIMEOUT)


def test_process_exits_with_an_error_when_its_watches_end(
    live: LiveCluster, lifecycle: Lifecycle, issuer: FakeIssuer, tmp_path: Path
) -> None:
    live_class = lifecycle.live_class
    config = ReplicaConfig(live.plane.kubeconfig(), issuer.url, [live_class.class_settings()])
    replica_group = Replicas(replace(config, defect=True), live.environment, issuer, tmp_path)
    try:
        replica = replica_group.replica().ready()
        with serving(configuration(config.kubeconfig, issuer, config.classes), issuer) as served:
            create(served, live_class, "eve")
        assert until(lambda: replica.has_ended, TIMEOUT), replica.log_tail
        assert replica.exit_code == EXIT_FAILED, replica.log_tail
        assert '"level": "error"' in replica.log_tail
        assert '"message": "a watch ended"' in replica.log_tail
        assert "the watches of the cluster ended" in replica.log_tail
    finally:
        replica_group.close()
