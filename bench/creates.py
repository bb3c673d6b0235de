"""Time creates for owners with 5,000 rows of this month in the ledger, and while AWS hangs, beside neither.

Each create is for another owner, one a second, of a warm pool. Raw claims are timed at the same rate. AWS hangs when
the process that simulates it is stopped: it accepts connections and answers none, be it DynamoDB, STS or EFS. No slot
is refilled meanwhile, so a turn has fewer creates than the pool has slots.
"""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import CommandError
from agentenv.core.service.rbac import NAME
from agentenv.local import processes
from agentenv.rehearsal.controlplane.client import Client
from agentenv.rehearsal.scenario import pool_probe, service_probe
from agentenv.rehearsal.scenario.service_probe import Service
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.stage import Stage, stage
from agentenv.rehearsal.tools.progress import terminal_progress
from agentenv.service.http.auth.authenticate import KUBERNETES
from agentenv.service.http.auth.callers import owner_id
from bench import ledger_rows, service
from bench.claims import ReadyWatch, stacks_pool

if TYPE_CHECKING:
    import psutil

Object = dict[str, Any]

OWNERS, ROWS = 10, 5_000
RATE, CREATES = 1.0, 20
# AWS hangs for so long before the turn, so that loops and clients wait for it.
HANGING_SECONDS = 20.0
CLOUD = "agentenv.rehearsal.cloud"


def measure(repeat: int) -> dict[str, Any]:
    """Measure everything on one stage."""
    with stage(terminal_progress(), cluster=ClusterOptions(heap=service.HEAP)) as opened, ExitStack() as ending:
        if opened.cluster is None:
            raise CommandError("there is no cluster on this stage")
        service.deploy(opened)
        client, folder = opened.cluster.plane.client, opened.cluster.plane.layout.folder
        names = [f"bench-{secrets.token_hex(3)}" for _ in range(OWNERS)]
        callers = [ending.enter_context(service_probe.service_client(client, folder, name=name)) for name in names]
        pool = stacks_pool(client)
        service.scale_up(client, pool, CREATES + OWNERS)
        baseline = service.counts(client, pool)
        found: dict[str, list[float]] = {"raw": [], "service": [], "with_rows": [], "hanging": []}
        watch = ReadyWatch(
            client, f"/apis/{pool_probe.EXTENSIONS}/namespaces/{pool['metadata']['namespace']}/sandboxclaims"
        )
        for _ in range(repeat):
            service.wait_for_rest(client, pool, baseline)
            found["raw"] += service.claims(client, pool, watch, RATE, CREATES)
            service.wait_for_rest(client, pool, baseline)
            found["service"] += _creates(opened, pool, callers)
        watch.end()
        owners = [owner_id(KUBERNETES, f"system:serviceaccount:default:{name}") for name in names]
        ledger_rows.write(service.aws_client(opened, "dynamodb"), _ledger(client), owners, ROWS)
        for name in ("with_rows", "hanging") * repeat:
            service.wait_for_rest(client, pool, baseline)
            found[name] += _creates(opened, pool, callers, hanging=name == "hanging")
    figures = {name: service.figures(milliseconds) for name, milliseconds in found.items()}
    ratios = {
        name: {key: round(figures[name][key] / figures["service"][key], 2) for key in ("p50_ms", "p99_ms")}
        for name in ("with_rows", "hanging")
    }
    return {**figures, "ratios": ratios, "rows": ROWS, "creates": len(found["service"])}


def _creates(opened: Stage, pool: Object, callers: list[Service], *, hanging: bool = False) -> list[float]:
    """Return the milliseconds of creates, each for another owner than the last."""
    for caller in callers:
        caller.request("GET", "/v1/workspaces?limit=1")
    created: list[tuple[Service, str]] = []

    def create(number: int) -> float:
        caller = callers[number % len(callers)]
        began = time.monotonic()
        name = service.create(caller, pool)
        seconds = time.monotonic() - began
        created.append((caller, name))
        return seconds

    clouds = _clouds(opened) if hanging else []
    try:
        for process in clouds:
            process.suspend()
        time.sleep(HANGING_SECONDS if hanging else 0.0)
        milliseconds = service.paced(RATE, CREATES, create)
    finally:
        for process in clouds:
            process.resume()
    service.delete_all(lambda pair: pair[0].request("DELETE", f"/v1/workspaces/{pair[1]}"), created)
    return milliseconds


def _clouds(opened: Stage) -> list[psutil.Process]:
    """Return the process that simulates AWS."""
    clouds = [process for process in processes.marked(opened.run.id) if CLOUD in process.cmdline()]
    if not clouds:
        raise CommandError("there is no process that simulates AWS")
    return clouds


def _ledger(client: Client) -> str:
    """Return the name of the ledger's table, as the service has it."""
    deployment = client.get(f"/apis/apps/v1/namespaces/{NAME}/deployments/{NAME}")
    flag = "--ledger-table="
    arguments: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    for argument in arguments:
        if argument.startswith(flag):
            return argument.removeprefix(flag)
    raise CommandError("the stack has no ledger")
