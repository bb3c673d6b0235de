"""A workspace by the service beside the raw claim of the same run; fifty at once; ten thousand in its view.

The local stack is brought up, and its pools made larger. Claims and requests come at a rate, whether or not the ones
before are done: two a second and ten a second, by turns. Both are timed from the request to Ready, the claims by a
watch, the requests by their answer. Then fifty come at once. At last nobody fills claims any more, ten thousand
workspaces are made with all that stands for one, another replica takes over the loops, and the service's pages, memory
at its highest and idle processor time are taken.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import yaml

from agentenv.cli import Refusal
from bench import crowd, leading
from bench.claims import stacks_pool
from bench.timing import percentile
from model.capabilities.surroundings import CLASS_LABEL
from model.claims import claim
from model.classes.names import SANDBOXES
from rehearsal import probe, processes, serving
from rehearsal.cluster_side import Serving
from rehearsal.controlplane.client import Client, until
from rehearsal.serving import Service
from rehearsal.stage import Stage, stage
from rehearsal.tools.progress import telling

Object = dict[str, Any]

RATES = (2, 10)
A_TURN = {2: 10, 10: 30}  # fewer than the pool holds: what is measured is warm
BURST = 50
CROWD = 10_000
PAGES = 100
CALLERS = 4  # one may make some five requests a second
_IDLE_SECONDS = 30.0
_PATIENCE_SECONDS = 120.0


def measure(repeat: int) -> dict[str, Any]:
    """All of the figures, of one stage."""
    with stage(telling(), cluster=Serving()) as opened, ExitStack() as ending:
        if opened.cluster is None:
            raise Refusal("there is no cluster on this stage")
        _up(opened)
        client, folder = opened.cluster.plane.client, opened.cluster.plane.layout.folder
        callers = [ending.enter_context(serving.caller(client, folder)) for _ in range(CALLERS)]
        boss = ending.enter_context(serving.caller(client, folder, name="bench"))
        pool = stacks_pool(client)
        _grow(client, pool)
        alone = _there(client, pool)
        by_rate = {rate: _at(client, pool, callers, rate, 2 * repeat, alone=alone) for rate in RATES}
        burst = _burst(client, pool, callers)
        # Filled again: the crowd is made like a sandbox that has all that it ever gets.
        _full(client, pool)
        crowd.hold_off(client)
        crowd.workspaces(client, _member(client, pool), range(CROWD))
        listed = _pages(boss)
        leading.take_over(client, folder)
        memory, idle = _at_rest(opened)
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
    config["agent-environment:sandboxClasses"][0]["maxSandboxes"] = CROWD + 10 * BURST
    opened.program(root / settings["main"], "local", config, settings).up()


def _member(client: Client, pool: Object) -> Object:
    """A warm sandbox of it, with its home."""
    path = f"/apis/{SANDBOXES}/namespaces/{pool['metadata']['namespace']}/sandboxes"
    found = [one for one in client.get(path)["items"] if probe.is_ready(one)]
    if not found:
        raise Refusal("the pool has no sandbox that is Ready")
    return found[0]


def _grow(client: Client, pool: Object) -> None:
    """A pool that holds the burst."""
    client.merge(client.path(pool), {"spec": {"replicas": BURST}})
    _full(client, pool)


def _full(client: Client, pool: Object) -> None:
    if not until(lambda: probe.ready_members(client, pool) >= BURST, _PATIENCE_SECONDS):
        found = probe.ready_members(client, pool)
        raise Refusal(f"the pool has {found} of {BURST} sandboxes after {_PATIENCE_SECONDS:.0f} s")


def _still(client: Client, pool: Object, alone: tuple[int, ...]) -> None:
    """Wait until what the turn before left behind is gone, too: nobody works for it in the next one's time."""
    _full(client, pool)
    if not until(lambda: _there(client, pool) == alone, _PATIENCE_SECONDS):
        raise Refusal(f"of what was made {_there(client, pool)} is there after {_PATIENCE_SECONDS:.0f} s, not {alone}")


def _there(client: Client, pool: Object) -> tuple[int, ...]:
    """How many claims and pods there are in the pool's class, and volumes that have still to be taken away."""
    space = pool["metadata"]["namespace"]
    claims = client.get(f"/apis/{probe.EXTENSIONS}/namespaces/{space}/sandboxclaims")["items"]
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
    for _ in range(turns):
        _still(client, pool, alone)
        raw += _claims(client, pool, rate, A_TURN[rate])
        _still(client, pool, alone)
        served += _requests(pool, callers, rate, A_TURN[rate])
    return {"raw": _figures(raw), "service": _figures(served), "count": len(served)}


def _paced(rate: float, count: int, work: Callable[[int], float]) -> list[float]:
    """So many pieces of work, each begun at its moment; what each of them took, in milliseconds."""
    with ThreadPoolExecutor(min(count, 64)) as hands:
        began = time.monotonic()
        asked = []
        for number in range(count):
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
            asked.append(hands.submit(work, number))
        return [one.result() * 1000 for one in asked]


def _claims(client: Client, pool: Object, rate: float, count: int) -> list[float]:
    space, made = pool["metadata"]["namespace"], list[str]()
    with _watching(client, space) as ready:

        def one(_: int) -> float:
            name = f"raw-{secrets.token_hex(4)}"
            seen = ready.setdefault(name, threading.Event())
            document = claim(_class_of(pool), pool["metadata"]["name"], name, owner="bench", workspace=name)
            made.append(client.path(document))
            began = time.monotonic()
            client.create(document)
            if not seen.wait(_PATIENCE_SECONDS):
                raise Refusal(f"the claim {name} is not Ready after {_PATIENCE_SECONDS:.0f} s")
            return time.monotonic() - began

        took = _paced(rate, count, one)
    _away(client.delete, made)
    return took


@contextmanager
def _watching(client: Client, space: str) -> Iterator[dict[str, threading.Event]]:
    """An event for each claim, which is set when a watch tells that it is Ready."""
    ready: dict[str, threading.Event] = {}
    ended = threading.Event()

    def listen() -> None:
        for kind, thing in client.watch(f"/apis/{probe.EXTENSIONS}/namespaces/{space}/sandboxclaims", ended):
            if kind != "DELETED" and probe.is_ready(thing):
                ready.setdefault(thing["metadata"]["name"], threading.Event()).set()

    listening = threading.Thread(target=listen, daemon=True)
    listening.start()
    try:
        yield ready
    finally:
        ended.set()


def _requests(pool: Object, callers: list[Service], rate: float, count: int) -> list[float]:
    made: list[tuple[Service, str]] = []

    def one(number: int) -> float:
        service = callers[number % len(callers)]
        began = time.monotonic()
        name = _ask(service, pool)
        took = time.monotonic() - began
        made.append((service, name))
        return took

    took = _paced(rate, count, one)
    _away(lambda pair: pair[0].ask("DELETE", f"/v1/workspaces/{pair[1]}"), made)
    return took


def _ask(service: Service, pool: Object) -> str:
    found = service.ask("POST", "/v1/workspaces?wait=60", {"class": _class_of(pool), "key": secrets.token_hex(6)})
    if found["state"] != "running":
        raise Refusal(f"a workspace is {found['state']}: {found.get('why')}")
    return found["id"]


def _burst(client: Client, pool: Object, callers: list[Service]) -> dict[str, int]:
    """So many at once as the pool holds: how many are Ready, and how many have a sandbox that another one has."""
    _full(client, pool)
    with ThreadPoolExecutor(BURST) as hands:
        asked = [hands.submit(_ask, callers[number % len(callers)], pool) for number in range(BURST)]
        names = [one.result() for one in asked]
    space = pool["metadata"]["namespace"]
    found = [client.get(f"/apis/{probe.EXTENSIONS}/namespaces/{space}/sandboxclaims/{name}") for name in names]
    sandboxes = [one["status"]["sandbox"]["name"] for one in found if probe.is_ready(one)]
    return {
        "asked": BURST,
        "ready": len(sandboxes),
        "duplicates": len(sandboxes) - len(set(sandboxes)) + len(names) - len(set(names)),
    }


def _pages(boss: Service) -> list[float]:
    """What pages of a hundred take, over all of them in turn."""
    counted = until(lambda: len(_page(boss, None)[0]) == PAGES, _PATIENCE_SECONDS)
    if not counted:
        raise Refusal("the service does not see the workspaces that there are")
    took: list[float] = []
    after: str | None = None
    while len(took) < CROWD // PAGES:
        began = time.monotonic()
        found, after = _page(boss, after)
        took.append((time.monotonic() - began) * 1000)
        if not found:
            raise Refusal("the service sees fewer workspaces than there are")
        # Slower than one may ask in a minute, so that none of them is turned away.
        time.sleep(0.25)
    return took


def _page(boss: Service, after: str | None) -> tuple[list[Object], str | None]:
    more = f"&after={after}" if after else ""
    said = boss.ask("GET", f"/v1/workspaces?everybody=true&limit={PAGES}{more}")
    return said["items"], said.get("after")


def _at_rest(opened: Stage) -> tuple[float, float]:
    """The most memory that one replica ever had, in MB, and the most of a core that one takes when nobody asks."""
    replicas = [one for one in processes.marked(opened.run.id) if _serves(one)]
    if not replicas:
        raise Refusal("there is no process of the service")
    time.sleep(_IDLE_SECONDS)
    before = [_used(one) for one in replicas]
    time.sleep(_IDLE_SECONDS)
    shares = [(_used(one) - spent) / _IDLE_SECONDS for one, spent in zip(replicas, before, strict=True)]
    return max(leading.peak(one) for one in replicas), max(shares)


def _serves(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()[1:3] == ["-m", "service"]
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
