"""Limits of owners and teams: they hold for all replicas together, and no claim above them remains."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest

from agentenv.core.classes.names import CONSTRAINTS
from agentenv.core.classes.retirement import RELEASES_KEY
from agentenv.core.workspaces.swarms import SwarmRequest
from agentenv.core.workspaces.workspace import DESTROY_AFTER, Changes, CreateRequest, Workspace
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import KubeClient
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.backend import KubernetesBackend, running_backend
from agentenv.service.workspaces.swarm_tasks import SwarmTasks
from tests.fast.service.workspaces.stage import Stage, on_stage

CLASSES = ({"name": "standard", "maxPerOwner": 3, "storage": {"kind": "none"}}, {"name": "other"})
LIMITS: Any = {"maxPerOwner": 5, "teamLimits": [{"team": "red", "workspaces": 2}]}


def request(key: str, owner: str = "u-1", class_name: str = "standard", **more: Any) -> CreateRequest:
    return CreateRequest(owner=owner, key=key, class_name=class_name, created_by=owner, **more)


async def outcomes(creations: list[Any]) -> list[str]:
    results = await asyncio.gather(*creations, return_exceptions=True)
    return [result.kind if isinstance(result, Problem) else type(result).__name__ for result in results]


def claims(stage: Stage) -> int:
    return sum(kind == "sandboxclaims" for kind, _, _ in stage.server.objects)


def test_replicas_together_create_no_more_than_the_class_allows() -> None:
    async def act(stage: Stage) -> None:
        async with second_replica(stage) as other:
            creations = [
                backend.create(request(f"k-{number}"), wait=0)
                for number in range(10)
                for backend in ((stage.backend, other)[number % 2],)
            ]
            result = await outcomes(creations)
        # Exactly as many as allowed: nobody gives way to a request that is refused, too.
        assert result.count("limit-reached") == 7, result
        assert claims(stage) == 3

    on_stage(act, *CLASSES, **LIMITS)


def test_an_owner_and_a_team_have_limits_over_all_classes() -> None:
    async def act(stage: Stage) -> None:
        async def create(*arguments: Any, **more: Any) -> str:
            return (await outcomes([stage.backend.create(request(*arguments, **more), wait=2)]))[0]

        for number in range(5):
            assert await create(f"k-{number}", class_name="standard" if number < 3 else "other") == "CreateResult"
        assert await create("k-5", class_name="other") == "limit-reached"
        # Another request for an existing one is no other workspace, and another owner is not concerned.
        assert await create("k-0") == "CreateResult"
        assert await create("k-0", owner="u-2", limited_teams=("red",)) == "CreateResult"
        assert await create("k-0", owner="u-3", limited_teams=("red",)) == "CreateResult"
        assert await create("k-0", owner="u-4", limited_teams=("red",)) == "limit-reached"
        assert await create("k-0", owner="u-4") == "CreateResult"

    on_stage(act, *CLASSES, **LIMITS)


def test_another_class_is_no_way_past_a_limit() -> None:
    async def act(stage: Stage) -> None:
        requests = [request(f"k-{number}") for number in range(3)]
        moving = request("moving", class_name="other")
        for each in (*requests, moving):
            assert (await stage.backend.create(each, wait=5)).ready
        with pytest.raises(Problem) as refused:
            stage.backend.creator.limits.check_class(
                Workspace(moving.id, "u-1", "other", "user", "running"), "standard"
            )
        assert refused.value.kind == "limit-reached"
        stage.server.drop("sandboxclaims", "sandbox-standard", requests[0].id)
        await stage.wait_until(lambda view: view.find(requests[0].id) is None)
        stage.backend.creator.limits.check_class(Workspace(moving.id, "u-1", "other", "user", "running"), "standard")

    on_stage(act, *CLASSES, **LIMITS)


def test_without_events_all_claims_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentenv.service.workspaces.owner_limits.EVENT_SECONDS", 0.0)

    async def act(stage: Stage) -> None:
        stage.backend.view.set_listing(True)
        result = await outcomes([stage.backend.create(request(f"k-{number}"), wait=0) for number in range(6)])
        assert "limit-reached" in result
        assert claims(stage) <= 3

    on_stage(act, *CLASSES, **LIMITS)


def test_an_owner_with_many_cold_starts_waits_and_others_do_not() -> None:
    async def act(stage: Stage) -> None:
        stage.server.on_create = lambda _: None
        for number in range(4):
            owned = request(f"k-{number}", class_name="other")
            assert not (await stage.backend.create(owned, wait=0)).ready
            await stage.wait_until(lambda view, id_=owned.id: view.find(id_))
        with pytest.raises(Problem, match="4 workspaces of this owner are being created") as refused:
            await stage.backend.create(request("k-4", class_name="other"), wait=0)
        assert refused.value.retry_after == 5
        assert not (await stage.backend.create(request("k-0", "u-2", "other"), wait=0)).ready
        waiting = asyncio.create_task(stage.backend.create(request("k-4", class_name="other"), wait=10))
        await asyncio.sleep(0)
        stage.server.on_create = stage.fill
        first = request("k-0", class_name="other").id
        stage.fill(stage.server.objects["sandboxclaims", "sandbox-other", first])
        assert (await waiting).ready

    on_stage(act, *CLASSES, **LIMITS)


@contextlib.asynccontextmanager
async def second_replica(stage: Stage) -> AsyncGenerator[KubernetesBackend]:
    """Another replica over the same API server, with a view of its own."""
    async with stage.server.client() as client:
        kube = KubeClient(client, pause=lambda _: asyncio.sleep(0))
        other = KubernetesBackend(kube, stage.catalog, Metrics(), now=kube.clock.now)
        async with running_backend(other):
            while not other.is_synced():
                await asyncio.sleep(0)
            yield other


def with_homes(stage: Stage) -> None:
    """Have deleted claims release their volumes, and new volume claims bind theirs, as controllers do."""
    server = stage.server
    for name in ("kept", "box"):
        space = f"sandbox-{name}"
        names = {"name": CONSTRAINTS, "namespace": space}
        server.put("configmaps", {"metadata": names, "data": {RELEASES_KEY: f"stable/{name}-t"}})
        pod: Any = {"metadata": {"labels": {}}, "spec": {"securityContext": {}}}
        spec = {"podTemplate": pod, "volumeClaimTemplates": []}
        server.put("sandboxtemplates", {"metadata": {"name": f"{name}-t", "namespace": space}, "spec": spec})

    def on_create(created: Any) -> None:
        if created.get("kind") == "PersistentVolumeClaim":
            name = created["spec"].get("volumeName") or f"pvc-{created['metadata']['name']}"
            volume = deepcopy(server.objects.get(("persistentvolumes", "", name)) or {"metadata": {"name": name}})
            metadata = {key: created["metadata"][key] for key in ("name", "namespace", "uid")}
            volume.setdefault("spec", {"persistentVolumeReclaimPolicy": "Delete"})["claimRef"] = metadata
            server.put("persistentvolumes", {**volume, "status": {"phase": "Bound"}})
            created["spec"]["volumeName"] = name
        if created.get("kind") == "SandboxClaim":
            stage.fill(created)

    server.on_create = on_create


def release(stage: Stage, id_: str, class_name: str) -> str:
    """Delete what a deleted workspace leaves to the cluster's controllers; return the name of its volume."""
    server, space = stage.server, f"sandbox-{class_name}"
    server.drop("sandboxes", space, id_)
    server.drop("persistentvolumeclaims", space, f"home-{id_}")
    volume = deepcopy(server.objects["persistentvolumes", "", f"pvc-{id_}"])
    volume["spec"] |= {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteMany"]}
    server.put("persistentvolumes", {**volume, "status": {"phase": "Released"}})
    return volume["metadata"]["name"]


def test_replicas_together_restore_no_more_than_the_limits_allow() -> None:
    async def act(stage: Stage) -> None:
        with_homes(stage)
        volumes: dict[str, str] = {}
        for number in range(4):
            created = await stage.backend.create(
                request(f"k-{number}", class_name="kept", limited_teams=("red",)), wait=5
            )
            assert created.ready
            await stage.backend.delete(created.workspace.id, keep_for=timedelta(days=7))
            volumes[created.workspace.id] = release(stage, created.workspace.id, "kept")
        async with second_replica(stage) as other:
            replicas = (stage.backend, other)
            for backend in replicas:
                while any((row := backend.view.find(id_)) is None or row.state != "deleted" for id_ in volumes):
                    await asyncio.sleep(0)
            result = await outcomes(
                [replicas[number % 2].resume(id_, wait=0) for number, id_ in enumerate(sorted(volumes))]
            )
        assert sorted(result) == ["CreateResult", "CreateResult", "limit-reached", "limit-reached"]
        objects = stage.server.objects
        restored = {name for kind, _, name in objects if kind == "sandboxclaims"}
        assert len(restored) == 2
        for id_, volume in volumes.items():
            annotations = objects["persistentvolumes", "", volume]["metadata"]["annotations"]
            # One that was refused is deleted as before, and its data is retained.
            assert (DESTROY_AFTER in annotations) is (id_ not in restored)
            assert objects["persistentvolumes", "", volume]["spec"]["persistentVolumeReclaimPolicy"] == "Retain"

    on_stage(act, {"name": "kept"}, {"name": "box"}, teamLimits=LIMITS["teamLimits"])


@pytest.mark.parametrize(("most", "succeed"), [(4, 1), (6, 2)])
@pytest.mark.parametrize("by_team", [False, True])
def test_replicas_together_create_no_more_members_of_swarms_than_the_limits_allow(
    most: int, succeed: int, *, by_team: bool
) -> None:
    async def act(stage: Stage) -> None:
        with_homes(stage)
        async with second_replica(stage) as other:
            creations = [
                SwarmTasks(stage.kube, stage.catalog, backend.view).create(
                    SwarmRequest("u-1", "box", f"t-{number}", 3, limited_teams=("red",) if by_team else ()), wait=10
                )
                for number, backend in enumerate((stage.backend, other))
            ]
            result = await outcomes(creations)
        assert sorted(result) == ["SwarmStatus"] * succeed + ["limit-reached"] * (2 - succeed)
        assert claims(stage) == 3 * succeed

    box: Any = {"name": "box", "storage": {"kind": "shared"}, **({} if by_team else {"maxPerOwner": most})}
    limits: Any = {"teamLimits": [{"team": "red", "workspaces": most}]} if by_team else {}
    on_stage(act, {"name": "kept"}, box, **limits)


def test_of_workspaces_that_move_at_once_those_above_the_limit_return_to_their_class() -> None:
    async def act(stage: Stage) -> None:
        with_homes(stage)
        server = stage.server
        ids = [request(f"k-{number}", class_name="kept").id for number in range(3)]
        for number in range(3):
            assert (await stage.backend.create(request(f"k-{number}", class_name="kept"), wait=5)).ready
        drop = server.drop

        def drop_with_sandbox(plural: str, namespace: str, name: str) -> None:
            drop(plural, namespace, name)
            if plural == "sandboxclaims" and ("sandboxes", namespace, name) in server.objects:
                release(stage, name, namespace.removeprefix("sandbox-"))

        stage.server.drop = drop_with_sandbox
        async with second_replica(stage) as other:
            replicas = (stage.backend, other)
            for backend in replicas:
                while any((row := backend.view.find(id_)) is None or row.state != "running" for id_ in ids):
                    await asyncio.sleep(0)
            changes = Changes(class_name="box")
            result = await outcomes(
                [replicas[number % 2].update(id_, changes, wait=0) for number, id_ in enumerate(ids)]
            )
        assert sorted(result) == ["CreateResult", "limit-reached", "limit-reached"]
        spaces = [space for kind, space, _ in server.objects if kind == "sandboxclaims"]
        assert sorted(spaces) == ["sandbox-box", "sandbox-kept", "sandbox-kept"]

    on_stage(act, {"name": "kept"}, {"name": "box", "maxPerOwner": 1})
