"""Requests for swarms: slow ones do not block others, and every replica reports the status of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from agentenv.core.workspaces.swarms import SwarmRequest, task_name
from agentenv.core.workspaces.workspace import DELETED_AT, DESTROY_REQUESTED, SUSPENDED_BECAUSE
from agentenv.service.catalog import Catalog
from agentenv.service.http.auth.callers import Caller, with_implied_roles
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.problems import Problem
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
from agentenv.service.workspaces.backend_protocol import SwarmStatus
from agentenv.service.workspaces.swarm_creations import BEING_DELETED, MAX_CONCURRENT, MAX_PER_OWNER
from agentenv.service.workspaces.swarm_tasks import SwarmTasks
from tests.fast.service.fake_api_server import Api, FakeApiServer
from tests.fast.service.workspaces.stage import settings_of

NAMESPACE = "sandbox-box"
SHARED = {"kind": "shared", "size": "5Gi"}
CATALOG = Catalog(settings_of({"name": "box", "storage": SHARED}, {"name": "other", "storage": SHARED}))


class SlowApiServer(FakeApiServer):
    """An API server that responds only after `released` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.released = asyncio.Event()

    def find(self, kind: Any, name: str, namespace: str | None = None) -> Document | None:
        if kind is QUOTAS:
            return {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}
        return super().find(kind, name, namespace)


class SlowApi(Api):
    """Its client."""

    async def find(self, kind: Any, name: str, namespace: str | None = None) -> Document | None:
        await self.server.released.wait()
        return await super().find(kind, name, namespace)

    async def list(self, kind: Any, namespace: str | None = None, labels: Any = None) -> AsyncIterator[Document]:
        await self.server.released.wait()
        async for document in super().list(kind, namespace, labels):
            yield document


def create_swarm(
    tasks: SwarmTasks,
    owner: str,
    task: str,
    *,
    wait: float = 0,
    class_name: str = "box",
    count: int = 1,
    fit: bool = False,
) -> Any:
    return tasks.create(SwarmRequest(owner, class_name, task, count, fit=fit), wait=wait)


def test_slow_swarms_do_not_block_other_requests() -> None:
    slow = SlowApiServer()
    swarm_tasks = SwarmTasks(SlowApi(slow), CATALOG, ClusterView())

    async def run() -> None:
        for number in range(MAX_CONCURRENT):
            status: SwarmStatus = await create_swarm(swarm_tasks, f"u-{number // MAX_PER_OWNER}", f"t-{number}")
            assert status.state == "creating"
        # What other requests wait for: the event loop, and its threads.
        async with asyncio.timeout(60):
            await asyncio.to_thread(lambda: None)
        for owner in ("u-0", "u-99"):
            with pytest.raises(Problem) as refused:
                await create_swarm(swarm_tasks, owner, "one-more")
            assert refused.value.kind == "too-many-requests"
        # A repeated request does not count as another swarm.
        assert (await create_swarm(swarm_tasks, "u-0", "t-0")).state == "creating"
        slow.released.set()

    try:
        asyncio.run(run())
    finally:
        slow.released.set()


def test_an_owner_has_a_limit_of_concurrent_creations() -> None:
    slow = SlowApiServer()
    swarm_tasks = SwarmTasks(SlowApi(slow), CATALOG, ClusterView())

    async def run() -> None:
        for number in range(MAX_PER_OWNER):
            await create_swarm(swarm_tasks, "u-0", f"t-{number}")
        with pytest.raises(Problem, match=f"{MAX_PER_OWNER} swarms of yours"):
            await create_swarm(swarm_tasks, "u-0", "one-more")
        assert (await create_swarm(swarm_tasks, "u-1", "t-0")).state == "creating"
        slow.released.set()

    try:
        asyncio.run(run())
    finally:
        slow.released.set()


class ReadyApiServer(FakeApiServer):
    """An API server whose sandboxes are ready at once, up to `capacity`, with a view that sees them."""

    def __init__(self, capacity: int = 100) -> None:
        super().__init__()
        self.capacity, self.view = capacity, ClusterView()

    def put(self, kind: Any, document: Document) -> None:
        super().put(kind, document)
        if kind is CLAIMS:
            name = document["metadata"]["name"]
            fits = len(self.names(CLAIMS)) <= self.capacity
            ready = {"type": "Ready", "status": str(fits), "message": "" if fits else "no node"}
            document["status"] = {"conditions": [ready], "sandbox": {"name": name}}
            self.view.put_claim(document)

    def delete(self, kind: Any, existing: Document) -> bool:
        if kind is CLAIMS:
            self.view.drop_claim((existing["metadata"]["namespace"], existing["metadata"]["name"]))
        return super().delete(kind, existing)


@pytest.fixture(autouse=True)
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentenv.service.workspaces.swarm_tasks.CREATE_TIMEOUT", 0.0)
    monkeypatch.setattr("agentenv.service.workspaces.swarms.RETAIN_ATTEMPTS", 1)


def test_every_replica_reports_a_failure_until_the_swarm_exists() -> None:
    server = ReadyApiServer(capacity=0)

    async def run() -> None:
        first, second = (SwarmTasks(Api(server), CATALOG, server.view) for _ in range(2))
        with pytest.raises(Problem, match="no node"):
            await create_swarm(first, "u-0", "t-0", wait=20)
        for replica in (first, second):
            status = await replica.find("u-0", "t-0")
            assert (status.state, "no node" in (status.why or "")) == ("failed", True)
        with pytest.raises(Problem, match="no such swarm"):
            await second.find("u-1", "t-0")
        server.capacity = 9
        assert (await create_swarm(second, "u-0", "t-0", wait=20)).state == "running"
        assert (await first.find("u-0", "t-0")).state == "running"
        await first.end("u-0", "t-0")
        with pytest.raises(Problem, match="no such swarm"):
            await second.find("u-0", "t-0")

    asyncio.run(run())


class BusyApiServer(FakeApiServer):
    """An API server whose sandboxes are ready at once, and which first refuses changes of volumes."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals = 3
        self.volume_labels: dict[str, str] = {}  # of new volumes
        self.claims: list[Document] = []

    def create(self, kind: Any, document: Document) -> bool:
        created = super().create(kind, document)
        if created and kind is CLAIMS:
            claim = self.objects[CLAIMS, NAMESPACE, document["metadata"]["name"]]
            name = claim["metadata"]["name"]
            sandbox = {"name": f"box-{name}"}
            claim["status"] = {"conditions": [{"type": "Ready", "status": "True"}], "sandbox": sandbox}
            owners = [{"uid": claim["metadata"]["uid"]}]
            self.put(SANDBOXES, {"metadata": {**sandbox, "namespace": NAMESPACE, "ownerReferences": owners}})
            home = {"name": f"home-box-{name}", "namespace": NAMESPACE, "uid": f"home-{name}"}
            self.put(VOLUME_CLAIMS, {"metadata": home, "spec": {"volumeName": f"pv-{name}"}})
            spec = {"persistentVolumeReclaimPolicy": "Delete", "claimRef": {"uid": home["uid"]}}
            self.put(VOLUMES, {"metadata": {"name": f"pv-{name}", "labels": self.volume_labels}, "spec": spec})
            self.claims.append(deepcopy(claim))
        return created

    def patch(self, kind: Any, existing: Document, changes: Document) -> bool:
        if kind is VOLUMES and self.refusals:
            self.refusals -= 1
            raise KubeApiError("too many requests", 429)
        return super().patch(kind, existing, changes)


def test_a_busy_api_server_does_not_fail_a_swarm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentenv.service.workspaces.swarm_tasks.CREATE_TIMEOUT", 20.0)
    monkeypatch.setattr("agentenv.service.workspaces.swarms.PAUSE", 0.01)
    server = BusyApiServer()
    view = ClusterView()
    swarm_tasks = SwarmTasks(Api(server), CATALOG, view)

    async def run() -> None:
        creating = asyncio.ensure_future(create_swarm(swarm_tasks, "u-0", "t-0", wait=20))
        while not (server.claims or creating.done()):
            await asyncio.sleep(0.01)
        for claim in server.claims:
            view.put_claim(claim)
        assert (await creating).state == "running"

    asyncio.run(run())
    (volume,) = [replica for key, replica in server.objects.items() if key[0] is VOLUMES]
    assert (server.refusals, volume["spec"]["persistentVolumeReclaimPolicy"]) == (0, "Retain")


def test_swarm_fails_if_its_volume_cannot_be_retained() -> None:
    server = BusyApiServer()
    server.refusals, server.volume_labels = 0, {"sandbox.users.io/user": "u-9"}
    swarm_tasks = SwarmTasks(Api(server), CATALOG, ClusterView())

    async def run() -> None:
        with pytest.raises(Problem, match=r"volume of t-0-\S+ cannot be retained") as refused:
            await create_swarm(swarm_tasks, "u-0", "t-0", wait=20)
        assert (refused.value.kind, "u-9" in str(refused.value)) == ("refused", False)
        status = await swarm_tasks.find("u-0", "t-0")
        assert (status.state, "cannot be retained" in (status.why or "")) == ("failed", True)

    asyncio.run(run())


def test_a_swarm_runs_once_it_is_handed_over() -> None:
    class ReadOnlyPools(ReadyApiServer):
        writable = False

        def patch(self, kind: Any, existing: Document, changes: Document) -> bool:
            if kind is POOLS and not self.writable:
                raise KubeApiError("too many requests", 429)
            return super().patch(kind, existing, changes)

    server = ReadOnlyPools()
    swarm_tasks = SwarmTasks(Api(server), CATALOG, server.view)

    async def run() -> None:
        with pytest.raises(Problem, match="a repeated request continues") as status:
            await create_swarm(swarm_tasks, "u-0", "t-0", wait=20, count=2)
        assert (status.value.kind, status.value.status) == ("unavailable", 503)
        status = await swarm_tasks.find("u-0", "t-0")
        assert (status.state, len(status.members), bool(status.why)) == ("creating", 2, True)
        server.writable = True
        assert (await create_swarm(swarm_tasks, "u-0", "t-0", wait=20, count=2)).state == "running"
        status = await swarm_tasks.find("u-0", "t-0")
        assert (status.state, status.why) == ("running", None)

    asyncio.run(run())


def test_every_replica_finds_a_swarm_that_is_being_created() -> None:
    slow = SlowApiServer()
    server = ReadyApiServer()

    async def run() -> None:
        swarm_tasks = SwarmTasks(SlowApi(slow), CATALOG, ClusterView())
        status = await create_swarm(swarm_tasks, "u-0", "t-0")
        assert await swarm_tasks.find("u-0", "t-0") == status
        slow.released.set()
        await create_swarm(SwarmTasks(Api(server), CATALOG, server.view), "u-0", "t-0", wait=20)
        # A replica whose watch has not seen the claims yet.
        behind = await SwarmTasks(Api(server), CATALOG, ClusterView()).find("u-0", "t-0")
        assert (behind.state, behind.class_name, behind.count) == ("creating", "box", 1)

    try:
        asyncio.run(run())
    finally:
        slow.released.set()


def test_a_swarm_without_workspaces_can_be_deleted() -> None:
    server = ReadyApiServer()

    async def run() -> None:
        swarm_tasks = SwarmTasks(Api(server), CATALOG, server.view)
        await create_swarm(swarm_tasks, "u-0", "t-0", wait=20)
        for claim in [*server.list(CLAIMS)]:
            server.delete(CLAIMS, claim)
        assert (await swarm_tasks.find("u-0", "t-0")).state == "failed"
        await swarm_tasks.end("u-0", "t-0")
        assert not server.names(VOLUME_CLAIMS)

    asyncio.run(run())


def test_the_requested_count_is_reported_where_members_are_missing() -> None:
    server = ReadyApiServer()

    async def run() -> None:
        swarm_tasks = SwarmTasks(Api(server), CATALOG, server.view)
        await create_swarm(swarm_tasks, "u-0", "t-0", wait=20, count=3)
        assert (await swarm_tasks.find("u-0", "t-0")).count == len(server.names(CLAIMS)) == 3
        (claim, *_) = server.list(CLAIMS)
        server.delete(CLAIMS, claim)
        status = await swarm_tasks.find("u-0", "t-0")
        assert (status.count, len(status.members), status.state) == (3, 2, "failed")
        gone = claim["metadata"]["name"]
        assert status.why == f"1 of 3 workspaces ({gone}) are missing: create it again to restore them"
        # A larger request creates the missing ones.
        assert (await create_swarm(swarm_tasks, "u-0", "t-0", wait=20, count=4)).count == 4
        status = await swarm_tasks.find("u-0", "t-0")
        assert (status.count, len(status.members), status.state) == (4, 4, "running")

    asyncio.run(run())


def test_a_swarm_that_is_being_deleted_does_not_run() -> None:
    server = ReadyApiServer()

    async def run() -> None:
        swarm_tasks = SwarmTasks(Api(server), CATALOG, server.view)
        await create_swarm(swarm_tasks, "u-0", "t-0", wait=20, count=2)
        await swarm_outcome.mark_deleted(Api(server), NAMESPACE, task_name("u-0", "t-0"))
        status = await swarm_tasks.find("u-0", "t-0")
        assert (status.count, status.state, status.why) == (2, "failed", BEING_DELETED)

    asyncio.run(run())


def test_retained_data_of_a_deleted_swarm_can_be_destroyed() -> None:
    server = ReadyApiServer()
    name = task_name("u-0", "t-0")
    labels = {"sandbox.users.io/user": "u-0", "sandbox.users.io/task": name}
    spec = {"persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": NAMESPACE, "name": f"shared-{name}"}}
    annotations = {DELETED_AT: "2026-11-18T20:00:00Z"}
    metadata = {"name": "pv-1", "labels": labels, "annotations": annotations}
    server.put(VOLUMES, {"metadata": metadata, "spec": spec, "status": {"phase": "Released"}})
    created: Any = Dependencies
    dependencies = created(None, CATALOG, None, None, None, swarms=SwarmTasks(Api(server), CATALOG, server.view))
    caller = Caller("u-0", with_implied_roles("user"), "token")

    async def run() -> None:
        with pytest.raises(Problem, match="no such swarm"):
            await delete("t-0", caller, dependencies)
        with pytest.raises(Problem, match="no such swarm"):
            await delete("t-0", replace(caller, owner="u-1"), dependencies, destroy=True)
        assert DESTROY_REQUESTED not in server.objects[VOLUMES, "", "pv-1"]["metadata"]["labels"]
        status = await delete("t-0", caller, dependencies, destroy=True)
        assert (status.state, "destroyed" in (status.why or "")) == ("failed", True)
        assert DESTROY_REQUESTED in server.objects[VOLUMES, "", "pv-1"]["metadata"]["labels"]
        with pytest.raises(Problem, match="being destroyed") as refused:
            await create_swarm(dependencies.swarms, "u-0", "t-0", wait=20)
        assert (refused.value.status, refused.value.kind) == (409, "wrong-state")
        assert refused.value.document()["gone_in"] == refused.value.retry_after

    asyncio.run(run())


def test_a_task_has_one_swarm_of_one_class() -> None:
    server = ReadyApiServer()

    async def run() -> None:
        swarm_tasks = SwarmTasks(Api(server), CATALOG, server.view)
        await create_swarm(swarm_tasks, "u-0", "t-0", wait=20)
        behind = SwarmTasks(Api(server), CATALOG, ClusterView())
        with pytest.raises(Problem) as refused:
            await create_swarm(behind, "u-0", "t-0", wait=20, class_name="other")
        assert refused.value.kind == "key-reused"
        assert len(server.names(CLAIMS)) == len(server.names(POOLS)) == 1

    asyncio.run(run())


@pytest.mark.parametrize(("different", "kind"), [({"class_name": "other"}, "key-reused"), ({"count": 3}, "busy")])
def test_a_different_request_is_refused_while_a_swarm_is_being_created(different: dict[str, Any], kind: str) -> None:
    slow = SlowApiServer()

    async def run() -> None:
        swarm_tasks = SwarmTasks(SlowApi(slow), CATALOG, ClusterView())
        await create_swarm(swarm_tasks, "u-0", "t-0", count=2)
        assert (await create_swarm(swarm_tasks, "u-0", "t-0", count=2)).count == 2
        assert (await create_swarm(swarm_tasks, "u-0", "t-0", count=3, fit=True)).count == 2
        with pytest.raises(Problem) as refused:
            await create_swarm(swarm_tasks, "u-0", "t-0", **{"count": 2, **different})
        assert refused.value.kind == kind
        slow.released.set()

    try:
        asyncio.run(run())
    finally:
        slow.released.set()


def test_task_names_are_unique_per_owner() -> None:
    assert task_name("u-0", "t-0") != task_name("u-1", "t-0")


def quota(hard: int, used: int = 0) -> Document:
    status = {"hard": {"pods": str(hard)}, "used": {"pods": str(used)}}
    return {"metadata": {"name": "sandbox", "namespace": NAMESPACE}, "status": status}


def test_a_swarm_that_never_fits_is_refused_with_the_number_that_does() -> None:
    server = FakeApiServer()
    server.put(QUOTAS, quota(43, used=40))

    async def run() -> None:
        swarm_tasks = SwarmTasks(Api(server), CATALOG, ClusterView())
        with pytest.raises(Problem, match="room for 43 workspaces of a swarm, not 300") as refused:
            await create_swarm(swarm_tasks, "u-0", "t-0", count=300, wait=20)
        assert (refused.value.status, refused.value.facts["fits"], server.names(CLAIMS)) == (503, 3, [])
        # It would fit an unused quota, and does not fit now.
        with pytest.raises(Problem, match="no room for 30 more") as refused:
            await create_swarm(swarm_tasks, "u-0", "t-1", count=30, wait=20)
        assert (refused.value.status, refused.value.facts["fits"]) == (503, 3)

    asyncio.run(run())


def test_the_members_of_a_swarm_count_in_its_class() -> None:
    catalog = Catalog(settings_of({"name": "box", "storage": SHARED, "maxPerOwner": 4}))

    async def run() -> None:
        swarm_tasks = SwarmTasks(Api(FakeApiServer()), catalog, ClusterView())
        with pytest.raises(Problem) as refused:
            await create_swarm(swarm_tasks, "u-0", "t-0", count=5, wait=20)
        assert (refused.value.kind, refused.value.facts["limit"]) == ("limit-reached", 4)

    asyncio.run(run())


def test_swarm_names_its_members_that_do_not_run_and_why() -> None:
    server = ReadyApiServer()

    async def run() -> None:
        swarm_tasks = SwarmTasks(Api(server), CATALOG, server.view)
        await create_swarm(swarm_tasks, "u-0", "t-0", wait=20, count=3)
        (claim, *_) = server.list(CLAIMS)
        claim["metadata"]["annotations"] = {SUSPENDED_BECAUSE: "budget"}
        server.put(CLAIMS, claim)
        status = await swarm_tasks.find("u-0", "t-0")
        name = claim["metadata"]["name"]
        assert (status.state, status.why) == ("creating", f"{name} is suspending: its suspension has begun")

    asyncio.run(run())
