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


class World:
    """A class with an old release and a new one, a controller of pools, and a clock."""

    def __init__(self) -> None:
        self.shelf = FakeApiServer()
        self.now = START
        self.shelf.put(NAMESPACES, {"metadata": {"name": SPACE, "labels": {"sandbox.users.io/class": "box"}}})
        self.names("box-new")
        for name in ("box-new", "box-old"):
            self.release(name)
        self.settle()

    def names(self, *pools: str) -> None:
        """What the stack says are its releases."""
        data = {"releases": ",".join(f"stable/{pool}" for pool in pools)}
        self.shelf.put(CONFIGURATIONS, {"metadata": {"name": "sandbox-class", "namespace": SPACE}, "data": data})

    def release(self, name: str) -> None:
        about = {"name": name, "namespace": SPACE, "labels": {"sandbox.users.io/channel": "stable"}}
        self.shelf.put(TEMPLATES, {"metadata": {**about}, "spec": {}})
        self.shelf.put(POOLS, {"metadata": {**about}, "spec": {"replicas": 2, "sandboxTemplateRef": {"name": name}}})

    def claim(self, name: str, pool: str) -> None:
        about = {"name": name, "namespace": SPACE, "creationTimestamp": self.now.isoformat().replace("+00:00", "Z")}
        spec = {"warmPoolRef": {"name": pool}}
        self.shelf.put(CLAIMS, {"metadata": about, "spec": spec, "status": {"sandbox": {"name": f"{name}-1"}}})

    def settle(self) -> None:
        """What the controller does meanwhile, and more time than anybody waits for."""
        for pool in [*self.shelf.list(POOLS, SPACE)]:
            about, expected = pool["metadata"], pool["spec"]["replicas"]
            status = {"readyReplicas": expected, "observedGeneration": about["generation"]}
            self.shelf.objects[(POOLS, SPACE, about["name"])]["status"] = status
            for number in range(3):
                key = (SANDBOXES, SPACE, f"{about['name']}-{number}")
                self.shelf.objects.pop(key, None)
                if number < expected:
                    owner = {"kind": "SandboxWarmPool", "uid": about["uid"]}
                    labels = {"agents.x-k8s.io/warm-pool-sandbox": "x"}
                    member = {"name": key[2], "namespace": SPACE, "labels": labels, "ownerReferences": [owner]}
                    self.shelf.put(SANDBOXES, {"metadata": member})
        self.now += SETTLED + timedelta(seconds=1)

    def retire(self, *, act: bool = True) -> RetirementResult:
        (one,) = run(retire_releases, self.shelf, act=act, clock=lambda: self.now)
        return one

    def passes(self, number: int = 6) -> list[list[str]]:
        done: list[list[str]] = []
        for _ in range(number):
            done.append([step.do for step in self.retire().done])
            self.settle()
        return done

    @property
    def gone(self) -> bool:
        return "box-old" not in {*self.shelf.names(POOLS), *self.shelf.names(TEMPLATES)}

    @property
    def new_is_whole(self) -> bool:
        pool = self.shelf.find(POOLS, "box-new", SPACE)
        return pool is not None and pool["spec"]["replicas"] == 2 and "box-new" in self.shelf.names(TEMPLATES)


@pytest.fixture
def world() -> World:
    return World()


def test_an_old_release_is_retired_step_by_step(world: World) -> None:
    assert world.passes() == [["mark"], ["empty"], ["remove-pool"], ["remove-template"], [], []]
    assert world.gone
    assert world.new_is_whole


def test_a_scheduled_pool_is_filled_before_the_old_one_is_retired(world: World) -> None:
    data = {"releases": "stable/box-new", "poolHours": '["UTC",0,[[0,1440,2]]]'}
    world.shelf.put(CONFIGURATIONS, {"metadata": {"name": "sandbox-class", "namespace": SPACE}, "data": data})
    world.shelf.objects[(POOLS, SPACE, "box-new")]["spec"]["replicas"] = 0
    world.settle()
    assert world.passes(5) == [["scale"], ["mark"], ["empty"], ["remove-pool"], ["remove-template"]]
    assert world.new_is_whole


def test_a_claim_prevents_the_deletion_of_its_pool_and_template(world: World) -> None:
    world.claim("mine", "box-old")
    assert world.passes(4) == [["mark"], ["empty"], [], []]
    assert world.retire().plan.waits[0].why == "a claim names it"
    del world.shelf.objects[(CLAIMS, SPACE, "mine")]
    assert world.passes(2) == [["remove-pool"], ["remove-template"]]


def test_without_act_nothing_is_changed(world: World) -> None:
    before = {key: one["metadata"]["resourceVersion"] for key, one in world.shelf.objects.items()}
    looked = world.retire(act=False)
    assert [step.do for step in looked.plan.steps] == ["mark"]
    assert looked.done == ()
    assert {key: one["metadata"]["resourceVersion"] for key, one in world.shelf.objects.items()} == before


@pytest.mark.parametrize("data", [None, {}, {"releases": ""}])
def test_a_class_without_named_releases_is_left_alone(world: World, data: Any) -> None:
    world.shelf.put(CONFIGURATIONS, {"metadata": {"name": "sandbox-class", "namespace": SPACE}, "data": data})
    assert run(retire_releases, world.shelf, act=True, clock=lambda: world.now) == []


@pytest.mark.parametrize("change", range(1, 6))
def test_an_interrupted_pass_is_completed_by_the_next(world: World, change: int) -> None:
    def killed(number: int) -> None:
        if number == change:
            raise Killed

    world.shelf.before = killed
    for _ in range(8):
        try:
            world.retire()
        except Killed:
            continue
        finally:
            world.settle()
    assert world.gone
    assert world.new_is_whole


@pytest.mark.parametrize("change", range(1, 6))
def test_a_concurrent_pass_does_no_harm(world: World, change: int) -> None:
    def beside(number: int) -> None:
        if number == change:
            world.shelf.before = lambda _: None
            world.retire()

    world.shelf.before = beside
    world.passes()
    assert world.gone
    assert world.new_is_whole


@pytest.mark.parametrize("change", range(1, 6))
def test_a_rollback_gets_the_old_release_complete(world: World, change: int) -> None:
    """The deployment writes what it names, then templates and pools, whatever of them is there."""

    def deployed(number: int) -> None:
        if number == change:
            world.shelf.before = lambda _: None
            world.names("box-old")
            world.release("box-old")

    world.shelf.before = deployed
    world.passes(8)
    pool, template = (world.shelf.find(kind, "box-old", SPACE) for kind in (POOLS, TEMPLATES))
    assert pool is not None
    assert template is not None
    assert pool["spec"]["replicas"] == 2
    marks = [one["metadata"].get("annotations") or {} for one in (pool, template)]
    assert not any("sandbox.users.io/retiring" in mark for mark in marks)
    assert "box-new" not in world.shelf.names(POOLS)


def test_a_refused_step_is_reported_and_stops_no_other(world: World) -> None:
    world.release("box-older")
    world.settle()

    def refusing(number: int) -> None:
        if number == 1:
            raise KubeApiError("not by you")

    world.shelf.before = refusing
    passed = world.retire()
    assert passed.refused == ("mark box-old: not by you",)
    assert [step.name for step in passed.done] == ["box-older"]


def test_a_claim_of_a_deleted_pool_restores_the_pool(world: World) -> None:
    def late(number: int) -> None:
        # The fourth change removes the pool: two were for the mark, one emptied it.
        if number == 4:
            world.claim("late", "box-old")

    world.shelf.before = late
    world.passes()
    assert "late" in world.shelf.names(CLAIMS)
    restored = world.shelf.find(POOLS, "box-old", SPACE)
    assert restored is not None
    assert (restored["spec"]["replicas"], "box-old" in world.shelf.names(TEMPLATES)) == (0, True)
    del world.shelf.objects[(CLAIMS, SPACE, "late")]
    world.passes()
    assert world.gone
