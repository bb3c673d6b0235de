"""In a full class an unclaimed slot makes way for a workspace that wakes, and comes back when there is room."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentenv.core.workspaces.pod_report import PodReport
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.catalog import Catalog, Class
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import NAMESPACES, POOLS, QUOTAS, Document
from agentenv.service.workspaces.make_room import MADE_WAY, MARGIN, PATIENT_PASSES, Room, give_back_slots, yield_slots
from tests.fast.service.fake_api_server import Api, FakeApiServer
from tests.fast.service.loops.cluster import Cluster
from tests.fast.service.workspaces.stage import settings_of

SPACE = "sandbox-standard"


class FullClass:
    """A class whose quota counts pods; a slot that makes way ends during the next pause."""

    def __init__(self, most: int = 10, used: int = 10, *pools: tuple[str, int]) -> None:
        self.server, self.most, self.used = FakeApiServer(), most, used
        self.server.put(NAMESPACES, {"metadata": {"name": SPACE, "labels": {"sandbox.users.io/class": "standard"}}})
        for name, slots in pools or (("standard-a", 3),):
            self.pool(name, slots)
        self._count()
        self.seconds, self.starting = 0.0, 0
        self.room = Room(Api(self.server), self._pause, lambda: self.seconds)
        self.ends = True

    @property
    def of_class(self) -> Class:
        return Catalog(settings_of({"name": "standard"})).get("standard")

    def pool(self, name: str, slots: int, **metadata: Any) -> None:
        about = {"name": name, "namespace": SPACE, **metadata}
        self.server.put(POOLS, {"metadata": about, "spec": {"replicas": slots}, "status": {"readyReplicas": slots}})

    def read(self, name: str = "standard-a") -> Document:
        return self.server.objects[POOLS, SPACE, name]

    def size(self, name: str = "standard-a") -> tuple[int, str | None]:
        pool = self.read(name)
        return pool["spec"]["replicas"], pool["metadata"].get("annotations", {}).get(MADE_WAY)

    def wake(self, wait: float = 60) -> None:
        async def run() -> None:
            await self.room.make(self.of_class, "small", wait)
            self.used += 1
            self._count()

        asyncio.run(run())
        self.seconds += 60

    def give_back(self) -> int:
        cluster = Cluster(self.server)
        return asyncio.run(give_back_slots(cluster.context(), lambda: True)).steps

    def _count(self) -> None:
        status = {"hard": {"pods": str(self.most)}, "used": {"pods": str(self.used)}}
        self.server.put(QUOTAS, {"metadata": {"name": "sandbox", "namespace": SPACE}, "status": status})

    async def _pause(self, seconds: float) -> None:
        self.seconds += seconds
        self.used, self.starting = self.used + self.starting, 0
        for kind, space, name in list(self.server.objects):
            if kind is POOLS and self.ends:
                pool = self.server.objects[kind, space, name]
                ended = pool["status"]["readyReplicas"] - pool["spec"]["replicas"]
                if ended > 0:
                    pool["status"]["readyReplicas"] -= ended
                    self.used -= ended
        self._count()
        await asyncio.sleep(0)


def test_with_room_no_slot_makes_way() -> None:
    full = FullClass(10, 9)
    full.wake()
    assert full.size() == (3, None)


def test_a_slot_of_the_fullest_pool_makes_way() -> None:
    full = FullClass(10, 10, ("standard-a", 1), ("standard-b", 4))
    full.wake()
    assert full.size("standard-a") == (1, None)
    assert full.size("standard-b") == (3, "1/3")
    full.wake()
    assert full.size("standard-b") == (2, "2/2")


def test_without_a_slot_the_class_is_full() -> None:
    full = FullClass(10, 10, ("standard-a", 0))
    full.pool("swarm", 5, labels={"sandbox.users.io/task": "t"})
    full.pool("old", 5, annotations={"sandbox.users.io/retiring": "2026-11-19T00:00:00Z"})
    with pytest.raises(Problem) as caught:
        full.wake()
    assert caught.value.kind == "no-room"
    assert full.size("swarm")[0] == full.size("old")[0] == 5


def test_a_slot_that_does_not_end_is_not_followed_by_all_others() -> None:
    full = FullClass()
    full.ends = False
    with pytest.raises(Problem):
        full.wake()
    assert full.size() == (2, "1/2")


async def wake_many(full: FullClass, count: int) -> list[bool]:
    """Return which of many that wake at once got room; their pods are counted a moment later."""

    async def wake() -> bool:
        try:
            await full.room.make(full.of_class, "small", 60)
        except Problem:
            return False
        full.starting += 1
        return True

    return await asyncio.gather(*(wake() for _ in range(count)))


def test_each_resume_ends_one_warm_sandbox() -> None:
    full = FullClass(20, 20, ("standard-a", 8))
    assert asyncio.run(wake_many(full, 5)) == [True] * 5
    full.seconds += 60
    asyncio.run(full._pause(0))
    assert full.used <= full.most
    assert full.size()[0] >= 3


def test_workspaces_that_fit_are_resumed() -> None:
    full = FullClass(10, 5, ("standard-a", 0))
    assert sum(asyncio.run(wake_many(full, 16))) == 5
    asyncio.run(full._pause(0))
    assert full.used == full.most


def test_warm_sandboxes_return_while_capacity_remains() -> None:
    full = FullClass()
    full.wake()
    full.wake()
    assert full.size() == (1, "2/1")
    assert full.give_back() == 0
    full.used = full.most - MARGIN - 1
    full._count()
    assert full.give_back() == 1
    assert full.size() == (2, "1/2")
    assert full.give_back() == 1
    assert full.size() == (3, None)
    assert full.give_back() == 0


def test_a_size_that_something_else_set_is_left_alone() -> None:
    full = FullClass()
    full.wake()
    full.read()["spec"]["replicas"] = 7
    full.used = 0
    full._count()
    assert full.give_back() == 1
    assert full.size() == (7, None)


def waiting(server: FakeApiServer, count: int) -> Any:
    """Return the context of loops that know so many workspaces that no node has room for."""
    workspace = Workspace("w-1", "u-1", "standard", "user", "creating")
    reports = [(workspace, PodReport(f"pod-{number}", "w-1", unscheduled=True)) for number in range(count)]
    return Cluster(server).context(pod_reports=lambda: reports)


def yield_to(context: Any) -> int:
    return asyncio.run(yield_slots(context, lambda: True)).steps


def test_slots_make_way_for_workspaces_that_no_node_has_room_for() -> None:
    cluster = FullClass(10, 5, ("standard-a", 3), ("standard-b", 2))
    cluster.read("standard-b")["status"]["readyReplicas"] = 0
    assert yield_to(waiting(cluster.server, 0)) == 0
    context = waiting(cluster.server, 1)
    assert yield_to(context) == 1
    # The slots that are not ready compete for the same room, and go first.
    assert (cluster.size("standard-b"), cluster.size("standard-a")) == ((0, "2/0"), (3, None))
    assert [yield_to(context) for _ in range(PATIENT_PASSES)] == [0, 1, 0], "it gets the room of one slot, once"
    assert cluster.size("standard-a") == (2, "1/2")
    assert asyncio.run(give_back_slots(context, lambda: True)).steps == 0
    assert cluster.give_back() == 2
    assert (cluster.size("standard-b"), cluster.size("standard-a")) == ((2, None), (3, None))


def test_all_slots_that_made_way_return_at_once_where_their_class_has_room_for_them() -> None:
    cluster = FullClass(60, 5, ("standard-a", 40), ("standard-b", 10))
    for name in ("standard-a", "standard-b"):
        cluster.read(name)["status"]["readyReplicas"] = 0
    assert yield_to(waiting(cluster.server, 1)) == 2
    cluster.used = cluster.most - MARGIN - 45
    cluster._count()
    assert cluster.give_back() == 2
    assert (cluster.size("standard-a"), cluster.size("standard-b")) == ((40, None), (5, "5/5"))


def test_slots_of_a_swarm_and_of_an_old_release_do_not_make_way() -> None:
    cluster = FullClass(10, 5, ("standard-a", 3))
    cluster.pool("standard-task", 3, labels={"sandbox.users.io/task": "t"})
    cluster.pool("standard-old", 3, annotations={"sandbox.users.io/retiring": "2026-11-18T12:00:00Z"})
    context = waiting(cluster.server, 9)
    assert sum(yield_to(context) for _ in range(PATIENT_PASSES)) == 1
    assert [cluster.size(name)[0] for name in ("standard-a", "standard-task", "standard-old")] == [0, 3, 3]
