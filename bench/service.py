"""A workspace by the service beside the raw claim of the same run; fifty at once; ten thousand in its view.

The local stack is brought up, and its pools made larger. Claims and requests come at a rate, whether or not the ones
before are done: two a second and ten a second, by turns. Both are timed from the request to Ready, the claims by a
watch, the requests by their answer. Then fifty come at once. At last nobody fills claims any more, ten thousand
workspaces are made with all that stands for one, another replica takes over the loops, and the service's pages, memory
at its highest and idle processor time are taken.

A whole cluster is on this machine, so that two things would be measured instead of the service: the pool that fills
itself again, and the API server's garbage. The stack has its pools wait until a turn is over (`replenishDelay`, which
is for such bursts), and garbage is collected between turns. Both sides are timed so.
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
from agentenv.core.classes.names import KEPT, SANDBOXES
from agentenv.core.workspaces.claims import claim
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.scenario import pool_probe, service_probe
from agentenv.rehearsal.scenario.service_probe import Service
from agentenv.rehearsal.stage import processes
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.stage import Stage, stage
from agentenv.rehearsal.tools.progress import terminal_progress
from agentenv.service.aws import clients as aws
from bench import crowd, leading
from bench.claims import Watched, stacks_pool
from bench.memory import peak_kib
from bench.timing import percentile

Object = dict[str, Any]

RATES = (2, 10)
A_TURN = {2: 10, 10: 30}  # fewer than the pool holds: what is measured is warm
BURST = 50
CROWD = 10_000
PAGES = 100
CALLERS = 4  # one may make some five requests a second
# Longer than the pause between two of a turn.
REPLENISH = "2s"
# In per cent: as much as a turn may need. Garbage is collected between turns, and in none of them: on two cores that
# takes a second, and would fall on either side by chance.
HEAP = 400
# The audit is made every fifteen minutes, and waits for its turn.
_REST_SECONDS, _LOOK_SECONDS = 1800.0, 5.0
_PATIENCE_SECONDS = 120.0


def measure(repeat: int) -> dict[str, Any]:
    """All of the figures, of one stage."""
    with stage(terminal_progress(), cluster=ClusterOptions(heap=HEAP)) as opened, ExitStack() as ending:
        if opened.cluster is None:
            raise CommandError("there is no cluster on this stage")
        _up(opened)
        client, folder = opened.cluster.plane.client, opened.cluster.plane.layout.folder
        callers = [ending.enter_context(service_probe.service_client(client, folder)) for _ in range(CALLERS)]
        boss = ending.enter_context(service_probe.service_client(client, folder, name="bench"))
        pool = stacks_pool(client)
        _grow(client, pool)
        alone = _there(client, pool)
        by_rate = {rate: _at(client, pool, callers, rate, 2 * repeat, alone=alone) for rate in RATES}
        burst = _burst(client, pool, callers)
        asleep = _asleep(client, pool, callers[0])
        crowd.hold_off(client)
        crowd.workspaces(client, _efs(opened), asleep, range(CROWD))
        listed = _pages(boss)
        leading.take_over(client, folder)
        memory, idle = _at_rest(opened, lambda: leading.passes(client, folder))
    slow = by_rate[RATES[0]]
    return {
        "raw": slow["raw"],
        "service": slow["service"],
        "by_rate": {f"{rate}/s": found for rate, found in by_rate.items()},
        "burst": burst,
        "list_p95_ms": round(percentile(listed, 95), 1),
        "memory_mb": round(memory, 1),
        "idle_cpu": round(idle, 4),
        "workspaces": CROWD,
    }


def _up(opened: Stage) -> None:
    """The local stack, with room for the crowd and one more who sees everybody's workspaces."""
    root = Path(__file__).resolve().parent.parent
    settings = yaml.safe_load((root / "Pulumi.yaml").read_text(encoding="utf-8"))
    config = yaml.safe_load((root / "stacks" / "Pulumi.local.yaml").read_text(encoding="utf-8"))["config"]
    config["agent-environment:service"]["operators"] = ["default/bench"]
    config["agent-environment:cluster"]["sandboxController"] = {"flags": {"replenishDelay": REPLENISH}}
    config["agent-environment:sandboxClasses"][0]["maxSandboxes"] = CROWD + 10 * BURST
    opened.program(root / settings["main"], "local", config, settings).up()


def _asleep(client: Client, pool: Object, service: Service) -> Object:
    """The claim of a workspace that was used, has all that it ever gets, and sleeps."""
    _full(client, pool)
    name = _ask(service, pool)
    space = pool["metadata"]["namespace"]
    path = f"/apis/{pool_probe.EXTENSIONS}/namespaces/{space}/sandboxclaims/{name}"
    # Whoever keeps its volume says so a moment later.
    kept = until(lambda: client.get(path)["metadata"].get("annotations", {}).get(KEPT), _PATIENCE_SECONDS)
    service.request("POST", f"/v1/workspaces/{name}/suspend")
    sandbox = f"/apis/{SANDBOXES}/namespaces/{space}/sandboxes/{client.get(path)['status']['sandbox']['name']}"

    def sleeps() -> bool:
        rows = client.get(sandbox)["status"].get("conditions", [])
        told = service.request("GET", f"/v1/workspaces/{name}")["state"]
        return told == "suspended" and any((one["type"], one["status"]) == ("Suspended", "True") for one in rows)

    if not kept or not until(sleeps, _PATIENCE_SECONDS):
        raise CommandError(f"{name} does not go to sleep")
    return client.get(path)


def _efs(opened: Stage) -> Any:
    """Whoever may make access points in the simulated account."""
    keys = {name.lower(): opened.environment[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    return aws.client("efs", opened.environment["AWS_REGION"], opened.cloud, **keys)


def _grow(client: Client, pool: Object) -> None:
    """A pool that holds the burst."""
    client.merge(client.path(pool), {"spec": {"replicas": BURST}})
    _full(client, pool)


def _full(client: Client, pool: Object) -> None:
    if not until(lambda: pool_probe.ready_members(client, pool) >= BURST, _PATIENCE_SECONDS):
        found = pool_probe.ready_members(client, pool)
        raise CommandError(f"the pool has {found} of {BURST} sandboxes after {_PATIENCE_SECONDS:.0f} s")


def _still(client: Client, pool: Object, alone: tuple[int, ...]) -> None:
    """Wait until what the turn before left behind is gone, too: nobody works for it in the next one's time."""
    _full(client, pool)
    if not until(lambda: _there(client, pool) == alone, _PATIENCE_SECONDS):
        raise CommandError(
            f"of what was made {_there(client, pool)} is there after {_PATIENCE_SECONDS:.0f} s, not {alone}"
        )
    client.get("/debug/pprof/heap", gc="1")


def _there(client: Client, pool: Object) -> tuple[int, ...]:
    """How many claims and pods there are in the pool's class, and volumes that have still to be taken away."""
    space = pool["metadata"]["namespace"]
    claims = client.get(f"/apis/{pool_probe.EXTENSIONS}/namespaces/{space}/sandboxclaims")["items"]
    pods = client.get(f"/api/v1/namespaces/{space}/pods")["items"]
    volumes = client.get("/api/v1/persistentvolumes")["items"]
    return len(claims), len(pods), sum(_going(one) for one in volumes)


def _going(volume: Object) -> bool:
    """Whether the driver has still to take it away."""
    return volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete" and volume["status"]["phase"] != "Bound"


def _at(
    client: Client, pool: Object, callers: list[Service], rate: int, turns: int, *, alone: tuple[int, ...]
) -> dict[str, Any]:
    """Both sides at a rate, by turns, each against the full pool; `alone` is what is there without a turn."""
    raw: list[float] = []
    served: list[float] = []
    watched = Watched(client, f"/apis/{pool_probe.EXTENSIONS}/namespaces/{pool['metadata']['namespace']}/sandboxclaims")
    for _ in range(turns):
        _still(client, pool, alone)
        raw += _claims(client, pool, watched, rate, A_TURN[rate])
        _still(client, pool, alone)
        served += _requests(pool, callers, rate, A_TURN[rate])
    watched.end()
    return {"raw": _figures(raw), "service": _figures(served), "count": len(served)}


def _paced(
    rate: float, count: int, work: Callable[[int], float], ready: Callable[[], object] = lambda: None
) -> list[float]:
    """So many pieces of work, each begun at its moment; what each of them took, in milliseconds.

    `ready` is done before that by each thread that works.
    """
    with ThreadPoolExecutor(min(count, 64), initializer=ready) as hands:
        began = time.monotonic()
        asked = []
        for number in range(count):
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
            asked.append(hands.submit(work, number))
        return [one.result() * 1000 for one in asked]


def _claims(client: Client, pool: Object, watched: Watched, rate: float, count: int) -> list[float]:
    made: list[str] = []

    def one(_: int) -> float:
        name = f"raw-{secrets.token_hex(4)}"
        document = claim(_class_of(pool), pool["metadata"]["name"], name, owner="bench", workspace=name)
        made.append(client.path(document))
        began = time.monotonic()
        client.create(document)
        return watched.ready(name) - began

    # Each thread has a connection of its own: that one is made is no part of a claim.
    took = _paced(rate, count, one, lambda: client.get("/version"))
    _away(client.delete, made)
    return took


def _requests(pool: Object, callers: list[Service], rate: float, count: int) -> list[float]:
    made: list[tuple[Service, str]] = []
    # Whoever asks for a workspace has looked at theirs before: their tokens are known, as those who claim are.
    for service in callers:
        service.request("GET", "/v1/workspaces?limit=1")

    def one(number: int) -> float:
        service = callers[number % len(callers)]
        began = time.monotonic()
        name = _ask(service, pool)
        took = time.monotonic() - began
        made.append((service, name))
        return took

    took = _paced(rate, count, one)
    _away(lambda pair: pair[0].request("DELETE", f"/v1/workspaces/{pair[1]}"), made)
    return took


def _ask(service: Service, pool: Object) -> str:
    found = service.request("POST", "/v1/workspaces?wait=60", {"class": _class_of(pool), "key": secrets.token_hex(6)})
    if found["state"] != "running":
        raise CommandError(f"a workspace is {found['state']}: {found.get('why')}")
    return found["id"]


def _burst(client: Client, pool: Object, callers: list[Service]) -> dict[str, int]:
    """So many at once as the pool holds: how many are Ready, and how many have a sandbox that another one has."""
    _full(client, pool)
    with ThreadPoolExecutor(BURST) as hands:
        asked = [hands.submit(_ask, callers[number % len(callers)], pool) for number in range(BURST)]
        names = [one.result() for one in asked]
    space = pool["metadata"]["namespace"]
    found = [client.get(f"/apis/{pool_probe.EXTENSIONS}/namespaces/{space}/sandboxclaims/{name}") for name in names]
    sandboxes = [one["status"]["sandbox"]["name"] for one in found if pool_probe.is_ready(one)]
    return {
        "asked": BURST,
        "ready": len(sandboxes),
        "duplicates": len(sandboxes) - len(set(sandboxes)) + len(names) - len(set(names)),
    }


def _pages(boss: Service) -> list[float]:
    """What pages of a hundred take, over all of them in turn."""
    complete = until(lambda: len(_page(boss, None)[0]) == PAGES, _PATIENCE_SECONDS)
    if not complete:
        raise CommandError("the service does not see the workspaces that there are")
    took: list[float] = []
    after: str | None = None
    while len(took) < CROWD // PAGES:
        began = time.monotonic()
        found, after = _page(boss, after)
        took.append((time.monotonic() - began) * 1000)
        if not found:
            raise CommandError("the service sees fewer workspaces than there are")
        # Slower than one may ask in a minute, so that none of them is turned away.
        time.sleep(0.25)
    return took


def _page(boss: Service, after: str | None) -> tuple[list[Object], str | None]:
    more = f"&after={after}" if after else ""
    said = boss.request("GET", f"/v1/workspaces?everybody=true&limit={PAGES}{more}")
    return said["items"], said.get("after")


def _at_rest(opened: Stage, passes: Callable[[], Mapping[str, int]]) -> tuple[float, float]:
    """The most memory that one replica ever had, in MB, and the most of a core that one takes when nobody asks.

    Over as long as it takes until each loop has made another pass, so that no kind of pass is left out.
    """
    replicas = [one for one in processes.marked(opened.run.id) if _serves(one)]
    if not replicas:
        raise CommandError("there is no process of the service")
    began, before, made = time.monotonic(), [_used(one) for one in replicas], passes()

    def again() -> bool:
        now = passes()
        return all(now.get(name, 0) > made.get(name, 0) for name in leading.PASSES)

    if not until(again, _REST_SECONDS, every=_LOOK_SECONDS):
        raise CommandError(f"of the passes {made} not each was made again within {_REST_SECONDS:.0f} s: {passes()}")
    seconds = time.monotonic() - began
    shares = [(_used(one) - spent) / seconds for one, spent in zip(replicas, before, strict=True)]
    return max(peak_kib(one.pid) for one in replicas) * 1024 / 1e6, max(shares)


def _serves(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()[1:3] == ["-m", "agentenv.service"]
    return False


def _used(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return spent.user + spent.system


def _away(end: Callable[[Any], object], things: list[Any]) -> None:
    with ThreadPoolExecutor(8) as hands:
        for _ in hands.map(end, things):
            pass


def _class_of(pool: Object) -> str:
    return pool["metadata"]["labels"][CLASS_LABEL]


def _figures(took: list[float]) -> dict[str, float]:
    return {"p50_ms": round(percentile(took, 50), 1), "p99_ms": round(percentile(took, 99), 1)}
