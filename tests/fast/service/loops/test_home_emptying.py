"""A home is emptied by a Job before its access point is deleted, whatever is killed on the way."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agentenv.core.lifecycle.restore import being_destroyed, used_class
from agentenv.core.lifecycle.retention import HOLD
from agentenv.core.service.home_emptying import EMPTYING_LABEL, MOST, NAME
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import DELETED_AT, DESTROY_AFTER, DESTROY_REQUESTED
from agentenv.service.kube.client import JOBS, VOLUME_CLAIMS, VOLUMES, Document
from agentenv.service.ledger.read_holdings import _volume as ledger_volume
from agentenv.service.loops.retention import apply_retention, destroy_on_request
from agentenv.service.loops.slots import is_ours
from tests.fast.service.fake_api_server import Killed, run
from tests.fast.service.loops.cluster import SPACE, START, Cluster, always

DAY = timedelta(days=1)
DATED = {DELETED_AT: format_timestamp(START - 40 * DAY), DESTROY_AFTER: format_timestamp(START - 10 * DAY)}
IMAGE = "registry.example.com/workspace-service@sha256:" + "ab" * 32
OBJECT = "empty-pv-w-9"


class Controllers:
    """The controllers of Kubernetes and the storage driver, which act when a test lets them."""

    def __init__(self, cluster: Cluster, outcome: str = "Complete") -> None:
        self.cluster, self.outcome = cluster, outcome
        self.emptied: list[str] = []
        self.deleted_with_files: list[str] = []

    def act(self) -> None:
        """Bind volumes, run Jobs, release volumes, and delete those that are to be deleted."""
        server = self.cluster.server
        for claim in server.list(VOLUME_CLAIMS, NAME):
            volume = server.find(VOLUMES, claim["spec"]["volumeName"])
            assert volume is not None
            ref = volume["spec"]["claimRef"]
            assert (ref["namespace"], ref["name"]) == (NAME, claim["metadata"]["name"])
            assert claim["spec"]["storageClassName"] == volume["spec"]["storageClassName"]
            volume["spec"]["claimRef"] = {**ref, "uid": claim["metadata"]["uid"]}
            server.put(VOLUMES, {**volume, "status": {**volume["status"], "phase": "Bound"}})
        for job in server.list(JOBS, NAME):
            name = job["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
            if "status" not in job and server.find(VOLUME_CLAIMS, name, NAME):
                condition = {
                    "type": self.outcome,
                    "status": "True",
                    "lastTransitionTime": format_timestamp(self.cluster.now),
                }
                server.put(JOBS, {**job, "status": {"conditions": [condition]}})
                self.emptied += [name] if self.outcome == "Complete" else []
        for volume in server.list(VOLUMES):
            ref = volume["spec"]["claimRef"]
            claim = server.find(VOLUME_CLAIMS, ref["name"], ref["namespace"])
            if volume["status"]["phase"] == "Bound" and claim is None:
                volume["status"]["phase"] = "Released"
                server.put(VOLUMES, volume)
            if volume["status"]["phase"] == "Released" and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
                name = volume["metadata"]["name"]
                self.deleted_with_files += [] if f"empty-{name}" in self.emptied else [name]
                del server.objects[VOLUMES, "", name]


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.volume("w-9", "Released", **DATED)
    return cluster


def request(cluster: Cluster) -> None:
    """Request the destruction, as DELETE with `destroy=true` does."""
    volume = cluster.server.find(VOLUMES, "pv-w-9") or {}
    assert cluster.server.patch(VOLUMES, volume, {"metadata": {"labels": {DESTROY_REQUESTED: "true"}}})


def volume_of(cluster: Cluster) -> Document | None:
    return cluster.server.find(VOLUMES, "pv-w-9")


def passes(cluster: Cluster, controllers: Controllers, most: int = 12) -> None:
    """Run passes of both loops and the controllers until the volume is gone and its record complete."""
    for _ in range(most):
        context = cluster.context(emptying_image=IMAGE)
        run(apply_retention, context, always)
        controllers.act()
        run(destroy_on_request, context, always)
        controllers.act()


@pytest.mark.parametrize("requested", [False, True])
def test_an_expired_home_is_emptied_before_its_access_point_goes(cluster: Cluster, requested: bool) -> None:
    if requested:
        request(cluster)
    controllers = Controllers(cluster)
    passes(cluster, controllers)
    assert (controllers.emptied, controllers.deleted_with_files) == ([OBJECT], [])
    assert volume_of(cluster) is None
    assert [cluster.server.find(kind, OBJECT, NAME) for kind in (JOBS, VOLUME_CLAIMS)] == [None, None]
    recorded = cluster.destruction_record("pv-w-9")
    assert (recorded["class"], recorded["workspace"]) == ("box", "w-9")
    assert {"decided", "emptied", "gone"} <= set(recorded)


def test_the_job_mounts_the_home_alone_without_a_token(cluster: Cluster) -> None:
    controllers = Controllers(cluster, outcome="Running")
    passes(cluster, controllers, 2)
    job = cluster.server.find(JOBS, OBJECT, NAME)
    assert job is not None
    pod = job["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["volumes"] == [{"name": "home", "persistentVolumeClaim": {"claimName": OBJECT}}]
    (container,) = pod["containers"]
    assert (container["image"], container["command"]) == (IMAGE, ["python", "-m", "agentenv.service.home_emptying"])
    # What it is billed and audited as does not change meanwhile.
    volume = volume_of(cluster)
    assert volume is not None
    assert (
        used_class(volume),
        is_ours({**volume, "spec": {**volume["spec"], "csi": {"driver": "efs.csi.aws.com"}}}),
    ) == (
        "box",
        True,
    )
    holding = ledger_volume(volume)[1]
    assert holding is not None
    assert holding.sandbox_class == "box"


def count_changes() -> int:
    """Return the number of writes of a whole emptying."""
    cluster, numbers = Cluster(), list[int]()
    cluster.volume("w-9", "Released", **DATED)
    cluster.server.before = numbers.append
    passes(cluster, Controllers(cluster))
    return len(numbers)


def test_it_takes_nine_writes() -> None:
    # The record, the reservation, claim, Job, the record, the policy, Job, claim, the record.
    assert count_changes() == 9


@pytest.mark.parametrize("change", range(1, 10))
@pytest.mark.parametrize("requested", [False, True])
def test_killed_at_any_write_it_is_completed(cluster: Cluster, change: int, requested: bool) -> None:
    if requested:
        request(cluster)
    controllers, numbers = Controllers(cluster), list[int]()

    def dies(number: int) -> None:
        numbers.append(number)
        if len(numbers) == change:
            raise Killed

    cluster.server.before = dies
    with pytest.raises(Killed):
        passes(cluster, controllers)
    cluster.server.before = lambda _: None
    controllers.act()
    passes(cluster, controllers)
    assert (controllers.emptied, controllers.deleted_with_files, volume_of(cluster)) == ([OBJECT], [], None)
    assert {"emptied", "gone"} <= set(cluster.destruction_record("pv-w-9"))


def test_a_workspace_cannot_be_restored_from_a_home_that_is_being_emptied(cluster: Cluster) -> None:
    passes(cluster, Controllers(cluster, outcome="Running"), 1)
    volume = volume_of(cluster)
    assert volume is not None
    assert volume["metadata"]["labels"][EMPTYING_LABEL] == "true"
    assert being_destroyed(volume)


def test_a_restore_before_the_reservation_prevents_it(cluster: Cluster) -> None:
    def comes(number: int) -> None:
        if number == 2:
            cluster.server.before = lambda _: None
            assert cluster.server.patch(VOLUMES, volume_of(cluster) or {}, {"spec": {"claimRef": {"name": "home-w-9"}}})

    cluster.server.before = comes
    run(apply_retention, cluster.context(emptying_image=IMAGE), always)
    volume = volume_of(cluster)
    assert volume is not None
    assert (volume["spec"]["claimRef"]["namespace"], being_destroyed(volume)) == (SPACE, False)


def test_a_home_that_cannot_be_emptied_is_retained_reported_and_retried(cluster: Cluster) -> None:
    controllers = Controllers(cluster, outcome="Failed")
    passes(cluster, controllers, 3)
    result = run(destroy_on_request, cluster.context(emptying_image=IMAGE), always)
    assert result.failures == ("pv-w-9 cannot be emptied: see the log of its Job in home-emptying",)
    assert volume_of(cluster) is not None
    cluster.advance(3600)
    controllers.outcome = "Complete"
    passes(cluster, controllers)
    assert (controllers.emptied, volume_of(cluster)) == ([OBJECT], None)


def test_a_hold_stops_the_deletion_of_a_home_that_is_being_emptied(cluster: Cluster) -> None:
    controllers = Controllers(cluster)
    passes(cluster, controllers, 1)
    assert cluster.server.patch(VOLUMES, volume_of(cluster) or {}, {"metadata": {"annotations": {HOLD: "audit"}}})
    passes(cluster, controllers)
    volume = volume_of(cluster)
    assert volume is not None
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def test_shared_volumes_are_emptied_too(cluster: Cluster) -> None:
    volume = volume_of(cluster) or {}
    labels = {**volume["metadata"]["labels"], "sandbox.users.io/task": "t-1"}
    del labels["sandbox.users.io/workspace"]
    ref = {**volume["spec"]["claimRef"], "name": "shared-t-1"}
    metadata = {**volume["metadata"], "labels": labels}
    cluster.server.put(VOLUMES, {**volume, "metadata": metadata, "spec": {**volume["spec"], "claimRef": ref}})
    controllers = Controllers(cluster)
    passes(cluster, controllers)
    assert (controllers.emptied, volume_of(cluster)) == ([OBJECT], None)


def test_so_many_homes_are_emptied_at_a_time() -> None:
    cluster = Cluster()
    for number in range(MOST + 3):
        cluster.volume(f"w-{number}", "Released", **DATED)
    controllers = Controllers(cluster, outcome="Running")
    passes(cluster, controllers, 3)
    assert len([*cluster.server.list(JOBS, NAME)]) == MOST
    for job in cluster.server.list(JOBS, NAME):
        cluster.server.put(JOBS, {key: value for key, value in job.items() if key != "status"})
    controllers.outcome = "Complete"
    passes(cluster, controllers, 30)
    assert (len(controllers.emptied), cluster.server.names(VOLUMES)) == (MOST + 3, [])
