"""Time claims of warm sandboxes, without and with storage, compared with bare pods.

A claim of a warm sandbox should take only the calls of the API server and the controller, with or without an access
point. A bare pod also takes the scheduler. Each is timed from the request to the watch event with Ready, one at a time,
and a claim is created only while its pool is full.
"""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import HOME
from agentenv.core.workspaces.claims import claim
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.scenario import pool_probe
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.stage import stage
from agentenv.rehearsal.tools.progress import terminal_progress
from bench.ready_watch import ReadyWatch
from bench.timing import figures
from bench.warm_pool import stacks_pool

POOL = 10
PER_REPEAT = 30
_TIMEOUT_SECONDS = 60.0

Object = dict[str, Any]


def measure(repeat: int) -> dict[str, Any]:
    """Create the local stack, and time claims from a temporary pool and from the stack's own pool."""
    root = Path(__file__).resolve().parent.parent
    count = repeat * PER_REPEAT
    with stage(terminal_progress(), cluster=ClusterOptions()) as opened:
        opened.project(root, "local").up()
        if opened.cluster is None:
            raise CommandError("there is no cluster on this stage")
        client = opened.cluster.plane.client
        slots, slot_rate = time_slot_claims(client, stacks_pool(client), count)
        with pool_probe.temporary_pool(client, POOL) as pool:
            began = time.monotonic()
            claims = time_claims(client, pool, count)
            rate = count / (time.monotonic() - began)
            pods = time_pods(client, pool, count)
    raw, bare = figures(claims), figures(pods)
    return {
        "raw": raw,
        "slots": figures(slots),
        "pod": bare,
        "ratio": round(raw["p50_ms"] / bare["p50_ms"], 2),
        "rate": round(rate, 2),
        "slots_rate": round(slot_rate, 2),
        "count": count,
    }


def time_claims(client: Client, pool: Object, count: int) -> list[float]:
    """Return the milliseconds to Ready of each claim, with a full pool."""
    spec = {"warmPoolRef": {"name": pool["metadata"]["name"]}}
    namespace = pool["metadata"]["namespace"]
    manifest = {"apiVersion": pool_probe.EXTENSIONS, "kind": "SandboxClaim", "spec": spec}
    return _time_each(
        client,
        lambda name: _named(manifest, namespace, name),
        count,
        before=functools.partial(pool_probe.wait_until_full, client, pool),
    )


def time_slot_claims(client: Client, pool: Object, count: int) -> tuple[list[float], float]:
    """Return the milliseconds to Ready of each claim of a slot with its own storage, and the claims per second."""
    class_name = pool["metadata"]["labels"][CLASS_LABEL]
    handles: list[str] = []

    def make(name: str) -> Object:
        return claim(class_name, pool["metadata"]["name"], name, owner="u-bench", workspace=name)

    began = time.monotonic()
    times = _time_each(
        client,
        make,
        count,
        before=functools.partial(pool_probe.wait_until_full, client, pool),
        after=lambda manifest: handles.append(_volume_handle(client, manifest)),
    )
    if len(set(handles)) != count:
        raise CommandError(f"{count} claims had {len(set(handles))} access points")
    return times, count / (time.monotonic() - began)


def time_pods(client: Client, pool: Object, count: int) -> list[float]:
    """Return the milliseconds to Ready of bare pods with the pod template of the pool."""
    namespace = pool["metadata"]["namespace"]
    template = client.get(f"/apis/{pool_probe.EXTENSIONS}/namespaces/{namespace}/sandboxtemplates")["items"][0]
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]["podTemplate"]["spec"]}
    return _time_each(client, lambda name: _named(pod, namespace, name), count)


def _named(manifest: Object, namespace: str, name: str) -> Object:
    return {**manifest, "metadata": {"name": name, "namespace": namespace}}


def _time_each(
    client: Client,
    make: Callable[[str], Object],
    count: int,
    before: Callable[[], object] = lambda: None,
    after: Callable[[Object], object] = lambda _: None,
) -> list[float]:
    times: list[float] = []
    ready_watch = ReadyWatch(client, client.path(make("any"), named=False))
    for _ in range(count):
        before()
        manifest = make(f"bench-{secrets.token_hex(4)}")
        path = client.path(manifest)
        began = time.monotonic()
        client.create(manifest)
        times.append((ready_watch.ready(manifest["metadata"]["name"]) - began) * 1000)
        after(manifest)
        client.delete(path)
        if not until(lambda path=path: client.find(path) is None, _TIMEOUT_SECONDS):
            raise CommandError(f"{path} was not deleted in time")
    return times


def _volume_handle(client: Client, claim_: Object) -> str:
    """Return the access point of a claim's sandbox. The sandbox must be warm, and its storage bound."""
    namespace = claim_["metadata"]["namespace"]
    sandbox = client.get(client.path(claim_))["status"]["sandbox"]["name"]
    if sandbox == claim_["metadata"]["name"]:
        raise CommandError(f"{sandbox} was started cold although its pool was full")
    home = client.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{HOME}-{sandbox}")
    if home["status"]["phase"] != "Bound":
        raise CommandError(f"{sandbox} is Ready and its storage {home['status']['phase']}")
    volume = client.get(f"/api/v1/persistentvolumes/{home['spec']['volumeName']}")
    return volume["spec"]["csi"]["volumeHandle"]
