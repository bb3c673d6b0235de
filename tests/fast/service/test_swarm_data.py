"""The data of swarms is kept as that of workspaces: dated when it is deleted, returned to, and destroyed when due."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from agentenv.config import read
from agentenv.core.classes.plan import ClassPlan, plans
from agentenv.core.classes.releases import releases_of
from agentenv.core.classes.template import template
from agentenv.core.lifecycle.orphaned_storage import SETTLED
from agentenv.core.lifecycle.restore import MOVING_TO
from agentenv.core.workspaces.swarms import Swarm, swarm
from agentenv.core.workspaces.workspace import DELETED_AT, DESTROY_AFTER, DESTROY_REQUESTED
from agentenv.service.kube.client import (
    CLAIMS,
    CONFIGURATIONS,
    POOLS,
    SANDBOXES,
    TEMPLATES,
    VOLUME_CLAIMS,
    VOLUMES,
    Document,
    section,
)
from agentenv.service.ledger.read_holdings import ListedObjects, holdings
from agentenv.service.loops.context import Context
from agentenv.service.loops.retention import apply_retention, destroy_on_request
from agentenv.service.loops.slots import maintain_slots
from agentenv.service.workspaces import swarm_outcome
from agentenv.service.workspaces.delete import delete_workspace
from agentenv.service.workspaces.restore import restore_workspace, retained_volume
from agentenv.service.workspaces.retain_volume import retain_all_volumes
from agentenv.service.workspaces.swarms import SwarmError, create_swarm, delete_swarm, destroy_retained_data
from tests.fast.service.fake_api_server import Api, Killed, run
from tests.fast.service.loops.cluster import START, Hour, Told, always
from tests.fast.service.simulated_cluster import NAMESPACE, SimulatedCluster

KEPT = timedelta(days=30)
NAMES = ["t-1-0", "t-1-1", "t-1-2"]


def plan_of(name: str = "box") -> ClassPlan:
    image = f"registry.example.com/sandbox@sha256:{'0' * 64}"
    said: dict[str, Any] = {"name": name, "image": image, "storage": {"kind": "shared", "size": "5Gi"}}
    (plan,) = plans(read({"aws:region": "us-east-1", "agent-environment:sandboxClasses": [said]}, "dev"))
    return plan


def asked(count: int = 3, class_name: str = "box") -> Swarm:
    plan = plan_of(class_name)
    return swarm(plan, releases_of(plan)[0], "t-1", count, owner="u-1")


def made(shelf: SimulatedCluster, of: Swarm | None = None) -> dict[str, str]:
    began = shelf.waited
    return run(
        create_swarm,
        shelf,
        of or asked(),
        timeout=5,
        pause=shelf.pause,
        clock=lambda: shelf.waited - began,
        now=lambda: START,
    )


def deleted(shelf: SimulatedCluster, keep_for: timedelta = KEPT, now: datetime = START) -> None:
    run(delete_swarm, shelf, NAMESPACE, "t-1", keep_for, now=lambda: now, pause=shelf.pause)


def deletions(shelf: SimulatedCluster) -> dict[str, str]:
    """When each volume that says so was deleted."""
    found = {one["metadata"]["name"]: section(one["metadata"], "annotations") for one in shelf.list(VOLUMES)}
    return {name: notes[DELETED_AT] for name, notes in found.items() if DELETED_AT in notes}


def volumes(shelf: SimulatedCluster) -> dict[str, str]:
    """The volumes of a swarm, by what they are for."""
    found = {name: shelf.volume(NAMESPACE, f"home-{name}") for name in NAMES}
    return {**found, "shared": shelf.volume(NAMESPACE, "shared-t-1")}


def passes(shelf: SimulatedCluster, later: timedelta = timedelta(0)) -> dict[str, Mapping[str, int]]:
    """A pass of the loops that may change what a swarm has; what they find."""
    told = Told()
    context = Context(Api(shelf), Hour(lambda: START + later), told, "default", "r1")
    for one in (apply_retention, destroy_on_request, maintain_slots):
        assert run(one, context, always).failures == ()
    return told.found


@pytest.fixture
def shelf() -> SimulatedCluster:
    made_ = SimulatedCluster()
    made(made_)
    return made_


def test_what_was_deleted_is_dated_and_listed_at_once(shelf: SimulatedCluster) -> None:
    before = volumes(shelf)
    deleted(shelf)
    assert shelf.deleted() == dict.fromkeys(before.values(), True)
    for volume in shelf.list(VOLUMES):
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert (
            volume["metadata"]["labels"].items()
            >= {
                "sandbox.users.io/user": "u-1",
                "sandbox.users.io/task": "t-1",
                "sandbox.users.io/mode": "agent",
            }.items()
        )
    workspaces = {one["metadata"]["labels"].get("sandbox.users.io/workspace") for one in shelf.list(VOLUMES)}
    assert workspaces == {*NAMES, None}
    assert [name for kind in (CLAIMS, POOLS, TEMPLATES, VOLUME_CLAIMS) for name in shelf.names(kind)] == []
    # Nothing is left to the next pass, and a second deletion changes nothing.
    objects = dict(shelf.objects)
    passes(shelf)
    deleted(shelf)
    assert shelf.objects == objects


@pytest.mark.parametrize("keep_for", [KEPT, timedelta(0)])
def test_killed_at_every_step_of_its_deletion_each_volume_keeps_the_timestamp_that_it_has(keep_for: timedelta) -> None:
    change, began, recorded = 0, START + SETTLED, dict[str, str]()
    while True:
        change += 1
        shelf = SimulatedCluster()
        made(shelf)
        kill(shelf, change)
        try:
            deleted(shelf, keep_for, began)
        except Killed:
            recorded = deletions(shelf)
        else:
            break
        alive(shelf)
        deleted(shelf, keep_for, began + timedelta(minutes=1))
        assert len(deletions(shelf)) == len(shelf.names(VOLUMES)) == 4
        assert deletions(shelf).items() >= recorded.items()
    assert len(recorded) == 4


def test_destroyed_later_each_volume_keeps_the_timestamp_of_its_deletion(shelf: SimulatedCluster) -> None:
    """From then on its data is paid for, until it is gone."""
    deleted(shelf)
    before = deletions(shelf)
    assert run(destroy_retained_data, shelf, "u-1", "t-1", START + timedelta(days=3)) == len(before) == 4
    assert deletions(shelf) == before
    assert all(DESTROY_REQUESTED in one["metadata"]["labels"] for one in shelf.list(VOLUMES))


def test_created_again_it_returns_to_all_that_was_kept(shelf: SimulatedCluster) -> None:
    before = volumes(shelf)
    deleted(shelf)
    assert list(made(shelf)) == NAMES
    assert volumes(shelf) == before
    assert shelf.deleted() == dict.fromkeys(before.values(), False)
    (pool,) = shelf.names(POOLS)
    assert {one["spec"]["warmPoolRef"]["name"] for one in shelf.list(CLAIMS)} == {pool}
    # No loop finds anything off its place, and none takes a member away.
    assert passes(shelf)["slots"] == passes(shelf, timedelta(hours=1))["slots"] == {}
    assert (shelf.names(CLAIMS), volumes(shelf)) == (NAMES, before)


def test_of_one_that_is_larger_than_before_the_further_members_have_new_homes(shelf: SimulatedCluster) -> None:
    before = volumes(shelf)
    deleted(shelf)
    assert len(made(shelf, asked(5))) == 5
    assert volumes(shelf) == before
    assert len(shelf.names(VOLUMES)) == 6
    pool = run(swarm_outcome.pool_of, shelf, NAMESPACE, "t-1")
    assert pool is not None
    assert (swarm_outcome.requested_count(pool), swarm_outcome.handed_over_count(pool)) == (5, 5)


def kill(shelf: SimulatedCluster, change: int) -> None:
    seen = [0]

    def dies(_: int) -> None:
        seen[0] += 1
        if seen[0] == change:
            raise Killed

    shelf.before = dies


def alive(shelf: SimulatedCluster) -> None:
    shelf.before = lambda _: None


def test_killed_at_every_step_of_its_deletion_asking_again_deletes_it() -> None:
    change = 0
    while True:
        change += 1
        shelf = SimulatedCluster()
        made(shelf)
        before = volumes(shelf)
        kill(shelf, change)
        try:
            deleted(shelf)
        except Killed:
            pass
        else:
            break
        alive(shelf)
        # Whatever has begun, a pass that comes meanwhile destroys nothing and takes no member away.
        claims = shelf.names(CLAIMS)
        passes(shelf)
        assert shelf.names(CLAIMS) == claims
        deleted(shelf)
        assert {name for name, dated in shelf.deleted().items() if dated} == {*before.values()}
        made(shelf)
        assert volumes(shelf) == before
    assert change > 10


def test_killed_at_every_step_of_its_return_asking_again_returns_to_the_same() -> None:
    change = 0
    while True:
        change += 1
        shelf = SimulatedCluster()
        made(shelf)
        before = volumes(shelf)
        deleted(shelf)
        kill(shelf, change)
        try:
            made(shelf)
        except Killed:
            pass
        else:
            break
        alive(shelf)
        passes(shelf)
        made(shelf)
        assert volumes(shelf) == before
        assert shelf.deleted() == dict.fromkeys(before.values(), False)
    assert change > 10


@pytest.mark.parametrize("capacity", [0, 1, 2])
def test_given_up_half_way_its_data_is_as_deleted_as_before(shelf: SimulatedCluster, capacity: int) -> None:
    before = volumes(shelf)
    deleted(shelf, timedelta(days=9))
    shelf.capacity = capacity
    with pytest.raises(SwarmError, match=f"{capacity} of 3"):
        made(shelf)
    assert shelf.names(CLAIMS) == shelf.names(POOLS) == []
    for name in before.values():
        notes = shelf.objects[VOLUMES, "", name]["metadata"]["annotations"]
        assert notes[DESTROY_AFTER].startswith(f"{START + timedelta(days=9):%Y-%m-%d}")
    shelf.capacity = 9
    made(shelf)
    assert volumes(shelf) == before


def test_a_pass_that_comes_while_it_returns_leaves_its_dates(shelf: SimulatedCluster) -> None:
    before = volumes(shelf)
    deleted(shelf)
    shelf.capacity = 2
    pause, came = shelf.pause, list[bool]()

    def passing(seconds: float) -> None:
        pause(seconds)
        passes(shelf, timedelta(days=1))
        came.append(all(shelf.deleted().values()))

    with pytest.raises(SwarmError):
        run(
            create_swarm,
            shelf,
            asked(),
            timeout=5,
            pause=passing,
            clock=lambda: shelf.waited,
            now=lambda: START + timedelta(days=1),
        )
    assert set(came) == {True}
    assert shelf.deleted() == dict.fromkeys(before.values(), True)


def test_two_that_return_it_at_the_same_time_have_one(shelf: SimulatedCluster) -> None:
    before = volumes(shelf)
    deleted(shelf)
    for step in range(1, 14):
        seen = [0]

        def beside(_: int, step: int = step, seen: list[int] = seen) -> None:
            seen[0] += 1
            if seen[0] == step:
                alive(shelf)
                made(shelf)

        shelf.before = beside
        assert list(made(shelf)) == NAMES
        alive(shelf)
        assert volumes(shelf) == before
        assert shelf.deleted() == dict.fromkeys(before.values(), False)
        deleted(shelf)


def test_a_member_that_was_deleted_alone_returns_with_the_swarm(shelf: SimulatedCluster) -> None:
    before = volumes(shelf)
    assert run(delete_workspace, shelf, shelf.find(CLAIMS, "t-1-1", NAMESPACE) or {}, KEPT, START) == "done"
    assert [name for name, dated in shelf.deleted().items() if dated] == [before["t-1-1"]]
    passes(shelf, timedelta(days=20))
    assert [name for name, dated in shelf.deleted().items() if dated] == [before["t-1-1"]]
    made(shelf)
    assert volumes(shelf) == before


def resumed(shelf: SimulatedCluster, name: str) -> str:
    volume = run(retained_volume, shelf, "u-1", name)
    assert volume is not None
    outcome = run(restore_workspace, shelf, volume, now=lambda: START).outcome
    shelf.pause(0)
    return outcome


def released(shelf: SimulatedCluster) -> None:
    """The class has a template of its own in the cluster."""
    plan = plan_of()
    one = template(plan, releases_of(plan)[0], 0, {"sandbox.users.io/channel": "stable"})
    one["metadata"]["name"] = "box-t"
    shelf.put(TEMPLATES, one)


@pytest.mark.parametrize("stands", [True, False])
def test_a_member_that_is_resumed_alone_has_what_its_task_shares(shelf: SimulatedCluster, *, stands: bool) -> None:
    released(shelf)
    before = volumes(shelf)
    if stands:
        assert run(delete_workspace, shelf, shelf.find(CLAIMS, "t-1-1", NAMESPACE) or {}, KEPT, START) == "done"
    else:
        deleted(shelf)
    assert resumed(shelf, "t-1-1") == "made"
    claim = shelf.find(CLAIMS, "t-1-1", NAMESPACE) or {}
    pool = shelf.find(POOLS, claim["spec"]["warmPoolRef"]["name"], NAMESPACE) or {}
    of = shelf.find(TEMPLATES, pool["spec"]["sandboxTemplateRef"]["name"], NAMESPACE) or {}
    mounts = [one.get("persistentVolumeClaim") for one in of["spec"]["podTemplate"]["spec"]["volumes"]]
    assert {"claimName": "shared-t-1"} in mounts
    assert of["spec"]["podTemplate"]["metadata"]["labels"]["sandbox.users.io/task"] == "t-1"
    assert shelf.volume(NAMESPACE, "home-t-1-1") == before["t-1-1"]
    assert shelf.volume(NAMESPACE, "shared-t-1") == before["shared"]
    dated = shelf.deleted()
    assert (dated[before["t-1-1"]], dated[before["shared"]], dated[before["t-1-0"]]) == (False, False, not stands)
    # And the others, when the swarm is asked for again.
    made(shelf)
    assert volumes(shelf) == before
    pool = run(swarm_outcome.pool_of, shelf, NAMESPACE, "t-1") or {}
    assert swarm_outcome.requested_count(pool) == 3


def test_killed_at_every_step_of_a_members_return_asking_again_brings_it_back() -> None:
    change = 0
    while True:
        change += 1
        shelf = SimulatedCluster()
        released(shelf)
        made(shelf)
        before = volumes(shelf)
        deleted(shelf)
        kill(shelf, change)
        try:
            resumed(shelf, "t-1-1")
        except Killed:
            pass
        else:
            break
        alive(shelf)
        assert resumed(shelf, "t-1-1") in {"made", "there"}
        passes(shelf, timedelta(hours=1))
        assert shelf.volume(NAMESPACE, "home-t-1-1") == before["t-1-1"]
        assert shelf.volume(NAMESPACE, "shared-t-1") == before["shared"]
        dated = shelf.deleted()
        assert (dated[before["t-1-1"]], dated[before["shared"]]) == (False, False)
    assert change > 5


def test_a_member_does_not_return_to_a_swarm_that_is_on_its_way_out(shelf: SimulatedCluster) -> None:
    released(shelf)
    assert run(delete_workspace, shelf, shelf.find(CLAIMS, "t-1-1", NAMESPACE) or {}, KEPT, START) == "done"
    run(swarm_outcome.mark_deleted, shelf, NAMESPACE, "t-1")
    assert resumed(shelf, "t-1-1") == "waiting"
    assert shelf.names(CLAIMS) == ["t-1-0", "t-1-2"]


def record(shelf: SimulatedCluster) -> str:
    return "".join(str(section(one, "data")) for one in shelf.list(CONFIGURATIONS, "default"))


def test_what_was_shared_is_destroyed_when_it_is_due_with_a_record(shelf: SimulatedCluster) -> None:
    shared = volumes(shelf)["shared"]
    deleted(shelf)
    for days, policy in ((29, "Retain"), (31, "Delete")):
        passes(shelf, timedelta(days=days))
        assert shelf.objects[VOLUMES, "", shared]["spec"]["persistentVolumeReclaimPolicy"] == policy
    assert (shared in record(shelf), "shared-t-1" in record(shelf)) == (True, True)


def test_what_was_shared_stays_while_a_member_is_there(shelf: SimulatedCluster) -> None:
    before = volumes(shelf)
    deleted(shelf)
    released(shelf)
    assert resumed(shelf, "t-1-0") == "made"
    passes(shelf, timedelta(days=40))
    policies = {
        name: shelf.objects[VOLUMES, "", name]["spec"]["persistentVolumeReclaimPolicy"] for name in before.values()
    }
    assert [policies[before[name]] for name in ("t-1-0", "shared", "t-1-1")] == ["Retain", "Retain", "Delete"]


def test_what_nobody_shares_any_more_is_let_go_of_and_kept_for_its_time(shelf: SimulatedCluster) -> None:
    shared = volumes(shelf)["shared"]
    for name in NAMES:
        assert run(delete_workspace, shelf, shelf.find(CLAIMS, name, NAMESPACE) or {}, KEPT, START) == "done"
    # Its pool stands until the loop of releases has taken it away: somebody may ask for it again.
    passes(shelf, SETTLED * 2)
    assert shelf.names(VOLUME_CLAIMS) == ["shared-t-1"]
    for pool in [*shelf.list(POOLS)]:
        shelf.delete(POOLS, pool)
    found = passes(shelf, SETTLED / 2)
    assert (found["slots"], shelf.names(VOLUME_CLAIMS)) == ({}, ["shared-t-1"])
    found = passes(shelf, SETTLED * 2)
    assert (found["slots"], shelf.names(VOLUME_CLAIMS)) == ({"volume-claim-without-swarm": 1}, [])
    passes(shelf, SETTLED * 2)
    notes = shelf.objects[VOLUMES, "", shared]["metadata"]["annotations"]
    assert {DELETED_AT, DESTROY_AFTER} <= notes.keys()
    made(shelf)
    assert shelf.volume(NAMESPACE, "shared-t-1") == shared


def test_what_a_swarm_shares_is_kept_also_where_whoever_made_it_was_killed() -> None:
    shelf = SimulatedCluster()
    made(shelf)
    volume = shelf.objects[VOLUMES, "", volumes(shelf)["shared"]]
    volume["spec"]["persistentVolumeReclaimPolicy"] = "Delete"
    volume["metadata"].pop("labels")
    run(retain_all_volumes, shelf)
    kept = shelf.objects[VOLUMES, "", volumes(shelf)["shared"]]
    assert kept["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert kept["metadata"]["labels"]["sandbox.users.io/task"] == "t-1"


def test_of_one_that_nobody_had_nothing_is_kept() -> None:
    shelf = SimulatedCluster(capacity=2)
    with pytest.raises(SwarmError):
        made(shelf)
    assert shelf.names(VOLUMES) == []


def test_destruction_that_was_requested_wins_over_asking_for_it_again(shelf: SimulatedCluster) -> None:
    before = volumes(shelf)
    assert run(delete_workspace, shelf, shelf.find(CLAIMS, "t-1-1", NAMESPACE) or {}, KEPT, START) == "done"
    deleted(shelf, timedelta(0))
    assert run(destroy_retained_data, shelf, "u-1", "t-1", START) == len(before)
    assert all(DESTROY_REQUESTED in one["metadata"]["labels"] for one in shelf.list(VOLUMES))
    with pytest.raises(SwarmError, match="being destroyed") as refused:
        made(shelf)
    assert (refused.value.kind, refused.value.gone_in > 0) == ("being-destroyed", True)
    assert shelf.names(CLAIMS) == shelf.names(VOLUME_CLAIMS) == []
    passes(shelf)
    assert {one["spec"]["persistentVolumeReclaimPolicy"] for one in shelf.list(VOLUMES)} == {"Delete"}
    for name in shelf.names(VOLUMES):
        del shelf.objects[VOLUMES, "", name]
    made(shelf)
    assert not {*volumes(shelf).values()} & {*before.values()}


@pytest.mark.parametrize("how", ["class", "moving"])
def test_data_of_another_class_is_not_passed_by(shelf: SimulatedCluster, how: str) -> None:
    deleted(shelf)
    if how == "moving":
        for volume in [*shelf.list(VOLUMES)]:
            shelf.patch(VOLUMES, volume, {"metadata": {"annotations": {MOVING_TO: "other"}}})
    with pytest.raises(SwarmError, match="is of class") as refused:
        made(shelf, asked(class_name="other") if how == "class" else asked())
    assert refused.value.kind == "key-reused"
    assert shelf.names(CLAIMS) == []


def test_a_member_that_runs_is_not_restored(shelf: SimulatedCluster) -> None:
    """Torn apart by an older version: each has a new home beside the one that was kept."""
    lost: list[Document] = []
    for number, name in enumerate(NAMES):
        kept = shelf.find(VOLUMES, shelf.volume(NAMESPACE, f"home-{name}")) or {}
        kept["metadata"] |= {"name": f"pvc-lost-{number}", "uid": f"lost-{number}"}
        kept["status"] = {"phase": "Released", "lastPhaseTransitionTime": "2026-11-01T00:00:00Z"}
        lost.append(kept)
        shelf.put(VOLUMES, kept)
    assert passes(shelf, timedelta(hours=1))["slots"] == {"workspace-off-its-home": 3}
    assert (shelf.names(CLAIMS), shelf.names(SANDBOXES)) == (NAMES, NAMES)


def test_a_member_whose_earlier_claim_is_on_its_way_out_is_waited_for(shelf: SimulatedCluster) -> None:
    before = volumes(shelf)
    claim = shelf.objects[CLAIMS, NAMESPACE, "t-1-1"]
    volume = shelf.find(VOLUMES, before["t-1-1"]) or {}
    assert shelf.patch(VOLUMES, volume, {"metadata": {"annotations": {DELETED_AT: "2026-11-18T11:00:00Z"}}})
    claim["metadata"]["deletionTimestamp"] = "2026-11-18T11:00:00Z"
    pause, waits = shelf.pause, [3]

    def passing(seconds: float) -> None:
        waits[0] -= 1
        if waits[0] == 0:
            going = shelf.find(CLAIMS, "t-1-1", NAMESPACE) or {}
            assert shelf.delete(CLAIMS, going)
        pause(seconds)

    found = run(create_swarm, shelf, asked(), timeout=9, pause=passing, clock=lambda: shelf.waited, now=lambda: START)
    assert list(found) == NAMES
    assert volumes(shelf) == before


def test_the_ledger_has_what_was_shared_by_its_own_name(shelf: SimulatedCluster) -> None:
    """Ends of rows are found by owner and workspace: what two tasks shared is not one and the same."""
    deleted(shelf)
    held = run(holdings, ListedObjects([], [], [], [], shelf.list(VOLUMES)))
    assert {(one.owner, one.workspace, one.task) for one in held} == {
        ("u-1", name, "t-1") for name in (*NAMES, "shared-t-1")
    }


def test_what_is_on_its_way_out_with_its_data_is_not_dated_anew(shelf: SimulatedCluster) -> None:
    """Its pods use it for a while; somebody who asks for the deletion once more meanwhile wants it kept."""
    shared = volumes(shelf)["shared"]
    claim = shelf.find(VOLUME_CLAIMS, "shared-t-1", NAMESPACE) or {}
    deleted(shelf, timedelta(0))
    claim["metadata"]["deletionTimestamp"] = "2026-11-18T12:00:00Z"
    shelf.put(VOLUME_CLAIMS, claim)
    deleted(shelf)
    assert DESTROY_REQUESTED in shelf.objects[VOLUMES, "", shared]["metadata"]["labels"]
