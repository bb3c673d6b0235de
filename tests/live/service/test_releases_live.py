"""Releases of a class are replaced and retired, with the real API server, controllers, volumes and claims."""

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
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT, becomes_ready, is_ready
from tests.live.service.blocking import run
from tests.live.service.conftest import EXTENSIONS, IMAGES, LiveClass

Object = dict[str, Any]
SANDBOXES = "/apis/agents.x-k8s.io/v1beta1"


def later() -> datetime:
    """Return a time at which pending claims have settled, so that no test waits for a minute."""
    return now() + SETTLED + timedelta(seconds=1)


def take(live_class: LiveClass, pool: str, name: str) -> str:
    """Claim a sandbox as the service does, and return its name."""
    live_class.client.create(claims.claim(live_class.name, pool, name, owner="u-1", workspace=name))
    path = f"{EXTENSIONS}/namespaces/{live_class.namespace}/sandboxclaims/{name}"
    assert becomes_ready(live_class.client, path), live_class.client.get(path)
    return live_class.get("sandboxclaims", name)["status"]["sandbox"]["name"]


def result_of(passed: list[RetirementResult], live_class: LiveClass) -> RetirementResult:
    (found,) = [found for found in passed if found.namespace == live_class.namespace]
    return found


def done(passed: list[RetirementResult], live_class: LiveClass) -> list[str]:
    return [step.do for step in result_of(passed, live_class).done]


def steps_of_passes(live_class: LiveClass, clock: Callable[[], datetime]) -> list[str]:
    """Return the steps of passes, repeated as in the loop while a controller's writes conflict."""
    steps: list[str] = []
    for _ in range(20):
        passed = result_of(run(retire_releases, live_class.cluster, act=True, clock=clock), live_class)
        steps += [step.do for step in passed.done]
        if not passed.overtaken:
            return sorted(steps)
    raise AssertionError(steps)


def points(live: LiveCluster, file_system: str) -> set[str]:
    found = live.aws("efs").describe_access_points(FileSystemId=file_system)["AccessPoints"]
    return {row["AccessPointId"] for row in found}


def point(volume: Object) -> str:
    return volume["spec"]["csi"]["volumeHandle"].partition("::")[2]


def slots(live_class: LiveClass) -> dict[str, str]:
    """Return the access points of unclaimed sandboxes, by sandbox."""
    found = [row["metadata"] for row in live_class.all("sandboxes", SANDBOXES)]
    free = [about["name"] for about in found if about["ownerReferences"][0]["kind"] != "SandboxClaim"]
    return {name: point(live_class.home(name)) for name in free}


def test_new_release_replaces_unclaimed_sandboxes_only(live_class: LiveClass, live: LiveCluster) -> None:
    old = live_class.deploy_until_full()
    assert done(run(retire_releases, live_class.cluster, act=True, clock=later), live_class) == []
    mine = take(live_class, old, "mine")
    pod, home = live_class.get("pods", mine, "/api/v1"), retained_home(live_class, mine)
    assert until(lambda: live_class.is_full(old), TIMEOUT)

    new = live_class.deploy(IMAGES[1])
    assert until(lambda: live_class.is_full(new) and live_class.is_full(old), TIMEOUT)
    # The old pool stays full until the new one is.
    assert new != old
    unclaimed_points = {at for name, at in slots(live_class).items() if name.startswith(f"{old}-")}
    assert len(unclaimed_points) == live_class.size
    mark_concurrently(live_class, live, old, new)
    assert steps_of_passes(live_class, later) == ["empty", "remove-pool"]
    # Access points of unclaimed sandboxes are deleted with them; the claimed one keeps its own.
    assert until(lambda: not unclaimed_points & points(live, live_class.file_system), TIMEOUT)
    assert not [name for name in slots(live_class) if name.startswith(f"{old}-")]
    assert point(home) in points(live, live_class.file_system)

    # A claimed sandbox is not touched, and its release stays as long as it is claimed.
    assert done(run(retire_releases, live_class.cluster, act=True, clock=later), live_class) == []
    assert live_class.get("pods", mine, "/api/v1")["metadata"]["uid"] == pod["metadata"]["uid"]
    claimed = f"{EXTENSIONS}/namespaces/{live_class.namespace}/sandboxclaims/mine"
    assert is_ready(live_class.client, claimed)
    check_resumes_in_own_release(live_class, mine, home)

    check_volume_outlives_claim(live_class, mine, home, new)
    assert steps_of_passes(live_class, later) == ["remove-pool"]
    assert steps_of_passes(live_class, later) == ["remove-template"]
    assert live_class.pool(old) is None
    assert [row["metadata"]["name"] for row in live_class.all("sandboxtemplates")] == [new]
    assert result_of(run(retire_releases, live_class.cluster, act=False), live_class).plan.steps == ()
    assert point(home) in points(live, live_class.file_system)
    live_class.client.delete(f"/api/v1/persistentvolumes/{home['metadata']['name']}")


def retained_home(live_class: LiveClass, sandbox: str) -> Object:
    """Retain the home of a claimed sandbox, and return its volume."""
    assert live_class.home(sandbox)["spec"]["persistentVolumeReclaimPolicy"] == "Delete"

    def is_retained() -> bool:
        # The controller may still write to a ready claim.
        return [
            result.outcome
            for result in run(retain_all_volumes, live_class.cluster)
            if result.namespace == live_class.namespace
        ] == ["kept"]

    assert until(is_retained, TIMEOUT)
    home = live_class.home(sandbox)
    assert home["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert home["metadata"]["labels"]["sandbox.users.io/user"] == "u-1"
    return home


def mark_concurrently(live_class: LiveClass, live: LiveCluster, old: str, new: str) -> None:
    """Run two passes at once, and one by the command."""
    with ThreadPoolExecutor(2) as executor:
        together = [executor.submit(run, retire_releases, live_class.cluster, act=True) for _ in range(2)]
        steps = {step for passed in together for step in done(passed.result(), live_class)}
    assert steps == {"mark"}
    report = command(live, "--json")
    (row_of_class,) = [row for row in report["classes"] if row["namespace"] == live_class.namespace]
    assert row_of_class["current"] == {"stable": [new]}
    assert {row["name"] for row in row_of_class["waits"]} == {old, cold_pool(old)}


def check_resumes_in_own_release(live_class: LiveClass, sandbox: str, home: Object) -> None:
    """Suspend and resume the sandbox: it has its image and its volume."""
    where = f"{SANDBOXES}/namespaces/{live_class.namespace}/sandboxes/{sandbox}"
    pods = f"/api/v1/namespaces/{live_class.namespace}/pods/{sandbox}"
    set_operating_mode(live_class, where, "Suspended")
    assert until(lambda: live_class.client.find(pods) is None, TIMEOUT)
    assert done(run(retire_releases, live_class.cluster, act=True, clock=later), live_class) == []
    set_operating_mode(live_class, where, "Running")
    assert until(lambda: live_class.client.find(pods), TIMEOUT)
    assert becomes_ready(live_class.client, where)
    assert live_class.client.get(pods)["spec"]["containers"][0]["image"] == IMAGES[0]
    assert live_class.home(sandbox)["metadata"]["name"] == home["metadata"]["name"]


def set_operating_mode(live_class: LiveClass, where: str, mode: str) -> None:
    live_class.client.request("PATCH", where, {"spec": {"operatingMode": mode}}, content="application/merge-patch+json")


def check_volume_outlives_claim(live_class: LiveClass, mine: str, home: Object, pool: str) -> None:
    """Delete the claim: the sandbox is deleted, the volume stays, and no other claim gets either."""
    live_class.client.delete(f"{EXTENSIONS}/namespaces/{live_class.namespace}/sandboxclaims/mine")
    assert until(
        lambda: live_class.client.find(f"{SANDBOXES}/namespaces/{live_class.namespace}/sandboxes/{mine}") is None,
        TIMEOUT,
    )
    path = f"/api/v1/persistentvolumes/{home['metadata']['name']}"
    assert until(lambda: live_class.client.get(path)["status"]["phase"] == "Released", TIMEOUT)
    theirs = take(live_class, pool, "theirs")
    assert theirs != mine
    assert point(live_class.home(theirs)) != point(home)
    assert live_class.client.get(path)["status"]["phase"] == "Released"


def test_redeployed_release_is_no_longer_retired(live_class: LiveClass) -> None:
    old = live_class.deploy_until_full()
    mine = take(live_class, old, "mine")
    uid = live_class.get("pods", mine, "/api/v1")["metadata"]["uid"]
    new = live_class.deploy(IMAGES[1])
    assert until(lambda: live_class.is_full(new) and live_class.is_full(old), TIMEOUT)
    assert steps_of_passes(live_class, now) == ["mark", "mark"]  # its pool, and the pool for restored workspaces
    assert steps_of_passes(live_class, later) == ["empty", "remove-pool"]
    assert live_class.deploy(IMAGES[0]) == old
    assert until(lambda: live_class.is_full(old), TIMEOUT)
    assert steps_of_passes(live_class, later) == ["mark", "mark", "unmark"]
    assert done(run(retire_releases, live_class.cluster, act=True, clock=later), live_class) == []
    assert "sandbox.users.io/retiring" not in (live_class.pool(old) or {})["metadata"].get("annotations", {})
    assert steps_of_passes(live_class, lambda: later() + SETTLED) == ["empty", "remove-pool"]
    # The first claim still has its sandbox, and no other claim gets it.
    assert live_class.get("pods", mine, "/api/v1")["metadata"]["uid"] == uid
    assert take(live_class, old, "theirs") != mine


def command(live: LiveCluster, *arguments: str) -> dict[str, Any]:
    """Run `agentenv releases`, and return its report."""
    process = subprocess.run(
        [sys.executable, "-m", "agentenv", "releases", "--kubeconfig", str(live.plane.kubeconfig()), *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(process.stdout.splitlines()[-1])
