"""Swarms on behalf of requests: those that take their time hold up nobody else, and all tell what became of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from agentenv.core.workspaces.workspace import DELETED_AT, DESTROY_REQUESTED
from agentenv.service.catalog import Catalog
from agentenv.service.http.auth.callers import Caller, with_implied_roles
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.problems import Problem
from agentenv.service.http.swarm_tasks import (
    BEING_DELETED,
    MAX_CONCURRENT,
    MAX_PER_OWNER,
    SwarmStatus,
    SwarmTasks,
    task_name,
)
from agentenv.service.http.swarms import delete
from agentenv.service.kube.client import (
    CLAIMS,
    POOLS,
    QUOTAS,
    SANDBOXES,
    VOLUME_CLAIMS,
    VOLUMES,
    Document,
    KubeApiError,
)
from agentenv.service.kube.view import ClusterView
from agentenv.service.workspaces import swarm_outcome
from tests.fast.service.fake_api_server import Api, FakeApiServer
from tests.fast.service.workspaces.stage import settings_of

SPACE = "sandbox-box"
SHARED = {"kind": "shared", "size": "5Gi"}
CATALOG = Catalog(settings_of({"name": "box", "storage": SHARED}, {"name": "other", "storage": SHARED}))


class Slow(FakeApiServer):
    """One that answers nobody before it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = asyncio.Event()

    def find(self, kind: Any, name: str, namespace: str | None = None) -> Document | None:
        if kind is QUOTAS:
            return {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}
        return super().find(kind, name, namespace)


class SlowApi(Api):
    """The verbs of it."""

    async def find(self, kind: Any, name: str, namespace: str | None = None) -> Document | None:
        await self.server.let.wait()
        return await super().find(kind, name, namespace)

    async def list(self, kind: Any, namespace: str | None = None, labels: Any = None) -> AsyncIterator[Document]:
        await self.server.let.wait()
        async for document in super().list(kind, namespace, labels):
            yield document


def ask(
    swarm_tasks: SwarmTasks,
    owner: str,
    task: str,
    *,
    wait: float = 0,
    class_name: str = "box",
    count: int = 1,
    fit: bool = False,
) -> Any:
    of_class = CATALOG.get(class_name)
    return swarm_tasks.create(owner, of_class, task, count, fit=fit, channel="stable", deadline=None, wait=wait)


def test_swarms_that_take_their_time_hold_up_nobody_else() -> None:
    slow = Slow()
    swarming = SwarmTasks(SlowApi(slow), CATALOG, ClusterView())

    async def play() -> None:
        for number in range(MAX_CONCURRENT):
            told: SwarmStatus = await ask(swarming, f"u-{number // MAX_PER_OWNER}", f"t-{number}")
            assert told.state == "creating"
        # What other requests wait for: the event loop, and its threads.
        async with asyncio.timeout(10):
            await asyncio.to_thread(lambda: None)
        for owner in ("u-0", "u-99"):
            with pytest.raises(Problem) as refused:
                await ask(swarming, owner, "one-more")
            assert refused.value.kind == "too-many-requests"
        # To ask again for one that is on its way is no other one.
        assert (await ask(swarming, "u-0", "t-0")).state == "creating"
        slow.let.set()

    try:
        asyncio.run(play())
    finally:
        slow.let.set()


def test_one_owner_does_not_take_the_place_of_all() -> None:
    slow = Slow()
    swarming = SwarmTasks(SlowApi(slow), CATALOG, ClusterView())

    async def play() -> None:
        for number in range(MAX_PER_OWNER):
            await ask(swarming, "u-0", f"t-{number}")
        with pytest.raises(Problem, match=f"{MAX_PER_OWNER} swarms of yours"):
            await ask(swarming, "u-0", "one-more")
        assert (await ask(swarming, "u-1", "t-0")).state == "creating"
        slow.let.set()

    try:
        asyncio.run(play())
    finally:
        slow.let.set()


class Coming(FakeApiServer):
    """One in which sandboxes come up at once, up to so many, and of which a view is told in the end."""

    def __init__(self, able: int = 100) -> None:
        super().__init__()
        self.able, self.view = able, ClusterView()

    def put(self, kind: Any, document: Document) -> None:
        super().put(kind, document)
        if kind is CLAIMS:
            name = document["metadata"]["name"]
            up = len(self.names(CLAIMS)) <= self.able
            ready = {"type": "Ready", "status": str(up), "message": "" if up else "no node"}
            document["status"] = {"conditions": [ready], "sandbox": {"name": name}}
            self.view.put_claim(document)

    def delete(self, kind: Any, existing: Document) -> bool:
        if kind is CLAIMS:
            self.view.drop_claim((existing["metadata"]["namespace"], existing["metadata"]["name"]))
        return super().delete(kind, existing)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentenv.service.http.swarm_tasks.CREATE_TIMEOUT", 0.0)
    monkeypatch.setattr("agentenv.service.workspaces.swarms.RETAIN_ATTEMPTS", 1)


def test_why_there_is_none_is_told_by_every_replica_until_there_is_one() -> None:
    shelf = Coming(able=0)

    async def play() -> None:
        here, there = (SwarmTasks(Api(shelf), CATALOG, shelf.view) for _ in range(2))
        with pytest.raises(Problem, match="no node"):
            await ask(here, "u-0", "t-0", wait=20)
        for one in (here, there):
            told = await one.find("u-0", "t-0")
            assert (told.state, "no node" in (told.why or "")) == ("failed", True)
        with pytest.raises(Problem, match="no such swarm"):
            await there.find("u-1", "t-0")
        shelf.able = 9
        assert (await ask(there, "u-0", "t-0", wait=20)).state == "running"
        assert (await here.find("u-0", "t-0")).state == "running"
        await here.end("u-0", "t-0")
        with pytest.raises(Problem, match="no such swarm"):
            await there.find("u-0", "t-0")

    asyncio.run(play())


class Busy(FakeApiServer):
    """One in which what is claimed is there at once, and that cannot change volumes just now."""

    def __init__(self) -> None:
        super().__init__()
        self.busy = 3
        self.whose: dict[str, str] = {}  # what the volumes say already
        self.claimed: list[Document] = []

    def create(self, kind: Any, document: Document) -> bool:
        made = super().create(kind, document)
        if made and kind is CLAIMS:
            claim = self.objects[CLAIMS, SPACE, document["metadata"]["name"]]
            name = claim["metadata"]["name"]
            sandbox = {"name": f"box-{name}"}
            claim["status"] = {"conditions": [{"type": "Ready", "status": "True"}], "sandbox": sandbox}
            owners = [{"uid": claim["metadata"]["uid"]}]
            self.put(SANDBOXES, {"metadata": {**sandbox, "namespace": SPACE, "ownerReferences": owners}})
            home = {"name": f"home-box-{name}", "namespace": SPACE, "uid": f"home-{name}"}
            self.put(VOLUME_CLAIMS, {"metadata": home, "spec": {"volumeName": f"pv-{name}"}})
            spec = {"persistentVolumeReclaimPolicy": "Delete", "claimRef": {"uid": home["uid"]}}
            self.put(VOLUMES, {"metadata": {"name": f"pv-{name}", "labels": self.whose}, "spec": spec})
            self.claimed.append(deepcopy(claim))
        return made

    def patch(self, kind: Any, existing: Document, changes: Document) -> bool:
        if kind is VOLUMES and self.busy:
            self.busy -= 1
            raise KubeApiError("too many requests", 429)
        return super().patch(kind, existing, changes)


def test_a_server_that_is_busy_for_a_moment_costs_nobody_their_swarm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentenv.service.http.swarm_tasks.CREATE_TIMEOUT", 20.0)
    monkeypatch.setattr("agentenv.service.workspaces.swarms.PAUSE", 0.01)
    shelf = Busy()
    view = ClusterView()
    swarming = SwarmTasks(Api(shelf), CATALOG, view)

    async def play() -> None:
        making = asyncio.ensure_future(ask(swarming, "u-0", "t-0", wait=20))
        while not (shelf.claimed or making.done()):
            await asyncio.sleep(0.01)
        for claim in shelf.claimed:
            view.put_claim(claim)
        assert (await making).state == "running"

    asyncio.run(play())
    (kept,) = [one for key, one in shelf.objects.items() if key[0] is VOLUMES]
    assert (shelf.busy, kept["spec"]["persistentVolumeReclaimPolicy"]) == (0, "Retain")


def test_of_one_whose_volume_cannot_be_kept_nobody_is_told_that_it_is_there() -> None:
    shelf = Busy()
    shelf.busy, shelf.whose = 0, {"sandbox.users.io/user": "u-9"}
    swarming = SwarmTasks(Api(shelf), CATALOG, ClusterView())

    async def play() -> None:
        with pytest.raises(Problem, match=r"volume of t-0-\S+ cannot be kept") as refused:
            await ask(swarming, "u-0", "t-0", wait=20)
        assert (refused.value.kind, "u-9" in str(refused.value)) == ("refused", False)
        told = await swarming.find("u-0", "t-0")
        assert (told.state, "cannot be kept" in (told.why or "")) == ("failed", True)

    asyncio.run(play())


def test_one_runs_once_it_was_handed_over() -> None:
    class Unable(Coming):
        able_to_note = False

        def patch(self, kind: Any, existing: Document, changes: Document) -> bool:
            if kind is POOLS and not self.able_to_note:
                raise KubeApiError("too many requests", 429)
            return super().patch(kind, existing, changes)

    shelf = Unable()
    swarming = SwarmTasks(Api(shelf), CATALOG, shelf.view)

    async def play() -> None:
        with pytest.raises(Problem, match="goes on with it") as told:
            await ask(swarming, "u-0", "t-0", wait=20, count=2)
        assert (told.value.kind, told.value.status) == ("unavailable", 503)
        found = await swarming.find("u-0", "t-0")
        assert (found.state, len(found.members), bool(found.why)) == ("creating", 2, True)
        shelf.able_to_note = True
        assert (await ask(swarming, "u-0", "t-0", wait=20, count=2)).state == "running"
        found = await swarming.find("u-0", "t-0")
        assert (found.state, found.why) == ("running", None)

    asyncio.run(play())


def test_one_that_is_on_its_way_is_found_wherever_it_is_looked_for() -> None:
    slow = Slow()
    shelf = Coming()

    async def play() -> None:
        swarming = SwarmTasks(SlowApi(slow), CATALOG, ClusterView())
        told = await ask(swarming, "u-0", "t-0")
        assert await swarming.find("u-0", "t-0") == told
        slow.let.set()
        await ask(SwarmTasks(Api(shelf), CATALOG, shelf.view), "u-0", "t-0", wait=20)
        # A replica that was not told of its claims yet.
        late = await SwarmTasks(Api(shelf), CATALOG, ClusterView()).find("u-0", "t-0")
        assert (late.state, late.class_name, late.asked) == ("creating", "box", 1)

    try:
        asyncio.run(play())
    finally:
        slow.let.set()


def test_one_whose_workspaces_have_all_ended_can_be_ended() -> None:
    shelf = Coming()

    async def play() -> None:
        swarming = SwarmTasks(Api(shelf), CATALOG, shelf.view)
        await ask(swarming, "u-0", "t-0", wait=20)
        for claim in [*shelf.list(CLAIMS)]:
            shelf.delete(CLAIMS, claim)
        assert (await swarming.find("u-0", "t-0")).state == "failed"
        await swarming.end("u-0", "t-0")
        assert not shelf.names(VOLUME_CLAIMS)

    asyncio.run(play())


def test_what_was_asked_is_told_also_where_a_part_of_it_is_gone() -> None:
    shelf = Coming()

    async def play() -> None:
        swarming = SwarmTasks(Api(shelf), CATALOG, shelf.view)
        await ask(swarming, "u-0", "t-0", wait=20, count=3)
        assert (await swarming.find("u-0", "t-0")).asked == len(shelf.names(CLAIMS)) == 3
        (claim, *_) = shelf.list(CLAIMS)
        shelf.delete(CLAIMS, claim)
        told = await swarming.find("u-0", "t-0")
        assert (told.asked, len(told.members), told.state) == (3, 2, "failed")
        assert "1 of 3" in (told.why or "")
        # A larger one was asked for, and more is there.
        assert (await ask(swarming, "u-0", "t-0", wait=20, count=4)).asked == 4
        told = await swarming.find("u-0", "t-0")
        assert (told.asked, len(told.members), told.state) == (4, 4, "running")

    asyncio.run(play())


def test_one_that_is_on_its_way_out_is_not_told_as_whole() -> None:
    shelf = Coming()

    async def play() -> None:
        swarming = SwarmTasks(Api(shelf), CATALOG, shelf.view)
        await ask(swarming, "u-0", "t-0", wait=20, count=2)
        await swarm_outcome.mark_deleted(Api(shelf), SPACE, task_name("u-0", "t-0"))
        told = await swarming.find("u-0", "t-0")
        assert (told.asked, told.state, told.why) == (2, "failed", BEING_DELETED)

    asyncio.run(play())


def test_what_is_kept_of_one_that_was_deleted_can_be_destroyed() -> None:
    shelf = Coming()
    name = task_name("u-0", "t-0")
    labels = {"sandbox.users.io/user": "u-0", "sandbox.users.io/task": name}
    spec = {"persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": SPACE, "name": f"shared-{name}"}}
    notes = {DELETED_AT: "2026-11-18T20:00:00Z"}
    about = {"name": "pv-1", "labels": labels, "annotations": notes}
    shelf.put(VOLUMES, {"metadata": about, "spec": spec, "status": {"phase": "Released"}})
    made: Any = Dependencies
    parts = made(None, CATALOG, None, None, None, swarm_tasks=SwarmTasks(Api(shelf), CATALOG, shelf.view))
    caller = Caller("u-0", with_implied_roles("user"), "token")

    async def play() -> None:
        with pytest.raises(Problem, match="no such swarm"):
            await delete("t-0", caller, parts)
        with pytest.raises(Problem, match="no such swarm"):
            await delete("t-0", replace(caller, owner="u-1"), parts, destroy=True)
        assert DESTROY_REQUESTED not in shelf.objects[VOLUMES, "", "pv-1"]["metadata"]["labels"]
        told = await delete("t-0", caller, parts, destroy=True)
        assert (told.state, "destroyed" in (told.why or "")) == ("failed", True)
        assert DESTROY_REQUESTED in shelf.objects[VOLUMES, "", "pv-1"]["metadata"]["labels"]
        with pytest.raises(Problem, match="being destroyed") as refused:
            await ask(parts.swarm_tasks, "u-0", "t-0", wait=20)
        assert (refused.value.status, refused.value.kind) == (409, "wrong-state")
        assert refused.value.document()["gone_in"] == refused.value.retry_after

    asyncio.run(play())


def test_a_task_has_one_swarm_of_one_class() -> None:
    shelf = Coming()

    async def play() -> None:
        swarming = SwarmTasks(Api(shelf), CATALOG, shelf.view)
        await ask(swarming, "u-0", "t-0", wait=20)
        with pytest.raises(Problem) as refused:
            await ask(SwarmTasks(Api(shelf), CATALOG, ClusterView()), "u-0", "t-0", wait=20, class_name="other")
        assert refused.value.kind == "key-reused"
        assert len(shelf.names(CLAIMS)) == len(shelf.names(POOLS)) == 1

    asyncio.run(play())


@pytest.mark.parametrize(("said", "kind"), [({"class_name": "other"}, "key-reused"), ({"count": 3}, "busy")])
def test_whoever_asks_for_another_is_not_told_of_the_one_on_its_way(said: dict[str, Any], kind: str) -> None:
    slow = Slow()

    async def play() -> None:
        swarming = SwarmTasks(SlowApi(slow), CATALOG, ClusterView())
        await ask(swarming, "u-0", "t-0", count=2)
        assert (await ask(swarming, "u-0", "t-0", count=2)).asked == 2
        assert (await ask(swarming, "u-0", "t-0", count=3, fit=True)).asked == 2
        with pytest.raises(Problem) as refused:
            await ask(swarming, "u-0", "t-0", **{"count": 2, **said})
        assert refused.value.kind == kind
        slow.let.set()

    try:
        asyncio.run(play())
    finally:
        slow.let.set()


def test_a_task_is_called_what_nobody_elses_is() -> None:
    assert task_name("u-0", "t-0") != task_name("u-1", "t-0")
