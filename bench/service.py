"""Time a workspace from the service, compared with a raw claim; a burst of 50; and the service with 10,000 workspaces.

The local stack is created with larger pools. Claims and requests arrive at a fixed rate, two and ten a second in turn,
whether or not earlier ones are done. Claims are timed to Ready by a watch, requests to their response. Then 50 requests
arrive at once. Finally the agent-sandbox controller is stopped, 10,000 workspaces are created, another replica takes
over the loops, and the time of a page, the peak memory and the idle CPU of the service are measured.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import psutil

from agentenv.cli.main import CommandError
from agentenv.core.classes.names import SANDBOXES, VOLUME_RETAINED
from agentenv.local import processes
from agentenv.rehearsal.controlplane.client import Client, has_condition, until
from agentenv.rehearsal.scenario import service_probe
from agentenv.rehearsal.scenario.service_probe import Service
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.stage import Stage, stage
from agentenv.rehearsal.tools.progress import terminal_progress
from bench import crowd, leading, stacks
from bench.timing import peak_kib, percentile
from bench.warm_pool import PER_TURN, WarmPool

Object = dict[str, Any]

BURST = 50
WORKSPACES = 10_000
PAGES = 100
CALLERS = 4  # the rate limit is about five requests a second for each caller
# The audit loop runs every fifteen minutes.
_IDLE_TIMEOUT_SECONDS, _POLL_SECONDS = 1800.0, 5.0
_TIMEOUT_SECONDS = 300.0


def measure(repeat: int) -> dict[str, Any]:
    """Measure everything on one stage."""
    with stage(terminal_progress(), cluster=ClusterOptions(heap=stacks.HEAP)) as opened, ExitStack() as ending:
        if opened.cluster is None:
            raise CommandError("there is no cluster on this stage")
        stacks.project(opened, stacks.with_service(WORKSPACES + 10 * BURST)).up()
        client, folder = opened.cluster.plane.client, opened.cluster.plane.layout.folder
        callers = [ending.enter_context(service_probe.service_client(client, folder)) for _ in range(CALLERS)]
        operator = ending.enter_context(service_probe.service_client(client, folder, name="bench"))
        pool = ending.enter_context(closing(WarmPool(client, BURST)))
        create = functools.partial(pool.creates, callers)
        by_rate = {rate: pool.compare(create, rate, count, 2 * repeat) for rate, count in PER_TURN.items()}
        burst = _burst(pool, callers)
        suspended = _suspended_claim(client, pool, callers[0])
        crowd.stop_controller(client)
        crowd.workspaces(client, stacks.aws_client(opened, "efs"), suspended, range(WORKSPACES))
        page_times = _pages(operator)
        leading.take_over(client, folder)
        memory, idle = _at_rest(opened, lambda: leading.passes(client, folder))
    slow, *_ = by_rate.values()
    return {
        "raw": slow["raw"],
        "service": slow["service"],
        "by_rate": {f"{rate}/s": found for rate, found in by_rate.items()},
        "burst": burst,
        "list_p95_ms": round(percentile(page_times, 95), 1),
        "memory_mb": round(memory, 1),
        "idle_cpu": round(idle, 4),
        "workspaces": WORKSPACES,
    }


def _suspended_claim(client: Client, pool: WarmPool, service: Service) -> Object:
    """Return the claim of a workspace that was in use and is suspended, with all its objects."""
    pool.rest()
    name = pool.create(service)
    # The annotation of the retained volume follows a moment later.
    retained = until(lambda: pool.claim(name)["metadata"].get("annotations", {}).get(VOLUME_RETAINED), _TIMEOUT_SECONDS)
    service.request("POST", f"/v1/workspaces/{name}/suspend")
    sandbox = pool.claim(name)["status"]["sandbox"]["name"]
    path = f"/apis/{SANDBOXES}/namespaces/{pool.namespace}/sandboxes/{sandbox}"

    def sleeps() -> bool:
        rows = client.get(path)["status"].get("conditions", [])
        state = service.request("GET", f"/v1/workspaces/{name}")["state"]
        return state == "suspended" and any((row["type"], row["status"]) == ("Suspended", "True") for row in rows)

    if not retained or not until(sleeps, _TIMEOUT_SECONDS):
        raise CommandError(f"{name} is not suspended in time")
    return pool.claim(name)


def _burst(pool: WarmPool, callers: list[Service]) -> dict[str, int]:
    """Request as many workspaces at once as the pool has, and count the ready ones and those with a shared sandbox."""
    pool.rest()
    with ThreadPoolExecutor(BURST) as executor:
        futures = [executor.submit(pool.create, callers[number % len(callers)]) for number in range(BURST)]
        names = [future.result() for future in futures]
    found = [pool.claim(name) for name in names]
    sandboxes = [row["status"]["sandbox"]["name"] for row in found if has_condition(row)]
    return {
        "asked": BURST,
        "ready": len(sandboxes),
        "duplicates": len(sandboxes) - len(set(sandboxes)) + len(names) - len(set(names)),
    }


def _pages(operator: Service) -> list[float]:
    """Return the milliseconds of each page of a hundred, over all workspaces."""
    complete = until(lambda: len(_page(operator, None)[0]) == PAGES, _TIMEOUT_SECONDS)
    if not complete:
        raise CommandError("the service does not list all workspaces")
    milliseconds: list[float] = []
    after: str | None = None
    while len(milliseconds) < WORKSPACES // PAGES:
        began = time.monotonic()
        found, after = _page(operator, after)
        milliseconds.append((time.monotonic() - began) * 1000)
        if not found:
            raise CommandError("the service lists too few workspaces")
        # Below the rate limit of a caller.
        time.sleep(0.25)
    return milliseconds


def _page(operator: Service, after: str | None) -> tuple[list[Object], str | None]:
    more = f"&after={after}" if after else ""
    page = operator.request("GET", f"/v1/workspaces?everybody=true&limit={PAGES}{more}")
    return page["items"], page.get("after")


def _at_rest(opened: Stage, passes: Callable[[], Mapping[str, int]]) -> tuple[float, float]:
    """Return the peak memory of a replica in MB, and the most CPU of a replica without requests, in cores.

    It measures until each loop has run again, so that every loop is included.
    """
    replicas = [process for process in processes.marked(opened.run.id) if _is_service(process)]
    if not replicas:
        raise CommandError("there is no process of the service")
    began, before, created = time.monotonic(), [_cpu_seconds(process) for process in replicas], passes()

    def again() -> bool:
        now = passes()
        return all(now.get(name, 0) > created.get(name, 0) for name in leading.PASSES)

    if not until(again, _IDLE_TIMEOUT_SECONDS, every=_POLL_SECONDS):
        counts = f"{created} before, {passes()} after {_IDLE_TIMEOUT_SECONDS:.0f} s"
        raise CommandError(f"not every loop has run again: {counts}")
    seconds = time.monotonic() - began
    shares = [(_cpu_seconds(process) - spent) / seconds for process, spent in zip(replicas, before, strict=True)]
    return max(peak_kib(process.pid) for process in replicas) * 1024 / 1e6, max(shares)


def _is_service(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()[1:3] == ["-m", "agentenv.service"]
    return False


def _cpu_seconds(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return spent.user + spent.system
