"""Claims against a warm pool of ten, beside bare pods on the same nodes.

A claim that finds a warm sandbox should cost the API server's and the controller's words and nothing else; a bare pod
costs the scheduler's. Both are timed from the request to the moment that a watch tells of Ready, one at a time, and a
claim is made only while its pool is full. `slots` are claims whose sandboxes have storage of their own.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentenv.cli import Refusal
from bench.timing import percentile
from rehearsal import probe
from rehearsal.cluster_side import Serving
from rehearsal.controlplane.client import Client, until
from rehearsal.stage import stage
from rehearsal.tools.progress import telling

POOL = 10
PER_REPEAT = 30
_PATIENCE_SECONDS = 60.0

Object = dict[str, Any]


def measure(repeat: int) -> dict[str, Any]:
    """Bring the local stack up, and claim from a pool on its nodes."""
    root = Path(__file__).resolve().parent.parent
    count = repeat * PER_REPEAT
    with stage(telling(), cluster=Serving()) as opened:
        opened.project(root, "local").up()
        if opened.cluster is None:
            raise Refusal("there is no cluster on this stage")
        client = opened.cluster.plane.client
        with probe.pool_of_our_own(client, POOL) as pool:
            began = time.monotonic()
            claims = claimed(client, pool, count)
            rate = count / (time.monotonic() - began)
            pods = podded(client, pool, count)
    raw, bare = _figures(claims), _figures(pods)
    return {
        "raw": raw,
        "pod": bare,
        "ratio": round(raw["p50_ms"] / bare["p50_ms"], 2),
        "slots": None,  # storage of one's own comes with the sandbox classes
        "rate": round(rate, 2),
        "count": count,
    }


def claimed(client: Client, pool: Object, count: int) -> list[float]:
    """Milliseconds to Ready of so many claims, each against the full pool."""
    spec = {"warmPoolRef": {"name": pool["metadata"]["name"]}}
    claim = {"apiVersion": probe.EXTENSIONS, "kind": "SandboxClaim", "spec": spec}
    return _timed(client, claim, pool["metadata"]["namespace"], count, before=lambda: _full(client, client.path(pool)))


def podded(client: Client, pool: Object, count: int) -> list[float]:
    """Milliseconds to Ready of so many bare pods, as those of the pool are."""
    space = pool["metadata"]["namespace"]
    template = client.get(f"/apis/{probe.EXTENSIONS}/namespaces/{space}/sandboxtemplates")["items"][0]
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]["podTemplate"]["spec"]}
    return _timed(client, pod, space, count, before=lambda: None)


def _timed(client: Client, thing: Object, space: str, count: int, before: Callable[[], None]) -> list[float]:
    times: list[float] = []
    here = {**thing, "metadata": {"name": "any", "namespace": space}}
    watched = Watched(client, client.path(here, named=False))
    for _ in range(count):
        before()
        one = {**here, "metadata": {"name": f"bench-{secrets.token_hex(4)}", "namespace": space}}
        path = client.path(one)
        began = time.monotonic()
        client.create(one)
        times.append((watched.ready(one["metadata"]["name"]) - began) * 1000)
        client.delete(path)
        if not until(lambda path=path: client.find(path) is None, _PATIENCE_SECONDS):
            raise Refusal(f"{path} did not go again")
    return times


class Watched:
    """When things of one kind and namespace became Ready, as a watch told of it."""

    def __init__(self, client: Client, path: str) -> None:
        self._path = path
        self._told: dict[str, float] = {}
        self._news = threading.Condition()
        threading.Thread(target=self._follow, args=(client,), daemon=True).start()

    def ready(self, name: str) -> float:
        """Wait for that one, and say when it was."""
        with self._news:
            if not self._news.wait_for(lambda: name in self._told, _PATIENCE_SECONDS):
                raise Refusal(f"{self._path}/{name} did not become Ready within {_PATIENCE_SECONDS:.0f} s")
            return self._told[name]

    def _follow(self, client: Client) -> None:
        for _, thing in client.watch(self._path):
            if probe.is_ready(thing):
                with self._news:
                    self._told.setdefault(thing["metadata"]["name"], time.monotonic())
                    self._news.notify_all()


def _full(client: Client, path: str) -> None:
    def ready() -> int:
        return (client.get(path).get("status") or {}).get("readyReplicas", 0)

    if not until(lambda: ready() == POOL, _PATIENCE_SECONDS):
        raise Refusal(f"{path} did not fill up again")


def _figures(times: list[float]) -> dict[str, float]:
    return {"p50_ms": round(percentile(times, 50), 1), "p99_ms": round(percentile(times, 99), 1)}
