"""Swarms: all of a task's sandboxes or none, within the quota, for one owner, however often requested."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from agentenv.config import read
from agentenv.core.classes.plan import plans
from agentenv.core.classes.releases import releases_of
from agentenv.core.workspaces.swarms import Swarm, member, quota_shortfalls, swarm
from agentenv.core.workspaces.workspace import SUSPENDED_BECAUSE
from agentenv.service.kube.client import (
    CLAIMS,
    PODS,
    POOLS,
    QUOTAS,
    SANDBOXES,
    TEMPLATES,
    VOLUME_CLAIMS,
    VOLUMES,
    Document,
    KubeApiError,
)
from agentenv.service.workspaces import swarm_outcome
from agentenv.service.workspaces.swarms import SwarmError, create_swarm, delete_swarm
from tests.fast.config.stack_samples import ACCESS
from tests.fast.service.fake_api_server import FakeApiServer, Killed, run

SPACE = "sandbox-box"
RETENTION = timedelta(days=30)


def swarm_of(
    count: int = 3, task: str = "t-1", owner: str = "u-1", kind: str = "shared", class_name: str = "box"
) -> Swarm:
    image = f"registry.example.com/sandbox@sha256:{'0' * 64}"
    settings: dict[str, Any] = {"name": class_name, "image": image, "storage": {"kind": kind, "size": "5Gi"}}
    (plan,) = plans(read({"aws:region": "us-east-1", **ACCESS, "agent-environment:sandboxClasses": [settings]}, "dev"))
    return swarm(plan, releases_of(plan)[0], task, count, owner=owner)


class SimulatedSwarmCluster(FakeApiServer):
    """With a controller that brings so many sandboxes up, while a maker waits."""

    def __init__(self, able: int = 100) -> None:
        super().__init__()
        self.able, self.now = able, 0.0

    def pause(self, seconds: float) -> None:
        self.now += seconds
        claims = {key[1:]: object_ for key, object_ in self.objects.items() if key[0] is CLAIMS}
        for number, (_, claim) in enumerate(sorted(claims.items())):
            able = number < self.able
            condition = {"type": "Ready", "status": str(able), "message": "" if able else "exceeded quota: sandbox"}
            claim["status"] = {"conditions": [condition], "sandbox": {"name": claim["metadata"]["name"]}}

    def quota(self, **used: str) -> None:
        about = {"name": "sandbox", "namespace": SPACE}
        hard = {"pods": "10", "persistentvolumeclaims": "20", "requests.storage": "100Gi"}
        nothing = dict.fromkeys(hard, "0")
        self.put(QUOTAS, {"metadata": about, "status": {"hard": hard, "used": {**nothing, **used}}})

    @property
    def left(self) -> list[str]:
        return [name for kind in (CLAIMS, POOLS, TEMPLATES, VOLUME_CLAIMS) for name in self.names(kind)]


def create_or_join(server: SimulatedSwarmCluster, of: Swarm) -> dict[str, str]:
    return run(create_swarm, server, of, timeout=5, pause=server.pause, clock=lambda: server.now)


def test_a_swarm_has_its_members_and_shared_objects() -> None:
    server = SimulatedSwarmCluster()
    found = create_or_join(server, swarm_of())
    assert list(found) == ["t-1-0", "t-1-1", "t-1-2"] == server.names(CLAIMS)
    (template,) = server.list(TEMPLATES, SPACE)
    (pool,) = server.list(POOLS, SPACE)
    assert {claim["spec"]["warmPoolRef"]["name"] for claim in server.list(CLAIMS, SPACE)} == {pool["metadata"]["name"]}
    assert pool["spec"] | {"replicas": 0} == pool["spec"]
    volumes = template["spec"]["podTemplate"]["spec"]["volumes"]
    assert {"claimName": "shared-t-1"} in [volume.get("persistentVolumeClaim") for volume in volumes]
    assert server.names(VOLUME_CLAIMS) == ["shared-t-1"]


def test_all_objects_of_a_swarm_have_task_and_owner_labels() -> None:
    of = swarm_of()
    labels = {"sandbox.users.io/user": "u-1", "sandbox.users.io/task": "t-1"}
    for document in (of.volume, of.template, of.pool, *of.claims):
        assert labels.items() <= document["metadata"]["labels"].items()
    for document in of.claims:
        assert labels.items() <= document["spec"]["additionalPodMetadata"]["labels"].items()


def test_a_repeated_request_returns_the_same_swarm() -> None:
    server = SimulatedSwarmCluster()
    first = create_or_join(server, swarm_of())
    before = {key: object_["metadata"]["uid"] for key, object_ in server.objects.items()}
    # Its own members use up the room that it needed.
    server.quota(pods="10")
    assert create_or_join(server, swarm_of()) == first
    after = {key: object_["metadata"]["uid"] for key, object_ in server.objects.items() if key[0] is not QUOTAS}
    assert after == before


@pytest.mark.parametrize("change", range(1, 7))
def test_an_interrupted_creation_is_completed(change: int) -> None:
    server = SimulatedSwarmCluster()

    def killed(number: int) -> None:
        if number == change:
            raise Killed

    server.before = killed
    with pytest.raises(Killed):
        create_or_join(server, swarm_of())
    server.before = lambda _: None
    assert len(create_or_join(server, swarm_of())) == 3
    run(delete_swarm, server, SPACE, "t-1", RETENTION, pause=server.pause)
    assert server.left == []


@pytest.mark.parametrize(
    ("used", "word"), [({"pods": "8"}, "pods: 3 needed, 2 of"), ({"requests.storage": "90Gi"}, "requests.storage")]
)
def test_nothing_is_created_if_the_quota_is_too_small(used: dict[str, str], word: str) -> None:
    server = SimulatedSwarmCluster()
    server.quota(**used)
    with pytest.raises(SwarmError, match=word):
        create_or_join(server, swarm_of())
    assert server.left == []
    server.quota(pods="7", **{"requests.storage": "80Gi", "persistentvolumeclaims": "16"})
    assert len(create_or_join(server, swarm_of())) == 3


@pytest.mark.parametrize("leaving", ["of the deleted swarm", "of another workspace"])
def test_a_swarm_waits_for_the_room_of_pods_that_are_leaving(leaving: str) -> None:
    metadata: dict[str, Any] = {"name": "p-1", "namespace": SPACE}
    if leaving == "of the deleted swarm":
        metadata["labels"] = {"sandbox.users.io/task": "t-1"}
    else:
        metadata["deletionTimestamp"] = "2026-11-19T10:00:00Z"

    class Leaving(SimulatedSwarmCluster):
        def pause(self, seconds: float) -> None:
            super().pause(seconds)
            if self.now >= 2:
                self.objects.pop((PODS, SPACE, "p-1"), None)
            # The quota is counted a moment after the last pod is gone.
            if self.now == 3:
                self.quota(pods="7")

    server = Leaving()
    server.quota(pods="10")
    server.put(PODS, {"metadata": metadata})
    assert len(create_or_join(server, swarm_of())) == 3


def test_an_incomplete_swarm_is_deleted_with_a_reason() -> None:
    # One comes up; somebody else took the room of the others meanwhile.
    server = SimulatedSwarmCluster(able=1)
    with pytest.raises(SwarmError, match=r"1 of 3 .* in 5 s: t-1-1 is not ready: exceeded quota.*; t-1-2 is not ready"):
        create_or_join(server, swarm_of())
    assert server.left == []


def test_a_partly_refused_swarm_is_deleted() -> None:
    server = SimulatedSwarmCluster()

    def refusing(number: int) -> None:
        if number == 5:
            raise KubeApiError("exceeded quota: sandbox")

    server.before = refusing
    with pytest.raises(SwarmError, match="refused a part of it: exceeded quota"):
        create_or_join(server, swarm_of())
    assert server.left == []


def test_a_task_belongs_to_one_owner() -> None:
    server = SimulatedSwarmCluster()
    create_or_join(server, swarm_of())
    before = server.left
    with pytest.raises(SwarmError, match="choose another task"):
        create_or_join(server, swarm_of(owner="u-2"))
    assert server.left == before
    create_or_join(server, swarm_of(task="t-2", owner="u-2"))
    run(delete_swarm, server, SPACE, "t-1", RETENTION, pause=server.pause)
    assert all("t-2" in name for name in server.left)
    run(delete_swarm, server, SPACE, "t-1", RETENTION, pause=server.pause)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: swarm_of(count=0),
        lambda: swarm_of(count=501),
        lambda: swarm_of(kind="slot"),
        lambda: swarm_of(task="No such"),
    ],
)
def test_an_invalid_swarm_is_refused(wrong: Callable[[], Swarm]) -> None:
    with pytest.raises(ValueError, match=r"swarm|task"):
        wrong()


def test_names_of_members_fit_for_the_longest_task() -> None:
    longest = member("t" * 63, 499)
    assert len(f"home-{longest}") <= 63
    assert longest != member("t" * 62, 499)


def test_needs_are_compared_with_the_rest_of_the_quota() -> None:
    quota = {"status": {"hard": {"requests.cpu": "2", "pods": "3"}, "used": {"requests.cpu": "1500m", "pods": "1"}}}
    assert (
        quota_shortfalls(quota, {"requests.cpu": Decimal("0.5"), "pods": Decimal(2), "limits.cpu": Decimal(99)}) == []
    )
    (shortfall,) = quota_shortfalls(quota, {"requests.cpu": Decimal("0.6")})
    assert shortfall == "requests.cpu: 600m needed, 500m of 2 left"
    assert quota_shortfalls({}, {"pods": Decimal(9)}) == []


def test_a_running_swarm_is_not_deleted_for_a_failed_member() -> None:
    server = SimulatedSwarmCluster(able=3)
    create_or_join(server, swarm_of())
    existing = set(server.left)
    # Two more were asked for, and there is room for none of them.
    with pytest.raises(SwarmError, match="3 of 5"):
        create_or_join(server, swarm_of(5))
    assert set(server.left) == existing
    # One of them failed since, and the others are worked in.
    server.able = 2
    server.pause(0)
    with pytest.raises(SwarmError, match="2 of 3"):
        create_or_join(server, swarm_of())
    assert set(server.left) == existing


def test_a_refusal_deletes_nothing_of_a_running_swarm() -> None:
    server = SimulatedSwarmCluster()
    create_or_join(server, swarm_of())
    existing = set(server.left)

    def refused(_: int) -> None:
        raise KubeApiError("etcd is busy", 500)

    server.before = refused
    with pytest.raises(SwarmError, match="etcd is busy"):
        create_or_join(server, swarm_of())
    assert set(server.left) == existing


def beside(server: SimulatedSwarmCluster, act: Callable[[], object]) -> Callable[[float], None]:
    """A wait in which somebody else does something first, once."""
    done: list[object] = []

    def pause(seconds: float) -> None:
        server.pause(seconds)
        if not done:
            done.append(None)
            act()

    return pause


def test_a_timeout_leaves_a_swarm_that_was_handed_over() -> None:
    server = SimulatedSwarmCluster(able=2)
    handed_over: list[dict[str, str]] = []
    pause = beside(server, lambda: handed_over.append(create_or_join(server, swarm_of(2))))
    with pytest.raises(SwarmError, match="2 of 5"):
        run(create_swarm, server, swarm_of(5), timeout=5, pause=pause, clock=lambda: server.now)
    assert [*handed_over[0]] == ["t-1-0", "t-1-1"] == server.names(CLAIMS)
    assert server.names(VOLUME_CLAIMS) == ["shared-t-1"]
    assert create_or_join(server, swarm_of(2)) == handed_over[0]


def test_a_timeout_leaves_a_swarm_that_was_created_again() -> None:
    server = SimulatedSwarmCluster(able=2)

    def anew() -> None:
        run(delete_swarm, server, SPACE, "t-1", RETENTION, pause=server.pause)
        assert server.left == []
        create_or_join(server, swarm_of(2))

    with pytest.raises(SwarmError, match="being deleted") as refused:
        run(create_swarm, server, swarm_of(5), timeout=5, pause=beside(server, anew), clock=lambda: server.now)
    assert refused.value.kind == "busy"
    assert server.names(CLAIMS) == ["t-1-0", "t-1-1"]
    assert server.names(VOLUME_CLAIMS) == ["shared-t-1"]


def test_an_abandoned_swarm_is_not_handed_over() -> None:
    server = SimulatedSwarmCluster(able=2)

    def give_up(number: int) -> None:
        # After what is shared and its claims: just before it is noted that they are there.
        if number == 6:
            server.before = lambda _: None
            pool = run(swarm_outcome.pool_of, server, SPACE, "t-1")
            assert pool is not None
            assert run(swarm_outcome.mark_given_up, server, SPACE, "t-1", pool["metadata"]["uid"]) == "given-up"

    server.before = give_up
    with pytest.raises(SwarmError, match="being deleted") as refused:
        run(create_swarm, server, swarm_of(2, task="t-1"), timeout=5, pause=server.pause, clock=lambda: server.now)
    assert refused.value.kind == "busy"
    # Whoever asks next ends what there is left, and then has one.
    with pytest.raises(SwarmError, match="being deleted"):
        create_or_join(server, swarm_of(2))
    assert server.left == []
    assert len(create_or_join(server, swarm_of(2))) == 2


def test_two_classes_at_once_leave_one_swarm_at_most() -> None:
    server = SimulatedSwarmCluster()

    def other(number: int) -> None:
        if number == 3:  # its pool
            server.before = lambda _: None
            create_or_join(server, swarm_of(class_name="other"))

    server.before = other
    with pytest.raises(SwarmError, match="of class other") as refused:
        create_or_join(server, swarm_of())
    assert refused.value.kind == "key-reused"
    assert {space for kind, space, _ in server.objects if kind is not QUOTAS} == {"sandbox-other"}


def test_suspended_members_count_as_ready() -> None:
    server = SimulatedSwarmCluster()
    first = create_or_join(server, swarm_of())
    server.able = 0
    for claim in server.list(CLAIMS, SPACE):
        server.patch(CLAIMS, claim, {"metadata": {"annotations": {SUSPENDED_BECAUSE: "idle"}}})
    server.pause(0)
    assert create_or_join(server, swarm_of()) == first


class Busy(SimulatedSwarmCluster):
    """One that cannot just now, so many times in a row from a call on; or did what it was asked, and nobody heard."""

    def __init__(self, call: str, kind: Any, times: float = 1, code: int = 503, *, heard: bool = True) -> None:
        super().__init__()
        self.call, self.kind, self.times, self.code, self.heard = call, kind, times, code, heard

    def _request(self, call: str, kind: Any) -> bool:
        """Return whether it is this time."""
        if (call, kind) != (self.call, self.kind) or self.times <= 0:
            return False
        self.times -= 1
        return True

    def list(
        self, kind: Any, namespace: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> Iterator[Document]:
        if self.names(CLAIMS) and self._request("list", kind):
            raise KubeApiError("too busy", self.code)
        return super().list(kind, namespace, labels)

    def create(self, kind: Any, document: Document) -> bool:
        if self._request("make", kind):
            if not self.heard:
                super().create(kind, document)
            raise KubeApiError("too busy", self.code)
        return super().create(kind, document)

    def patch(self, kind: Any, existing: Document, changes: Document) -> bool:
        if self._request("change", kind):
            if not self.heard:
                super().patch(kind, existing, changes)
            raise KubeApiError("too busy", self.code)
        return super().patch(kind, existing, changes)


PLACES = [("make", TEMPLATES), ("make", CLAIMS), ("list", CLAIMS), ("list", POOLS), ("change", POOLS)]


@pytest.mark.parametrize(("code", "heard"), [(429, True), (503, True), (503, False)])
@pytest.mark.parametrize(("call", "kind"), PLACES)
def test_a_short_outage_does_not_fail_a_swarm(call: str, kind: Any, code: int, heard: bool) -> None:
    server = Busy(call, kind, 3, code, heard=heard)
    assert len(create_or_join(server, swarm_of())) == 3
    assert server.times == 0
    pool = run(swarm_outcome.pool_of, server, SPACE, "t-1")
    assert pool is not None
    assert swarm_outcome.handed_over_count(pool) == 3


@pytest.mark.parametrize(("call", "kind"), PLACES)
def test_a_swarm_stays_during_an_outage_and_is_completed_later(call: str, kind: Any) -> None:
    server = Busy(call, kind, float("inf"))
    with pytest.raises(SwarmError, match="the API server is unavailable") as refused:
        create_or_join(server, swarm_of())
    assert refused.value.kind == "unavailable"
    assert server.now >= 5
    server.times = 0
    before = {key: object_["metadata"]["uid"] for key, object_ in server.objects.items()}
    assert len(create_or_join(server, swarm_of())) == 3
    assert before.items() <= {key: object_["metadata"]["uid"] for key, object_ in server.objects.items()}.items()


def test_a_request_in_an_outage_leaves_another_requests_swarm() -> None:
    server = Busy("make", CLAIMS, 0)

    def another() -> None:
        server.times = float("inf")
        with pytest.raises(SwarmError) as refused:
            create_or_join(server, swarm_of(6))
        assert refused.value.kind == "unavailable"
        server.times = 0

    found = run(create_swarm, server, swarm_of(5), timeout=60, pause=beside(server, another), clock=lambda: server.now)
    assert len(found) == 5


def test_objects_created_without_a_response_are_deleted_too() -> None:
    server = Busy("make", CLAIMS, 0, heard=False)
    create_or_join(server, swarm_of(3))
    server.able, server.times = 3, 1
    with pytest.raises(SwarmError, match="3 of 5"):
        create_or_join(server, swarm_of(5))
    assert server.names(CLAIMS) == ["t-1-0", "t-1-1", "t-1-2"]


class Homes(SimulatedSwarmCluster):
    """With a home for each that comes up; that of one is somebody else's."""

    def __init__(self, foreign: str) -> None:
        super().__init__()
        self.foreign = foreign

    def pause(self, seconds: float) -> None:
        super().pause(seconds)
        for kind, claim in [(key[0], object_) for key, object_ in self.objects.items()]:
            name = claim["metadata"]["name"]
            if kind is CLAIMS and name not in self.names(SANDBOXES):
                owners = [{"uid": claim["metadata"]["uid"]}]
                self.put(SANDBOXES, {"metadata": {"name": name, "namespace": SPACE, "ownerReferences": owners}})
                home = {"name": f"home-{name}", "namespace": SPACE, "uid": f"home-{name}"}
                self.put(VOLUME_CLAIMS, {"metadata": home, "spec": {"volumeName": f"pv-{name}"}})
                labels = {"sandbox.users.io/user": "u-2"} if name == self.foreign else {}
                spec = {"persistentVolumeReclaimPolicy": "Delete", "claimRef": {"uid": home["uid"]}}
                self.put(VOLUMES, {"metadata": {"name": f"pv-{name}", "labels": labels}, "spec": spec})


def test_a_swarm_with_a_volume_that_cannot_be_retained_is_refused() -> None:
    server = Homes("t-1-1")
    with pytest.raises(SwarmError, match=r"the volume of t-1-1 cannot be retained: .*another owner") as refused:
        create_or_join(server, swarm_of())
    assert refused.value.kind == "refused"
    assert server.names(CLAIMS) == server.names(POOLS) == []
    theirs = server.find(VOLUMES, "pv-t-1-1")
    assert theirs is not None
    assert theirs["metadata"]["labels"] == {"sandbox.users.io/user": "u-2"}


def test_all_volumes_are_retained_before_the_handover() -> None:
    server = Homes("none")
    retained: list[int] = []

    def handing(_: int) -> None:
        policies = [volume["spec"]["persistentVolumeReclaimPolicy"] for volume in server.list(VOLUMES)]
        retained.append(policies.count("Retain"))

    server.before = handing
    create_or_join(server, swarm_of())
    # What is changed last is its pool.
    assert retained[-1] == 3
    pool = run(swarm_outcome.pool_of, server, SPACE, "t-1")
    assert pool is not None
    assert swarm_outcome.handed_over_count(pool) == 3


def test_a_volume_that_cannot_be_retained_deletes_nothing_of_a_running_swarm() -> None:
    server = Homes("t-1-4")
    create_or_join(server, swarm_of(3))
    with pytest.raises(SwarmError, match="t-1-4"):
        create_or_join(server, swarm_of(5))
    assert server.names(CLAIMS) == ["t-1-0", "t-1-1", "t-1-2"]
    assert server.names(POOLS) != []
