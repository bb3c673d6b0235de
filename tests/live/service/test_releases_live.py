"""A class through a new release: the real API server and controllers, real volumes, and people who have sandboxes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

from agentenv.core.classes.names import cold_pool
from agentenv.core.classes.retirement import SETTLED
from agentenv.core.workspaces import claims
from agentenv.rehearsal.controlplane.client import until
from agentenv.service.workspaces.retain_volume import retain_all_volumes
from agentenv.service.workspaces.retire_releases import RetirementResult, now, retire_releases
from tests.live.conftest import World
from tests.live.controlplane.things import PATIENCE, becomes_ready, is_ready
from tests.live.service.blocking import run
from tests.live.service.conftest import EXTENSIONS, IMAGES, Box

Object = dict[str, Any]
SANDBOXES = "/apis/agents.x-k8s.io/v1beta1"


def later() -> datetime:
    """When everybody has been served who was on the way: nobody waits a minute for it here."""
    return now() + SETTLED + timedelta(seconds=1)


def take(box: Box, pool: str, name: str) -> str:
    """Claim a sandbox as the service does; the sandbox's name."""
    box.client.create(claims.claim(box.name, pool, name, owner="u-1", workspace=name))
    path = f"{EXTENSIONS}/namespaces/{box.space}/sandboxclaims/{name}"
    assert becomes_ready(box.client, path), box.client.get(path)
    return box.get("sandboxclaims", name)["status"]["sandbox"]["name"]


def result_of(passed: list[RetirementResult], box: Box) -> RetirementResult:
    (found,) = [found for found in passed if found.namespace == box.space]
    return found


def done(passed: list[RetirementResult], box: Box) -> list[str]:
    return [step.do for step in result_of(passed, box).done]


def acts(box: Box, clock: Callable[[], datetime]) -> list[str]:
    """The steps of a pass; what a controller overtook is the next one's, as it is in the loop."""
    steps: list[str] = []
    for _ in range(20):
        passed = result_of(run(retire_releases, box.cluster, act=True, clock=clock), box)
        steps += [step.do for step in passed.done]
        if not passed.overtaken:
            return sorted(steps)
    raise AssertionError(steps)


def volume(box: Box, sandbox: str) -> Object:
    claim = box.get("persistentvolumeclaims", f"home-{sandbox}", "/api/v1")
    return box.client.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")


def points(world: World, system: str) -> set[str]:
    found = world.aws("efs").describe_access_points(FileSystemId=system)["AccessPoints"]
    return {row["AccessPointId"] for row in found}


def point(volume: Object) -> str:
    return volume["spec"]["csi"]["volumeHandle"].partition("::")[2]


def slots(box: Box) -> dict[str, str]:
    """The access points of sandboxes in pools, by sandbox."""
    found = [row["metadata"] for row in box.all("sandboxes", SANDBOXES)]
    free = [about["name"] for about in found if about["ownerReferences"][0]["kind"] != "SandboxClaim"]
    return {name: point(volume(box, name)) for name in free}


def test_a_class_through_a_new_release(box: Box, world: World) -> None:
    old = box.deploy(IMAGES[0])
    assert until(lambda: box.full(old), PATIENCE), box.pool(old)
    assert done(run(retire_releases, box.cluster, act=True, clock=later), box) == []
    mine = take(box, old, "mine")
    pod, home = box.get("pods", mine, "/api/v1"), retained_home(box, mine)
    assert until(lambda: box.full(old), PATIENCE)

    new = box.deploy(IMAGES[1])
    assert until(lambda: box.full(new) and box.full(old), PATIENCE)
    # The old one is full when the new one is.
    assert new != old
    gone = {at for name, at in slots(box).items() if name.startswith(f"{old}-")}
    assert len(gone) == box.size
    mark_concurrently(box, world, old, new)
    assert acts(box, later) == ["empty", "remove-pool"]
    # The slots that nobody had take their access points along; the claimed one keeps its own.
    assert until(lambda: not gone & points(world, box.system), PATIENCE)
    assert not [name for name in slots(box) if name.startswith(f"{old}-")]
    assert point(home) in points(world, box.system)

    # Nobody who has a sandbox notices, and its release stays for as long as it is claimed.
    assert done(run(retire_releases, box.cluster, act=True, clock=later), box) == []
    assert box.get("pods", mine, "/api/v1")["metadata"]["uid"] == pod["metadata"]["uid"]
    claimed = f"{EXTENSIONS}/namespaces/{box.space}/sandboxclaims/mine"
    assert is_ready(box.client, claimed)
    wakes_from_its_own_release(box, mine, home)

    volume_of_a_deleted_claim_stays(box, mine, home, new)
    assert acts(box, later) == ["remove-pool"]
    assert acts(box, later) == ["remove-template"]
    assert box.pool(old) is None
    assert [row["metadata"]["name"] for row in box.all("sandboxtemplates")] == [new]
    assert result_of(run(retire_releases, box.cluster, act=False), box).plan.steps == ()
    assert point(home) in points(world, box.system)
    box.client.delete(f"/api/v1/persistentvolumes/{home['metadata']['name']}")


def retained_home(box: Box, sandbox: str) -> Object:
    """The volume of a claimed slot, which is kept only from here on."""
    assert volume(box, sandbox)["spec"]["persistentVolumeReclaimPolicy"] == "Delete"

    def is_retained() -> bool:
        # Its controller writes to a claim that has just become ready.
        return [result.outcome for result in run(retain_all_volumes, box.cluster) if result.namespace == box.space] == [
            "kept"
        ]

    assert until(is_retained, PATIENCE)
    home = volume(box, sandbox)
    assert home["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert home["metadata"]["labels"]["sandbox.users.io/user"] == "u-1"
    return home


def mark_concurrently(box: Box, world: World, old: str, new: str) -> None:
    """Two passes at once, by people who know nothing of each other, and one by the command."""
    with ThreadPoolExecutor(2) as hands:
        together = [hands.submit(run, retire_releases, box.cluster, act=True) for _ in range(2)]
        steps = {step for passed in together for step in done(passed.result(), box)}
    assert steps == {"mark"}
    report = command(world, "--json")
    (row_of_class,) = [row for row in report["classes"] if row["namespace"] == box.space]
    assert row_of_class["current"] == {"stable": [new]}
    assert {row["name"] for row in row_of_class["waits"]} == {old, cold_pool(old)}


def wakes_from_its_own_release(box: Box, sandbox: str, home: Object) -> None:
    """It sleeps, and wakes as it was, with its volume."""
    where = f"{SANDBOXES}/namespaces/{box.space}/sandboxes/{sandbox}"
    pods = f"/api/v1/namespaces/{box.space}/pods/{sandbox}"
    turn(box, where, "Suspended")
    assert until(lambda: box.client.find(pods) is None, PATIENCE)
    assert done(run(retire_releases, box.cluster, act=True, clock=later), box) == []
    turn(box, where, "Running")
    assert until(lambda: box.client.find(pods), PATIENCE)
    assert becomes_ready(box.client, where)
    assert box.client.get(pods)["spec"]["containers"][0]["image"] == IMAGES[0]
    assert volume(box, sandbox)["metadata"]["name"] == home["metadata"]["name"]


def turn(box: Box, where: str, mode: str) -> None:
    box.client.request("PATCH", where, {"spec": {"operatingMode": mode}}, content="application/merge-patch+json")


def volume_of_a_deleted_claim_stays(box: Box, mine: str, home: Object, pool: str) -> None:
    """The sandbox goes with its claim; the volume stays, and nobody is given either."""
    box.client.delete(f"{EXTENSIONS}/namespaces/{box.space}/sandboxclaims/mine")
    assert until(lambda: box.client.find(f"{SANDBOXES}/namespaces/{box.space}/sandboxes/{mine}") is None, PATIENCE)
    path = f"/api/v1/persistentvolumes/{home['metadata']['name']}"
    assert until(lambda: box.client.get(path)["status"]["phase"] == "Released", PATIENCE)
    theirs = take(box, pool, "theirs")
    assert theirs != mine
    assert point(volume(box, theirs)) != point(home)
    assert box.client.get(path)["status"]["phase"] == "Released"


def test_a_release_that_comes_back_is_used_again(box: Box) -> None:
    old = box.deploy(IMAGES[0])
    assert until(lambda: box.full(old), PATIENCE)
    mine = take(box, old, "mine")
    uid = box.get("pods", mine, "/api/v1")["metadata"]["uid"]
    new = box.deploy(IMAGES[1])
    assert until(lambda: box.full(new) and box.full(old), PATIENCE)
    assert acts(box, now) == ["mark", "mark"]  # its pool, and the one for who comes back
    assert acts(box, later) == ["empty", "remove-pool"]
    assert box.deploy(IMAGES[0]) == old
    assert until(lambda: box.full(old), PATIENCE)
    assert acts(box, later) == ["mark", "mark", "unmark"]
    assert done(run(retire_releases, box.cluster, act=True, clock=later), box) == []
    assert "sandbox.users.io/retiring" not in (box.pool(old) or {})["metadata"].get("annotations", {})
    assert acts(box, lambda: later() + SETTLED) == ["empty", "remove-pool"]
    # Whoever had one of the first members has it still, and nobody else does.
    assert box.get("pods", mine, "/api/v1")["metadata"]["uid"] == uid
    assert take(box, old, "theirs") != mine


def command(world: World, *arguments: str) -> dict[str, Any]:
    """The command as a person runs it."""
    process = subprocess.run(
        [sys.executable, "-m", "agentenv", "releases", "--kubeconfig", str(world.plane.kubeconfig()), *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(process.stdout.splitlines()[-1])
