"""The creation of workspaces, with events in an order that the test chooses."""

from __future__ import annotations

import asyncio
import contextlib
from copy import deepcopy
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from agentenv.core.classes import releases
from agentenv.core.classes.plan import ClassPlan
from agentenv.core.classes.template import release_hash
from agentenv.core.workspaces.workspace import Changes, CreateRequest, Filter
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import CLAIMS, KubeApiError
from agentenv.service.workspaces.create import claim_of
from tests.fast.service.workspaces.stage import Stage, on_stage


def request_of(owner: str = "u-1", key: str = "user", class_name: str = "standard", **more: Any) -> CreateRequest:
    return CreateRequest(owner=owner, key=key, class_name=class_name, created_by=owner, **more)


def pool(stage: Stage, name: str, ready: int, replicas: int = 2) -> None:
    labels = {"sandbox.users.io/class": "standard", "sandbox.users.io/channel": "stable"}
    about = {"name": name, "namespace": "sandbox-standard", "labels": labels}
    counted = {"readyReplicas": ready}
    stage.server.put("sandboxwarmpools", {"metadata": about, "spec": {"replicas": replicas}, "status": counted})


def test_creates_do_not_hash_the_template_of_their_class_again(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def counted(plan: ClassPlan, image: str) -> str:
        hashed.append(image)
        return release_hash(plan, image)

    monkeypatch.setattr(releases, "release_hash", counted)

    async def act(stage: Stage) -> None:
        for key in ("one", "two", "three"):
            await stage.backend.create(request_of(key=key), wait=0)

    on_stage(act)
    assert len(hashed) == 1


def test_a_warm_volume_is_retained_before_the_handover() -> None:
    async def act(stage: Stage) -> None:
        stage.slot("standard-a-1")
        await stage.wait_until(lambda view: view.home_volume("sandbox-standard", "home-standard-a-1"))
        result = await stage.backend.create(request_of(), wait=5)
        assert (result.ready, result.existed, result.cold) == (True, False, None)
        volume = stage.server.objects["persistentvolumes", "", "pvc-standard-a-1"]
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert volume["metadata"]["labels"]["sandbox.users.io/user"] == "u-1"
        # Nothing was asked that the claim, the other classes and the volume's own change do not need.
        writes = [path for method, path in stage.server.requests if method in {"POST", "PATCH"}]
        assert [path.rsplit("/", 2)[1] for path in writes[:2]] == ["sandbox-standard", "persistentvolumes"]

    on_stage(act)


def marks(stage: Stage) -> int:
    """Return how often a claim was written that it is kept."""
    return len([path for method, path in stage.server.requests if method == "PATCH" and "/sandboxclaims/" in path])


async def warm(stage: Stage) -> str:
    stage.slot("standard-a-1")
    await stage.wait_until(lambda view: view.home_volume("sandbox-standard", "home-standard-a-1"))
    result = await stage.backend.create(request_of(), wait=5)
    assert (result.ready, result.cold) == (True, None)
    return result.workspace.id


def test_the_retained_annotation_is_written_once_and_delayed() -> None:
    async def act(stage: Stage) -> None:
        name = await warm(stage)
        for _ in range(3):
            await stage.backend.get(name)
        await asyncio.sleep(0.05)
        assert marks(stage) == 0
        await stage.backend.creator.finish()
        assert marks(stage) == 1
        assert (await stage.backend.get(name)).volume_retained  # pyright: ignore[reportOptionalMemberAccess]

    on_stage(act)


def test_the_annotation_is_written_after_its_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentenv.service.workspaces.create.MARK_AFTER", 0.01)

    async def act(stage: Stage) -> None:
        await warm(stage)
        while not marks(stage):
            await asyncio.sleep(0.01)

    on_stage(act)


def test_a_claim_deleted_meanwhile_is_not_annotated() -> None:
    async def act(stage: Stage) -> None:
        name = await warm(stage)
        await stage.backend.delete(name, keep_for=timedelta(0))
        await stage.wait_until(lambda view: getattr(view.find(name), "state", "deleted") == "deleted")
        before = marks(stage)
        await stage.backend.creator.finish()
        assert marks(stage) == before

    on_stage(act)


@pytest.mark.parametrize("cold", [False, True])
def test_another_owners_volume_is_not_handed_over_or_changed(cold: bool) -> None:
    async def act(stage: Stage) -> None:
        made_by, sandbox = request_of(), request_of().id if cold else "standard-a-1"
        if cold:
            stage.home("sandbox-standard", sandbox)
        else:
            stage.slot(sandbox)
        volume = stage.server.objects["persistentvolumes", "", f"pvc-{sandbox}"]
        volume["metadata"]["labels"] = {"sandbox.users.io/user": "u-2", "sandbox.users.io/workspace": "w-2"}
        volume["spec"]["persistentVolumeReclaimPolicy"] = "Retain"
        volume = deepcopy(stage.server.put("persistentvolumes", volume))
        await stage.wait_until(
            lambda view: (row := view.home_volume("sandbox-standard", f"home-{sandbox}")) and row.labels
        )
        with pytest.raises(Problem, match="another owner") as refused:
            await stage.backend.create(made_by, wait=5)
        assert refused.value.kind == "refused"
        assert "u-2" not in str(refused.value)
        with pytest.raises(Problem, match="another owner"):
            await stage.backend.get(made_by.id)
        # It may go, and takes nothing with it.
        await stage.backend.delete(made_by.id, keep_for=timedelta(0))
        assert stage.server.objects["persistentvolumes", "", f"pvc-{sandbox}"] == volume

    on_stage(act)


def adopted(stage: Stage, claim: Any, sandbox: str) -> None:
    """Adopt a sandbox as upstream does, before the claim has its name."""
    about = claim["metadata"]
    labels = {"agents.x-k8s.io/claim-uid": about["uid"]}
    owner = {"uid": about["uid"], "kind": "SandboxClaim", "name": about["name"]}
    known = {"name": sandbox, "namespace": about["namespace"], "labels": labels, "ownerReferences": [owner]}
    stage.server.put("sandboxes", {"metadata": known, "spec": {"operatingMode": "Running"}})


@pytest.mark.parametrize("cut", [None, 503])
def test_the_volume_is_retained_before_the_claim_names_its_sandbox(cut: int | None) -> None:
    async def act(stage: Stage) -> None:
        fill, stage.server.on_create = stage.server.on_create, lambda _: None
        stage.slot("standard-a-1")
        await stage.wait_until(lambda view: view.home_volume("sandbox-standard", "home-standard-a-1"))
        creation = asyncio.create_task(stage.backend.create(request_of(), wait=5))
        while not (claims := [thing for key, thing in stage.server.objects.items() if key[0] == "sandboxclaims"]):
            await asyncio.sleep(0)
        stage.server.failing += [cut] if cut else []
        volume = ("persistentvolumes", "", "pvc-standard-a-1")
        while stage.server.objects[volume]["spec"]["persistentVolumeReclaimPolicy"] != "Retain":
            # Nobody hears of it who does not wait yet: that is a moment after it was made.
            adopted(stage, claims[0], "standard-a-1")
            await asyncio.sleep(0)
        assert "status" not in stage.server.objects["sandboxclaims", "sandbox-standard", claims[0]["metadata"]["name"]]
        fill(claims[0])
        result = await creation
        assert (result.ready, result.workspace.volume) == (True, "pvc-standard-a-1")
        patched = [path for method, path in stage.server.requests if method == "PATCH" and "volumes" in path]
        assert len(patched) == 1 + (cut is not None)

    on_stage(act)


def test_the_volume_of_the_final_sandbox_is_retained() -> None:
    async def act(stage: Stage) -> None:
        fill = stage.fill
        stage.slot("standard-a-1")
        stage.slot("standard-a-2")
        stage.warm.reverse()
        await stage.wait_until(lambda view: view.home_volume("sandbox-standard", "home-standard-a-2"))

        def twice(claim: Any) -> None:
            adopted(stage, claim, "standard-a-1")
            fill(claim)

        stage.server.on_create = twice
        result = await stage.backend.create(request_of(), wait=5)
        assert (result.ready, result.workspace.volume) == (True, "pvc-standard-a-2")
        volume = stage.server.objects["persistentvolumes", "", "pvc-standard-a-2"]
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"

    on_stage(act)


def test_a_cancelled_request_leaves_no_task() -> None:
    async def act(stage: Stage) -> None:
        stage.server.on_create = lambda _: None
        before = len(asyncio.all_tasks())
        result = await stage.backend.create(request_of(), wait=0.05)
        assert result.workspace.state == "creating"
        assert len(asyncio.all_tasks()) == before

    on_stage(act)


def test_a_late_sandbox_is_retained_before_it_counts_as_running() -> None:
    async def act(stage: Stage) -> None:
        fill, stage.server.on_create = stage.server.on_create, lambda _: None
        result = await stage.backend.create(request_of(), wait=0)
        assert (result.ready, result.workspace.state) == (False, "creating")
        key = ("sandboxclaims", "sandbox-standard", result.workspace.id)
        fill(stage.server.objects[key])
        found = await stage.backend.settled(result.workspace.id, wait=5)
        assert found is not None
        assert found.state == "running"
        volume = stage.server.objects["persistentvolumes", "", f"pvc-{result.workspace.id}"]
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        await stage.backend.creator.finish()
        assert (await stage.backend.get(result.workspace.id)).volume_retained  # pyright: ignore[reportOptionalMemberAccess]
        # It is looked after once, and not each time that somebody looks at it.
        before = len(stage.server.requests)
        await stage.backend.get(result.workspace.id)
        assert len(stage.server.requests) == before + 1

    on_stage(act)


def test_a_cold_start_has_its_reason() -> None:
    async def act(stage: Stage) -> None:
        result = await stage.backend.create(request_of(), wait=5)
        assert (result.ready, result.cold) == (True, "its class has no warm sandboxes")
        with pytest.raises(Problem) as refused:
            await stage.backend.create(request_of(key="another"), wait=5, warm_only=True)
        assert (refused.value.kind, refused.value.retry_after) == ("pool-empty", 5)

    on_stage(act)


def test_the_same_key_for_a_different_request_is_refused() -> None:
    async def act(stage: Stage) -> None:
        first = await stage.backend.create(request_of(), wait=5)
        again = await stage.backend.create(request_of(), wait=5)
        assert (again.existed, again.workspace.id) == (True, first.workspace.id)
        with pytest.raises(Problem) as refused:
            await stage.backend.create(request_of(idle_after=timedelta(hours=1)), wait=5)
        assert refused.value.kind == "key-reused"

    on_stage(act)


@pytest.mark.parametrize("events", [True, False])
def test_one_key_for_two_classes_at_once_never_leaves_two_claims(monkeypatch: pytest.MonkeyPatch, events: bool) -> None:
    async def act(stage: Stage) -> None:
        if not events:
            monkeypatch.setattr("agentenv.service.workspaces.owner_limits.EVENT_SECONDS", 0.0)
            stage.backend.view.set_listing(True)
        for number in range(30):
            both = [request_of(key=str(number), class_name=name) for name in ("standard", "other")]
            outcomes = await asyncio.gather(
                *(stage.backend.create(request, wait=5) for request in both), return_exceptions=True
            )
            created = sum(not isinstance(outcome, BaseException) for outcome in outcomes)
            claims = [key for key in stage.server.objects if key[0] == "sandboxclaims" and key[2] == both[0].id]
            # The order of events decides which one remains; where it is unknown, both requests may be refused.
            assert (created, len(claims)) == (1, 1) or (not events and created <= len(claims) <= 1)
            refused = [outcome for outcome in outcomes if isinstance(outcome, Problem)]
            assert {(problem.kind, problem.retry_after) for problem in refused} == {("key-reused", 1)}
        reads = [
            path for method, path in stage.server.requests if method == "GET" and f"/{request_of(key='29').id}" in path
        ]
        # Only the second one asks whether the first still exists.
        assert len(reads) == 1 if events else len(reads) > 1, reads

    on_stage(act, *({"name": name, "storage": {"kind": "none"}} for name in ("standard", "other")))


@pytest.mark.parametrize("wait", [0, 5])
def test_one_key_for_two_classes_leaves_one_claim_where_a_response_is_lost(wait: float) -> None:
    async def act(stage: Stage) -> None:
        result = stage.server.on_create

        def lost(claim: Any) -> None:
            result(claim)
            if claim["metadata"]["namespace"] == "sandbox-other":
                stage.server.on_create = result
                raise httpx2.ReadError("the connection broke")

        stage.server.on_create = lost
        both = [request_of(class_name=name) for name in ("standard", "other")]
        outcomes = await asyncio.gather(
            *(stage.backend.create(request, wait=wait) for request in both), return_exceptions=True
        )
        assert [getattr(outcome, "kind", "") for outcome in outcomes] == ["", "key-reused"]
        assert [key[1] for key in stage.server.objects if key[0] == "sandboxclaims"] == ["sandbox-standard"]

    on_stage(act, *({"name": name, "storage": {"kind": "none"}} for name in ("standard", "other")))


def test_a_retry_after_a_lost_response_returns_the_same_workspace() -> None:
    async def act(stage: Stage) -> None:
        result = stage.server.on_create

        def lost(claim: Any) -> None:
            stage.server.on_create = result
            result(claim)
            raise httpx2.ReadError("the connection broke")

        stage.server.on_create = lost
        found = await stage.backend.create(request_of(), wait=5)
        assert (found.ready, found.existed) == (True, True)
        assert len([key for key in stage.server.objects if key[0] == "sandboxclaims"]) == 1

    on_stage(act)


@pytest.mark.parametrize("failure", [429, 500, 503, httpx2.ConnectError("gone"), httpx2.ReadTimeout("slow")])
def test_transient_errors_are_retried_with_a_limit(failure: Any) -> None:
    async def act(stage: Stage) -> None:
        stage.server.failing = [failure] * 3
        assert (await stage.backend.create(request_of(), wait=5)).ready
        await stage.backend.creator.finish()
        stage.server.failing = [failure] * 100
        before = len(stage.server.requests)
        with pytest.raises(KubeApiError) as refused:
            await stage.kube.find(CLAIMS, "any", "sandbox-standard")
        assert (refused.value.transient, len(stage.server.requests) - before) == (True, 6)
        stage.server.failing = []

    on_stage(act)


def test_fifty_claims_are_spread_by_free_sandboxes() -> None:
    async def act(stage: Stage) -> None:
        named = stage.catalog.get("standard").release("stable").name()
        releases = {"name": "sandbox-class", "namespace": "sandbox-standard"}
        data = {"releases": f"stable/{named},stable/{named}-1"}
        stage.server.put("configmaps", {"metadata": releases, "data": data})
        pool(stage, named, 10, 10)
        pool(stage, f"{named}-1", 40, 40)
        await stage.wait_until(lambda view: len(view.pools("sandbox-standard")) == 2)
        await stage.wait_until(lambda view: view.current("sandbox-standard", "stable"))
        pools = stage.backend.creator.pools
        chosen: list[str] = []
        with contextlib.ExitStack() as under_way:
            for _ in range(50):
                choice = pools.choose("sandbox-standard", "stable", ())
                assert choice.cold is None
                under_way.enter_context(pools.reserving("sandbox-standard", choice.pool))
                chosen.append(choice.pool)
            assert pools.choose("sandbox-standard", "stable", ()).cold == "empty"
        assert (chosen.count(named), chosen.count(f"{named}-1")) == (10, 40)

    on_stage(act)


def test_a_deletion_leaves_a_record_for_its_owner_only() -> None:
    async def act(stage: Stage) -> None:
        shared = {"u-2": "rw"}
        result = await stage.backend.create(request_of(shared=shared, labels={"team": "red"}), wait=5)
        id_ = result.workspace.id
        assert await listed(stage, Filter(reader="u-2")) == [id_]
        gone = await stage.backend.delete(id_, keep_for=timedelta(days=1))
        assert gone.state == "deleted"
        await stage.wait_until(lambda view: view.deleted(id_) and view.find(id_) == view.deleted(id_))
        found = await stage.backend.get(id_)
        assert found is not None
        assert (found.state, found.labels, found.key) == ("deleted", {"team": "red"}, result.workspace.key)
        assert await listed(stage, Filter(reader="u-1")) == []
        assert await listed(stage, Filter(reader="u-1", deleted=True)) == [id_]
        assert await listed(stage, Filter(reader="u-2", deleted=True)) == []
        # Asked for with less patience it goes earlier, and never later.
        sooner = await stage.backend.delete(id_, keep_for=timedelta(0))
        later = await stage.backend.delete(id_, keep_for=timedelta(days=9))
        assert later.destroy_after == sooner.destroy_after

    on_stage(act)


def test_concurrent_changes_are_all_applied() -> None:
    async def act(stage: Stage) -> None:
        result = await stage.backend.create(request_of(labels={"a": "1"}), wait=5)
        changes = [Changes(budget=None, labels={"b": str(number)}) for number in range(6)]
        await asyncio.gather(*(stage.backend.update(result.workspace.id, change, wait=1) for change in changes))
        found = await stage.backend.get(result.workspace.id)
        assert found is not None
        assert set(found.labels) == {"b"}

    on_stage(act)


async def listed(stage: Stage, chosen: Filter) -> list[str]:
    return [workspace.id for workspace in (await stage.backend.list(chosen, limit=10)).workspaces]


def test_a_hundred_waiters_for_a_workspace_share_their_reads() -> None:
    async def act(stage: Stage) -> None:
        stage.server.on_create = lambda _: None
        stage.slot("standard-a-1")
        await stage.wait_until(lambda view: view.home_volume("sandbox-standard", "home-standard-a-1"))
        request = request_of()
        creating = await stage.backend.create(request, wait=0)
        assert creating.workspace.state == "creating"
        stage.server.requests.clear()
        waiting = [asyncio.create_task(stage.backend.settled(request.id, wait=15)) for _ in range(100)]
        await asyncio.sleep(0)
        key = ("sandboxclaims", "sandbox-standard", request.id)
        for number in range(10):
            document = deepcopy(stage.server.objects[key])
            document["status"] = {"conditions": [{"type": "Ready", "status": "False", "message": f"step {number}"}]}
            version = stage.server.put("sandboxclaims", document)["metadata"]["resourceVersion"]
            await stage.wait_until(
                lambda view, version=version: (now := view.find(request.id)) is not None and now.version == version
            )
        stage.fill(deepcopy(stage.server.objects[key]))
        settled = await asyncio.gather(*waiting)
        assert {workspace.state for workspace in settled if workspace} == {"running"}
        assert all(workspace and workspace.volume for workspace in settled)
        reads = [path for method, path in stage.server.requests if method == "GET"]
        assert len(reads) < 20, len(reads)
        assert sum(method == "PATCH" for method, _ in stage.server.requests) < 3

    on_stage(act)


CLASSES = ({"name": "standard"}, {"name": "other"})


@pytest.mark.parametrize("deleted", [False, True])
def test_a_follower_of_the_second_claim_of_a_key_is_refused(deleted: bool) -> None:
    async def act(stage: Stage) -> None:
        stage.server.on_create = lambda _: None
        first, second = request_of(), request_of(class_name="other")
        # Both were created at the same time, and the requests ended before they saw the other one.
        for request in (first, second):
            document = claim_of(request, "pool", stage.kube.clock.now())
            stage.server.put("sandboxclaims", document)
        existing = deepcopy(stage.server.objects["sandboxclaims", "sandbox-other", second.id])
        await stage.wait_until(lambda view: view.rank(existing["metadata"]["uid"]))
        # Where both remain, it waits in vain.
        wait = 30 if deleted else 0.1
        following = asyncio.create_task(stage.backend.creator.create(second, wait, existing=existing))
        await asyncio.sleep(0)
        if deleted:
            for class_name in ("standard", "other"):
                stage.server.drop("sandboxclaims", f"sandbox-{class_name}", first.id)
        with pytest.raises(Problem) as refused:
            await following
        assert refused.value.kind == ("busy" if deleted else "key-reused")
        assert refused.value.retry_after
        left = [key[1] for key in stage.server.objects if key[0] == "sandboxclaims"]
        assert left == ([] if deleted else ["sandbox-standard"])

    on_stage(act, *CLASSES)
