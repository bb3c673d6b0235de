"""A pass over releases that is killed, or runs concurrently, has the result of one pass."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentenv.core.classes.retirement import SETTLED
from agentenv.service.kube.client import (
    CLAIMS,
    CONFIGURATIONS,
    NAMESPACES,
    POOLS,
    SANDBOXES,
    TEMPLATES,
    KubeApiError,
)
from agentenv.service.workspaces.retire_releases import RetirementResult, retire_releases
from tests.fast.service.fake_api_server import FakeApiServer, Killed, run

SPACE = "sandbox-box"
START = datetime(2026, 11, 2, 9, tzinfo=UTC)


class Cluster:
    """A class with an old release and a new one, a controller of pools, and a clock."""

    def __init__(self) -> None:
        self.server = FakeApiServer()
        self.now = START
        self.server.put(NAMESPACES, {"metadata": {"name": SPACE, "labels": {"sandbox.users.io/class": "box"}}})
        self.names("box-new")
        for name in ("box-new", "box-old"):
            self.release(name)
        self.settle()

    def names(self, *pools: str) -> None:
        """Set the releases that the stack names."""
        data = {"releases": ",".join(f"stable/{pool}" for pool in pools)}
        self.server.put(CONFIGURATIONS, {"metadata": {"name": "sandbox-class", "namespace": SPACE}, "data": data})

    def release(self, name: str) -> None:
        about = {"name": name, "namespace": SPACE, "labels": {"sandbox.users.io/channel": "stable"}}
        self.server.put(TEMPLATES, {"metadata": {**about}, "spec": {}})
        self.server.put(POOLS, {"metadata": {**about}, "spec": {"replicas": 2, "sandboxTemplateRef": {"name": name}}})

    def claim(self, name: str, pool: str) -> None:
        about = {"name": name, "namespace": SPACE, "creationTimestamp": self.now.isoformat().replace("+00:00", "Z")}
        spec = {"warmPoolRef": {"name": pool}}
        self.server.put(CLAIMS, {"metadata": about, "spec": spec, "status": {"sandbox": {"name": f"{name}-1"}}})

    def settle(self) -> None:
        """Do the work of the controller, and let more time pass than any step waits for."""
        for pool in [*self.server.list(POOLS, SPACE)]:
            about, expected = pool["metadata"], pool["spec"]["replicas"]
            status = {"readyReplicas": expected, "observedGeneration": about["generation"]}
            self.server.objects[(POOLS, SPACE, about["name"])]["status"] = status
            for number in range(3):
                key = (SANDBOXES, SPACE, f"{about['name']}-{number}")
                self.server.objects.pop(key, None)
                if number < expected:
                    owner = {"kind": "SandboxWarmPool", "uid": about["uid"]}
                    labels = {"agents.x-k8s.io/warm-pool-sandbox": "x"}
                    member = {"name": key[2], "namespace": SPACE, "labels": labels, "ownerReferences": [owner]}
                    self.server.put(SANDBOXES, {"metadata": member})
        self.now += SETTLED + timedelta(seconds=1)

    def retire(self, *, act: bool = True) -> RetirementResult:
        (result,) = run(retire_releases, self.server, act=act, clock=lambda: self.now)
        return result

    def passes(self, number: int = 6) -> list[list[str]]:
        done: list[list[str]] = []
        for _ in range(number):
            done.append([step.do for step in self.retire().done])
            self.settle()
        return done

    @property
    def gone(self) -> bool:
        return "box-old" not in {*self.server.names(POOLS), *self.server.names(TEMPLATES)}

    @property
    def new_is_whole(self) -> bool:
        pool = self.server.find(POOLS, "box-new", SPACE)
        return pool is not None and pool["spec"]["replicas"] == 2 and "box-new" in self.server.names(TEMPLATES)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_an_old_release_is_retired_step_by_step(cluster: Cluster) -> None:
    assert cluster.passes() == [["mark"], ["empty"], ["remove-pool"], ["remove-template"], [], []]
    assert cluster.gone
    assert cluster.new_is_whole


def test_a_scheduled_pool_is_filled_before_the_old_one_is_retired(cluster: Cluster) -> None:
    data = {"releases": "stable/box-new", "poolHours": '["UTC",0,[[0,1440,2]]]'}
    cluster.server.put(CONFIGURATIONS, {"metadata": {"name": "sandbox-class", "namespace": SPACE}, "data": data})
    cluster.server.objects[(POOLS, SPACE, "box-new")]["spec"]["replicas"] = 0
    cluster.settle()
    assert cluster.passes(5) == [["scale"], ["mark"], ["empty"], ["remove-pool"], ["remove-template"]]
    assert cluster.new_is_whole


def test_a_claim_prevents_the_deletion_of_its_pool_and_template(cluster: Cluster) -> None:
    cluster.claim("mine", "box-old")
    assert cluster.passes(4) == [["mark"], ["empty"], [], []]
    assert cluster.retire().plan.waits[0].why == "a claim names it"
    del cluster.server.objects[(CLAIMS, SPACE, "mine")]
    assert cluster.passes(2) == [["remove-pool"], ["remove-template"]]


def test_without_act_nothing_is_changed(cluster: Cluster) -> None:
    before = {key: object_["metadata"]["resourceVersion"] for key, object_ in cluster.server.objects.items()}
    looked = cluster.retire(act=False)
    assert [step.do for step in looked.plan.steps] == ["mark"]
    assert looked.done == ()
    assert {key: object_["metadata"]["resourceVersion"] for key, object_ in cluster.server.objects.items()} == before


@pytest.mark.parametrize("data", [None, {}, {"releases": ""}])
def test_a_class_without_named_releases_is_left_alone(cluster: Cluster, data: Any) -> None:
    cluster.server.put(CONFIGURATIONS, {"metadata": {"name": "sandbox-class", "namespace": SPACE}, "data": data})
    assert run(retire_releases, cluster.server, act=True, clock=lambda: cluster.now) == []


@pytest.mark.parametrize("change", range(1, 6))
def test_an_interrupted_pass_is_completed_by_the_next(cluster: Cluster, change: int) -> None:
    def killed(number: int) -> None:
        if number == change:
            raise Killed

    cluster.server.before = killed
    for _ in range(8):
        try:
            cluster.retire()
        except Killed:
            continue
        finally:
            cluster.settle()
    assert cluster.gone
    assert cluster.new_is_whole


@pytest.mark.parametrize("change", range(1, 6))
def test_a_concurrent_pass_does_no_harm(cluster: Cluster, change: int) -> None:
    def beside(number: int) -> None:
        if number == change:
            cluster.server.before = lambda _: None
            cluster.retire()

    cluster.server.before = beside
    cluster.passes()
    assert cluster.gone
    assert cluster.new_is_whole


@pytest.mark.parametrize("change", range(1, 6))
def test_a_rollback_gets_the_old_release_complete(cluster: Cluster, change: int) -> None:
    """The deployment writes what it names, then templates and pools, whatever of them is there."""

    def deployed(number: int) -> None:
        if number == change:
            cluster.server.before = lambda _: None
            cluster.names("box-old")
            cluster.release("box-old")

    cluster.server.before = deployed
    cluster.passes(8)
    pool, template = (cluster.server.find(kind, "box-old", SPACE) for kind in (POOLS, TEMPLATES))
    assert pool is not None
    assert template is not None
    assert pool["spec"]["replicas"] == 2
    marks = [document["metadata"].get("annotations") or {} for document in (pool, template)]
    assert not any("sandbox.users.io/retiring" in mark for mark in marks)
    assert "box-new" not in cluster.server.names(POOLS)


def test_a_refused_step_is_reported_and_stops_no_other(cluster: Cluster) -> None:
    cluster.release("box-older")
    cluster.settle()

    def refusing(number: int) -> None:
        if number == 1:
            raise KubeApiError("not by you")

    cluster.server.before = refusing
    passed = cluster.retire()
    assert passed.refused == ("mark box-old: not by you",)
    assert [step.name for step in passed.done] == ["box-older"]


def test_a_claim_of_a_deleted_pool_restores_the_pool(cluster: Cluster) -> None:
    def late(number: int) -> None:
        # The fourth change removes the pool: two were for the mark, one emptied it.
        if number == 4:
            cluster.claim("late", "box-old")

    cluster.server.before = late
    cluster.passes()
    assert "late" in cluster.server.names(CLAIMS)
    restored = cluster.server.find(POOLS, "box-old", SPACE)
    assert restored is not None
    assert (restored["spec"]["replicas"], "box-old" in cluster.server.names(TEMPLATES)) == (0, True)
    del cluster.server.objects[(CLAIMS, SPACE, "late")]
    cluster.passes()
    assert cluster.gone
