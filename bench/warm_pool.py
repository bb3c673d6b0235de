"""The warm pool of the stack's first class: filled before each turn of a benchmark, and claimed from at a fixed rate.

The whole cluster runs on this machine, so two other things would affect the times: the refill of the pool, and the
garbage collection of the API server. The pool therefore refills only after a turn (`replenishDelay`, for such bursts),
and garbage is collected between turns. All sides of a comparison are timed in this way.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from agentenv.cli.main import CommandError
from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.workspaces.claims import claim
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.scenario import pool_probe
from agentenv.rehearsal.scenario.service_probe import Service
from bench.ready_watch import ReadyWatch
from bench.timing import figures, load, ratios

Object = dict[str, Any]
T = TypeVar("T")
Turn = Callable[[float, int], list[float]]  # creates at a rate, so many; returns their milliseconds

# Fewer in a turn than the pool has, so that all are warm.
PER_TURN = {2: 10, 10: 30}
_TIMEOUT_SECONDS = 300.0
# The homes of a whole turn are deleted before the next ones are provisioned, one at a time.
_STALLED_SECONDS = 120.0
_ENDING = 8  # at once


def stacks_pool(client: Client) -> Object:
    """Return the first pool of the stack's first class, whose sandboxes have storage."""
    pools = client.get(f"/apis/{pool_probe.EXTENSIONS}/sandboxwarmpools")["items"]
    found = [pool for pool in pools if pool["spec"].get("replicas") and CLASS_LABEL in pool["metadata"]["labels"]]
    if not found:
        raise CommandError("the stack has no pool of a class")
    return found[0]


class WarmPool:
    """A pool of a size, and the claims of its class."""

    def __init__(self, client: Client, size: int) -> None:
        """Fill the pool. What exists then is there between turns."""
        pool = stacks_pool(client)
        self.namespace: str = pool["metadata"]["namespace"]
        self.class_name: str = pool["metadata"]["labels"][CLASS_LABEL]
        self._client, self._pool = client, {**pool, "spec": {**pool["spec"], "replicas": size}}
        self._claims = f"/apis/{pool_probe.EXTENSIONS}/namespaces/{self.namespace}/sandboxclaims"
        self._ready = ReadyWatch(client, self._claims)
        self._deletes: list[Callable[[], object]] = []  # of what the turn created
        self.fill()
        self._between = self._counts()

    def fill(self) -> None:
        """Give the pool its size, and wait for its sandboxes."""
        self._client.merge(self._client.path(self._pool), {"spec": {"replicas": self._pool["spec"]["replicas"]}})
        pool_probe.wait_until_full(self._client, self._pool, _STALLED_SECONDS)

    def rest(self) -> None:
        """Delete what the last turn created, so that no cleanup affects the next, and fill the pool."""
        each(lambda delete: delete(), self._deletes)
        self._deletes.clear()
        self.fill()
        if not until(lambda: self._counts() == self._between, _TIMEOUT_SECONDS):
            found = f"{self._counts()} claims, pods and volumes exist after {_TIMEOUT_SECONDS:.0f} s"
            raise CommandError(f"{found}, not {self._between}")
        self._client.get("/debug/pprof/heap", gc="1")

    def claims(self, rate: float, count: int) -> list[float]:
        """Return the milliseconds of raw claims from their creation to Ready."""

        def run(_: int) -> float:
            name = f"raw-{secrets.token_hex(4)}"
            document = claim(self.class_name, self._pool["metadata"]["name"], name, owner="bench", workspace=name)
            self._deletes.append(lambda: self._client.delete(self._client.path(document)))
            began = time.monotonic()
            self._client.create(document)
            return self._ready.ready(name) - began

        # Each thread has its own connection, whose creation is not part of a claim.
        return paced(rate, count, run, lambda: self._client.get("/version"))

    def creates(self, callers: Sequence[Service], rate: float, count: int) -> list[float]:
        """Return the milliseconds of creates by the service, each for another caller than the last."""
        # The service has authenticated each caller before, as the API server has for the claims.
        for caller in callers:
            caller.request("GET", "/v1/workspaces?limit=1")

        def run(number: int) -> float:
            began = time.monotonic()
            self.create(callers[number % len(callers)])
            return time.monotonic() - began

        return paced(rate, count, run)

    def compare(self, create: Turn, rate: float, count: int, turns: int, side: str = "service") -> dict[str, Any]:
        """Return the figures of raw claims and of creates, in turns, and by how much creates take longer."""
        raw, created = list[float](), list[float]()
        for _ in range(turns):
            self.rest()
            raw += self.claims(rate, count)
            self.rest()
            created += create(rate, count)
        return {**compared(raw, created, side), "load": load()}

    def create(self, service: Service) -> str:
        """Create a workspace of the pool's class by the service, which ends with the turn; return its id."""
        body = {"class": self.class_name, "key": secrets.token_hex(6)}
        found = service.request("POST", "/v1/workspaces?wait=60", body)
        if found["state"] != "running":
            raise CommandError(f"a workspace is {found['state']}: {found.get('why')}")
        self._deletes.append(lambda: service.request("DELETE", f"/v1/workspaces/{found['id']}"))
        return found["id"]

    def claim(self, name: str) -> Object:
        """Return a claim of the class."""
        return self._client.get(f"{self._claims}/{name}")

    def close(self) -> None:
        """Stop watching the claims."""
        self._ready.end()

    def _counts(self) -> tuple[int, ...]:
        """Return the number of claims and pods in the pool's class, and of volumes to delete."""
        claims = self._client.get(self._claims)["items"]
        pods = self._client.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        volumes = self._client.get("/api/v1/persistentvolumes")["items"]
        return len(claims), len(pods), sum(_is_deleting(volume) for volume in volumes)


def compared(raw: Sequence[float], created: Sequence[float], side: str) -> dict[str, Any]:
    """Return the figures of raw claims and of creates, and their ratio."""
    claim_, own = figures(raw), figures(created)
    added = round(own["p50_ms"] - claim_["p50_ms"], 1)
    return {"raw": claim_, side: own, "added_ms": added, "ratio": ratios(own, claim_), "count": len(created)}


def paced(
    rate: float, count: int, work: Callable[[int], float], prepare: Callable[[], object] = lambda: None
) -> list[float]:
    """Start work at a fixed rate, and return the milliseconds of each. Each thread calls `prepare` first."""
    with ThreadPoolExecutor(min(count, 64), initializer=prepare) as executor:
        began = time.monotonic()
        futures = []
        for number in range(count):
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
            futures.append(executor.submit(work, number))
        return [future.result() * 1000 for future in futures]


def each(end: Callable[[T], object], items: Iterable[T]) -> None:
    """Call a function with each item, several at once; the iteration raises the error of a failed call."""
    with ThreadPoolExecutor(_ENDING) as executor:
        for _ in executor.map(end, items):
            pass


def _is_deleting(volume: Object) -> bool:
    """Return whether the driver still has to delete a volume."""
    return volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete" and volume["status"]["phase"] != "Bound"
