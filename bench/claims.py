"""Claims against warm pools: bare ones and the local stack's own, whose sandboxes have storage, beside bare pods.

A claim that finds a warm sandbox should cost the API server's and the controller's words and nothing else, whether the
sandbox was born with an access point of its own or without; a bare pod costs the scheduler's. All are timed from the
request to the moment that a watch tells of Ready, one at a time, and a claim is made only while its pool is full.
"""

from __future__ import annotations

import secrets
import threading
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
from bench.timing import percentile

POOL = 10
PER_REPEAT = 30
_PATIENCE_SECONDS = 60.0

Object = dict[str, Any]


def measure(repeat: int) -> dict[str, Any]:
    """Bring the local stack up, and claim from a pool on its nodes and from its own."""
    root = Path(__file__).resolve().parent.parent
    count = repeat * PER_REPEAT
    with stage(terminal_progress(), cluster=ClusterOptions()) as opened:
        opened.project(root, "local").up()
        if opened.cluster is None:
            raise CommandError("there is no cluster on this stage")
        client = opened.cluster.plane.client
        slots, slot_rate = slots_claimed(client, stacks_pool(client), count)
        with pool_probe.temporary_pool(client, POOL) as pool:
            began = time.monotonic()
            claims = claimed(client, pool, count)
            rate = count / (time.monotonic() - began)
            pods = podded(client, pool, count)
    raw, bare = _figures(claims), _figures(pods)
    return {
        "raw": raw,
        "slots": _figures(slots),
        "pod": bare,
        "ratio": round(raw["p50_ms"] / bare["p50_ms"], 2),
        "rate": round(rate, 2),
        "slots_rate": round(slot_rate, 2),
        "count": count,
    }


def stacks_pool(client: Client) -> Object:
    """The first pool of the stack's first class; its members have storage."""
    pools = client.get(f"/apis/{pool_probe.EXTENSIONS}/sandboxwarmpools")["items"]
    found = [pool for pool in pools if pool["spec"].get("replicas") and CLASS_LABEL in pool["metadata"]["labels"]]
    if not found:
        raise CommandError("the stack has no pool of a class")
    return found[0]


def claimed(client: Client, pool: Object, count: int) -> list[float]:
    """Milliseconds to Ready of so many claims, each against the full pool."""
    spec = {"warmPoolRef": {"name": pool["metadata"]["name"]}}
    space = pool["metadata"]["namespace"]
    about = {"apiVersion": pool_probe.EXTENSIONS, "kind": "SandboxClaim", "spec": spec}
    return _timed(client, lambda name: _named(about, space, name), count, before=lambda: _full(client, pool))


def slots_claimed(client: Client, pool: Object, count: int) -> tuple[list[float], float]:
    """Milliseconds to Ready of so many claims of slots, each with storage that no other had; and how many a second."""
    class_name = pool["metadata"]["labels"][CLASS_LABEL]
    handles: list[str] = []

    def make(name: str) -> Object:
        return claim(class_name, pool["metadata"]["name"], name, owner="u-bench", workspace=name)

    began = time.monotonic()
    times = _timed(
        client,
        make,
        count,
        before=lambda: _full(client, pool),
        after=lambda one: handles.append(_bound(client, one)),
    )
    if len(set(handles)) != count:
        raise CommandError(f"{count} claims had {len(set(handles))} access points")
    return times, count / (time.monotonic() - began)


def podded(client: Client, pool: Object, count: int) -> list[float]:
    """Milliseconds to Ready of so many bare pods, as those of the pool are."""
    space = pool["metadata"]["namespace"]
    template = client.get(f"/apis/{pool_probe.EXTENSIONS}/namespaces/{space}/sandboxtemplates")["items"][0]
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]["podTemplate"]["spec"]}
    return _timed(client, lambda name: _named(pod, space, name), count)


def _named(thing: Object, space: str, name: str) -> Object:
    return {**thing, "metadata": {"name": name, "namespace": space}}


def _timed(
    client: Client,
    make: Callable[[str], Object],
    count: int,
    before: Callable[[], None] = lambda: None,
    after: Callable[[Object], None] = lambda _: None,
) -> list[float]:
    times: list[float] = []
    watched = Watched(client, client.path(make("any"), named=False))
    for _ in range(count):
        before()
        one = make(f"bench-{secrets.token_hex(4)}")
        path = client.path(one)
        began = time.monotonic()
        client.create(one)
        times.append((watched.ready(one["metadata"]["name"]) - began) * 1000)
        after(one)
        client.delete(path)
        if not until(lambda path=path: client.find(path) is None, _PATIENCE_SECONDS):
            raise CommandError(f"{path} did not go again")
    return times


def _bound(client: Client, made: Object) -> str:
    """The access point of a claim's sandbox, which is bound; and it was taken from the pool, not started cold."""
    space = made["metadata"]["namespace"]
    sandbox = client.get(client.path(made))["status"]["sandbox"]["name"]
    if sandbox == made["metadata"]["name"]:
        raise CommandError(f"{sandbox} was started cold although its pool was full")
    home = client.get(f"/api/v1/namespaces/{space}/persistentvolumeclaims/{HOME}-{sandbox}")
    if home["status"]["phase"] != "Bound":
        raise CommandError(f"{sandbox} is Ready and its storage {home['status']['phase']}")
    volume = client.get(f"/api/v1/persistentvolumes/{home['spec']['volumeName']}")
    return volume["spec"]["csi"]["volumeHandle"]


class Watched:
    """When things of one kind and namespace became Ready, as a watch told of it."""

    def __init__(self, client: Client, path: str) -> None:
        self._path = path
        self._told: dict[str, float] = {}
        self._news = threading.Condition()
        self._ended = threading.Event()
        threading.Thread(target=self._follow, args=(client,), daemon=True).start()

    def ready(self, name: str) -> float:
        """Wait for that one, and say when it was."""
        with self._news:
            if not self._news.wait_for(lambda: name in self._told, _PATIENCE_SECONDS):
                raise CommandError(f"{self._path}/{name} did not become Ready within {_PATIENCE_SECONDS:.0f} s")
            return self._told[name]

    def end(self) -> None:
        """Be told no longer, from the next change on."""
        self._ended.set()

    def _follow(self, client: Client) -> None:
        for _, thing in client.watch(self._path, self._ended):
            if pool_probe.is_ready(thing):
                with self._news:
                    self._told.setdefault(thing["metadata"]["name"], time.monotonic())
                    self._news.notify_all()


def _full(client: Client, pool: Object) -> None:
    if not until(lambda: pool_probe.ready_members(client, pool) == pool["spec"]["replicas"], _PATIENCE_SECONDS):
        raise CommandError(f"{client.path(pool)} did not fill up again")


def _figures(times: list[float]) -> dict[str, float]:
    return {"p50_ms": round(percentile(times, 50), 1), "p99_ms": round(percentile(times, 99), 1)}
