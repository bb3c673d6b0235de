"""Time a workspace from the service, compared with a raw claim; a burst of 50; and the service with 10,000 workspaces.

The local stack is created with larger pools. Claims and requests arrive at a fixed rate, two and ten a second in turn,
whether or not earlier ones are done. Claims are timed to Ready by a watch, requests to their response. Then 50 requests
arrive at once. Finally the agent-sandbox controller is stopped, 10,000 workspaces are created, another replica takes
over the loops, and the time of a page, the peak memory and the idle CPU of the service are measured.

The whole cluster runs on this machine, so two other things would affect the times: the refill of the pool, and the
garbage collection of the API server. The pools therefore refill only after a turn (`replenishDelay`, for such bursts),
and garbage is collected between turns. Both sides are timed in this way.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import yaml

from agentenv.cli.main import CommandError
from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import SANDBOXES, VOLUME_RETAINED
from agentenv.core.workspaces.claims import claim
from agentenv.local import processes
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.scenario import pool_probe, service_probe
from agentenv.rehearsal.scenario.service_probe import Service
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.stage import Stage, stage
from agentenv.rehearsal.tools.progress import terminal_progress
from agentenv.service.aws import clients as aws
from bench import crowd, leading
from bench.claims import ReadyWatch, stacks_pool
from bench.timing import peak_kib, percentile

Object = dict[str, Any]
_ROOT = Path(__file__).resolve().parent.parent

RATES = (2, 10)
PER_TURN = {2: 10, 10: 30}  # fewer than the pool has, so that all are warm
BURST = 50
WORKSPACES = 10_000
PAGES = 100
CALLERS = 4  # the rate limit is about five requests a second for each caller
# Longer than the pause between two requests of a turn.
REPLENISH = "2s"
# GOGC in percent, so that garbage is collected between turns and not during one: on two cores that takes a second, and
# would affect either side by chance.
HEAP = 400
# The audit loop runs every fifteen minutes.
_IDLE_TIMEOUT_SECONDS, _POLL_SECONDS = 1800.0, 5.0
_TIMEOUT_SECONDS = 300.0


def measure(repeat: int) -> dict[str, Any]:
    """Measure everything on one stage."""
    with stage(terminal_progress(), cluster=ClusterOptions(heap=HEAP)) as opened, ExitStack() as ending:
        if opened.cluster is None:
            raise CommandError("there is no cluster on this stage")
        deploy(opened)
        client, folder = opened.cluster.plane.client, opened.cluster.plane.layout.folder
        callers = [ending.enter_context(service_probe.service_client(client, folder)) for _ in range(CALLERS)]
        operator = ending.enter_context(service_probe.service_client(client, folder, name="bench"))
        pool = stacks_pool(client)
        scale_up(client, pool, BURST)
        baseline = counts(client, pool)
        by_rate = {rate: _at_rate(client, pool, callers, rate, 2 * repeat, baseline=baseline) for rate in RATES}
        burst = _burst(client, pool, callers)
        suspended = _suspended_claim(client, pool, callers[0])
        crowd.stop_controller(client)
        crowd.workspaces(client, aws_client(opened, "efs"), suspended, range(WORKSPACES))
        page_times = _pages(operator)
        leading.take_over(client, folder)
        memory, idle = _at_rest(opened, lambda: leading.passes(client, folder))
    slow = by_rate[RATES[0]]
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


def configuration(*, gateway: bool = False) -> Object:
    """Return the local stack's configuration, with a limit for all workspaces and an operator who can list them."""
    config = yaml.safe_load((_ROOT / "stacks" / "Pulumi.local.yaml").read_text(encoding="utf-8"))["config"]
    service = config["agent-environment:service"]
    service["operators"] = ["default/bench"]
    if not gateway:
        # Its certificate would have to exist.
        del service["domain"], service["certificate"]
    config["agent-environment:cluster"]["sandboxController"] = {"flags": {"replenishDelay": REPLENISH}}
    of_class = config["agent-environment:sandboxClasses"][0]
    of_class["maxSandboxes"] = WORKSPACES + 10 * BURST
    # The simulated nodes have room for a pool of 50.
    of_class["resources"] |= {"memory": "256Mi"}
    return config


def deploy(opened: Stage, config: Object | None = None) -> None:
    """Deploy the local stack, without a gateway unless the configuration has one."""
    settings = yaml.safe_load((_ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))
    opened.program(_ROOT / settings["main"], "local", config or configuration(), settings).up()


def _suspended_claim(client: Client, pool: Object, service: Service) -> Object:
    """Return the claim of a workspace that was in use and is suspended, with all its objects."""
    _wait_until_full(client, pool)
    name = create(service, pool)
    namespace = pool["metadata"]["namespace"]
    path = f"/apis/{pool_probe.EXTENSIONS}/namespaces/{namespace}/sandboxclaims/{name}"
    # The annotation of the retained volume follows a moment later.
    retained = until(lambda: client.get(path)["metadata"].get("annotations", {}).get(VOLUME_RETAINED), _TIMEOUT_SECONDS)
    service.request("POST", f"/v1/workspaces/{name}/suspend")
    sandbox = f"/apis/{SANDBOXES}/namespaces/{namespace}/sandboxes/{client.get(path)['status']['sandbox']['name']}"

    def sleeps() -> bool:
        rows = client.get(sandbox)["status"].get("conditions", [])
        state = service.request("GET", f"/v1/workspaces/{name}")["state"]
        return state == "suspended" and any((row["type"], row["status"]) == ("Suspended", "True") for row in rows)

    if not retained or not until(sleeps, _TIMEOUT_SECONDS):
        raise CommandError(f"{name} is not suspended in time")
    return client.get(path)


def aws_client(opened: Stage, service: str) -> Any:
    """Return a client of a service of the simulated account."""
    keys = {name.lower(): opened.environment[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    return aws.client(service, opened.environment["AWS_REGION"], opened.cloud, **keys)


def scale_up(client: Client, pool: Object, size: int) -> None:
    """Scale the pool to a size, and wait for its sandboxes."""
    client.merge(client.path(pool), {"spec": {"replicas": size}})
    _wait_until_full(client, pool)


def _wait_until_full(client: Client, pool: Object) -> None:
    size = client.get(client.path(pool))["spec"]["replicas"]
    if not until(lambda: pool_probe.ready_members(client, pool) >= size, _TIMEOUT_SECONDS):
        found = pool_probe.ready_members(client, pool)
        raise CommandError(f"the pool has {found} of {size} sandboxes after {_TIMEOUT_SECONDS:.0f} s")


def wait_for_rest(client: Client, pool: Object, baseline: tuple[int, ...]) -> None:
    """Wait until the objects of the previous turn are deleted, so that their cleanup does not affect the next."""
    _wait_until_full(client, pool)
    if not until(lambda: counts(client, pool) == baseline, _TIMEOUT_SECONDS):
        found = counts(client, pool)
        raise CommandError(f"{found} claims, pods and volumes exist after {_TIMEOUT_SECONDS:.0f} s, not {baseline}")
    client.get("/debug/pprof/heap", gc="1")


def counts(client: Client, pool: Object) -> tuple[int, ...]:
    """Return the number of claims and pods in the pool's class, and of volumes to delete."""
    namespace = pool["metadata"]["namespace"]
    claims = client.get(f"/apis/{pool_probe.EXTENSIONS}/namespaces/{namespace}/sandboxclaims")["items"]
    pods = client.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    volumes = client.get("/api/v1/persistentvolumes")["items"]
    return len(claims), len(pods), sum(_is_deleting(volume) for volume in volumes)


def _is_deleting(volume: Object) -> bool:
    """Return whether the driver still has to delete a volume."""
    return volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete" and volume["status"]["phase"] != "Bound"


def _at_rate(
    client: Client, pool: Object, callers: list[Service], rate: int, turns: int, *, baseline: tuple[int, ...]
) -> dict[str, Any]:
    """Time both sides at a rate, in turn, each with a full pool; `baseline` has the counts between turns."""
    raw: list[float] = []
    requested: list[float] = []
    ready_watch = ReadyWatch(
        client, f"/apis/{pool_probe.EXTENSIONS}/namespaces/{pool['metadata']['namespace']}/sandboxclaims"
    )
    for _ in range(turns):
        wait_for_rest(client, pool, baseline)
        raw += claims(client, pool, ready_watch, rate, PER_TURN[rate])
        wait_for_rest(client, pool, baseline)
        requested += _requests(pool, callers, rate, PER_TURN[rate])
    ready_watch.end()
    claimed, created = figures(raw), figures(requested)
    return {
        "raw": claimed,
        "service": created,
        "added_ms": round(created["p50_ms"] - claimed["p50_ms"], 1),
        "p99_ratio": round(created["p99_ms"] / claimed["p99_ms"], 2),
        "count": len(requested),
    }


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


def claims(client: Client, pool: Object, ready_watch: ReadyWatch, rate: float, count: int) -> list[float]:
    created: list[str] = []

    def run(_: int) -> float:
        name = f"raw-{secrets.token_hex(4)}"
        document = claim(_class_of(pool), pool["metadata"]["name"], name, owner="bench", workspace=name)
        created.append(client.path(document))
        began = time.monotonic()
        client.create(document)
        return ready_watch.ready(name) - began

    # Each thread has its own connection, whose creation is not part of a claim.
    milliseconds = paced(rate, count, run, lambda: client.get("/version"))
    delete_all(client.delete, created)
    return milliseconds


def _requests(pool: Object, callers: list[Service], rate: float, count: int) -> list[float]:
    created: list[tuple[Service, str]] = []
    # The service has authenticated each caller before, as the API server has for the claims.
    for service in callers:
        service.request("GET", "/v1/workspaces?limit=1")

    def run(number: int) -> float:
        service = callers[number % len(callers)]
        began = time.monotonic()
        name = create(service, pool)
        milliseconds = time.monotonic() - began
        created.append((service, name))
        return milliseconds

    milliseconds = paced(rate, count, run)
    delete_all(lambda pair: pair[0].request("DELETE", f"/v1/workspaces/{pair[1]}"), created)
    return milliseconds


def create(service: Service, pool: Object) -> str:
    found = service.request("POST", "/v1/workspaces?wait=60", {"class": _class_of(pool), "key": secrets.token_hex(6)})
    if found["state"] != "running":
        raise CommandError(f"a workspace is {found['state']}: {found.get('why')}")
    return found["id"]


def _burst(client: Client, pool: Object, callers: list[Service]) -> dict[str, int]:
    """Request as many workspaces at once as the pool has, and count the ready ones and those with a shared sandbox."""
    _wait_until_full(client, pool)
    with ThreadPoolExecutor(BURST) as executor:
        futures = [executor.submit(create, callers[number % len(callers)], pool) for number in range(BURST)]
        names = [future.result() for future in futures]
    namespace = pool["metadata"]["namespace"]
    found = [client.get(f"/apis/{pool_probe.EXTENSIONS}/namespaces/{namespace}/sandboxclaims/{name}") for name in names]
    sandboxes = [row["status"]["sandbox"]["name"] for row in found if pool_probe.is_ready(row)]
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


def delete_all(end: Callable[[Any], object], items: list[Any]) -> None:
    with ThreadPoolExecutor(8) as executor:
        for _ in executor.map(end, items):
            pass


def _class_of(pool: Object) -> str:
    return pool["metadata"]["labels"][CLASS_LABEL]


def figures(milliseconds: list[float]) -> dict[str, float]:
    return {"p50_ms": round(percentile(milliseconds, 50), 1), "p99_ms": round(percentile(milliseconds, 99), 1)}
