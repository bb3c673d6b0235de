"""Time creates for owners with 5,000 rows of this month in the ledger, and while each remote service hangs in turn.

Each create is for another user of an issuer, one a second, of a warm pool. Raw claims are timed at the same rate. A
remote that hangs accepts connections and answers none: DynamoDB, STS, the issuer and Prometheus each by itself, and AWS
as a whole when the process that simulates it is stopped. Half of a turn's creates begin at once with it, and half after
the time for which it hangs. Each is compared with the turn of the same round in which nothing hangs. The rows are
written last: reading them keeps the simulated AWS busy.

A turn ends only once something waits for the remote, so what is asked rarely is asked here. Replicas are replaced while
STS hangs, so that they have no credentials. Tokens of an unknown key arrive while the issuer hangs. The loops ask
Prometheus about a workspace that stays, and would be idle. Where AWS hangs, no slot is refilled, so a turn has fewer
creates than the pool has slots.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from agentenv.cli.main import CommandError
from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.service.deployment import LABELS, LOOPS_LABELS
from agentenv.core.service.rbac import NAME
from agentenv.local import processes
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.scenario import pool_probe, service_probe
from agentenv.rehearsal.scenario.service_probe import Service
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.stage import Stage, stage
from agentenv.rehearsal.tools.progress import terminal_progress
from agentenv.service.http.auth.callers import owner_id
from bench import ledger_rows, remotes, service
from bench.claims import ReadyWatch, stacks_pool
from bench.remotes import Remotes

if TYPE_CHECKING:
    import psutil

Object = dict[str, Any]

OWNERS, ROWS = 10, 5_000
RATE, CREATES = 1.0, 20
# So long a remote hangs by default, before the second half of a turn
HANGING_SECONDS = 20.0
CLOUD = "agentenv.rehearsal.cloud"
HANGING = (*remotes.NAMES, "aws")
_STRANGERS = 4
_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True)
class _Bench:
    """What every turn needs."""

    opened: Stage
    client: Client
    plane: Path
    pool: Object
    remotes: Remotes
    hanging_seconds: float

    @property
    def users(self) -> list[str]:
        """Return the subjects of the owners."""
        return [f"bench-{number}" for number in range(OWNERS)]

    def callers(self) -> list[Service]:
        """Return a client for each owner, of one replica."""
        found = until(lambda: service_probe.addresses(self.client, self.plane), _TIMEOUT_SECONDS)
        if not found:
            raise CommandError("no replica of the service is Ready")
        return [Service(found[0], self.remotes.issuer.token(user)) for user in self.users]


def measure(repeat: int, hanging_seconds: float = HANGING_SECONDS) -> dict[str, Any]:
    """Measure everything on one stage."""
    with stage(terminal_progress(), cluster=ClusterOptions(heap=service.HEAP)) as opened, ExitStack() as ending:
        if opened.cluster is None:
            raise CommandError("there is no cluster on this stage")
        client, relays = opened.cluster.plane.client, ending.enter_context(remotes.remotes(opened))
        config = service.configuration()
        relays.configure(config)
        service.deploy(opened, config)
        relays.lead(client)
        pool = stacks_pool(client)
        bench = _Bench(opened, client, opened.cluster.plane.layout.folder, pool, relays, hanging_seconds)
        service.scale_up(client, pool, CREATES + OWNERS)
        # It stays idle, so that the loops ask Prometheus whether it is.
        idle = {"class": pool["metadata"]["labels"][CLASS_LABEL], "key": "idle", "idle_after": 60}
        bench.callers()[0].request("POST", "/v1/workspaces?wait=60", idle)
        service.scale_up(client, pool, CREATES + OWNERS)
        baseline = service.counts(client, pool)
        found: dict[str, list[float]] = {name: [] for name in ("raw", "service", "with_rows", *HANGING)}
        path = f"/apis/{pool_probe.EXTENSIONS}/namespaces/{pool['metadata']['namespace']}/sandboxclaims"
        watch = ReadyWatch(client, path)
        for _ in range(repeat):
            service.wait_for_rest(client, pool, baseline)
            found["raw"] += service.claims(client, pool, watch, RATE, CREATES)
            service.wait_for_rest(client, pool, baseline)
            found["service"] += _creates(bench)
            for name in HANGING:
                service.wait_for_rest(client, pool, baseline)
                found[name] += _creates(bench, name)
        watch.end()
        owners = [owner_id(relays.issuer.url, user) for user in bench.users]
        ledger_rows.write(service.aws_client(opened, "dynamodb"), _ledger(client), owners, ROWS)
        for _ in range(repeat):
            service.wait_for_rest(client, pool, baseline)
            found["with_rows"] += _creates(bench)
        held = {name: relay.held for name, relay in relays.relays.items()}
    figures = {name: service.figures(milliseconds) for name, milliseconds in found.items()}
    ratios = {
        name: {key: round(figures[name][key] / figures["service"][key], 2) for key in ("p50_ms", "p99_ms")}
        for name in (*HANGING, "with_rows")
    }
    return {
        **figures,
        "ratios": ratios,
        "hanging_s": hanging_seconds,
        "held": held,
        "rows": ROWS,
        "creates": len(found["service"]),
    }


def _creates(bench: _Bench, hanging: str | None = None) -> list[float]:
    """Return the milliseconds of creates, each for another owner than the last."""
    created: list[tuple[Service, str]] = []

    def turn(count: int) -> list[float]:
        callers = bench.callers()
        for caller in callers:
            caller.request("GET", "/v1/workspaces?limit=1")

        def create(number: int) -> float:
            caller = callers[number % len(callers)]
            began = time.monotonic()
            name = service.create(caller, bench.pool)
            seconds = time.monotonic() - began
            created.append((caller, name))
            return seconds

        return service.paced(RATE, count, create)

    with _hanging(bench, hanging) as wait:
        milliseconds = turn(CREATES // 2)
        wait()
        milliseconds += turn(CREATES - CREATES // 2)
    service.delete_all(lambda pair: pair[0].request("DELETE", f"/v1/workspaces/{pair[1]}"), created)
    return milliseconds


@contextmanager
def _hanging(bench: _Bench, name: str | None) -> Generator[Callable[[], None]]:
    """Let a remote hang while the context is open; yield what waits until it has for its time.

    Where nothing hangs, the pause between the halves of a turn is as long.
    """
    began = time.monotonic()

    def pause() -> None:
        time.sleep(max(0.0, began + bench.hanging_seconds - time.monotonic()))

    if name is None or name == "aws":
        clouds = _clouds(bench.opened) if name else []
        for process in clouds:
            process.suspend()
        try:
            yield pause
        finally:
            for process in clouds:
                process.resume()
        return
    relay = bench.remotes.relays[name]
    before = relay.held

    def wait() -> None:
        if not until(lambda: relay.held > before, _TIMEOUT_SECONDS, every=0.2):
            raise CommandError(f"nothing called {name} within {_TIMEOUT_SECONDS:.0f} s in which it hung")
        pause()

    with ExitStack() as ending:
        ending.enter_context(relay.hanging())
        if name == "sts":
            _replace(bench.client, LABELS)
            _replace(bench.client, LOOPS_LABELS)
        if name == "issuer":
            ending.enter_context(_strangers(bench))
        yield wait


def _replace(client: Client, labels: dict[str, str]) -> None:
    """Delete the pods with labels, and wait for those that replace them."""
    path, query = f"/api/v1/namespaces/{NAME}/pods", {"labelSelector": ",".join(f"{k}={v}" for k, v in labels.items())}
    before = {pod["metadata"]["name"] for pod in client.get(path, **query)["items"]}
    for name in before:
        client.delete(f"{path}/{name}")
    if not until(
        lambda: not before & {pod["metadata"]["name"] for pod in client.get(path, **query)["items"]}, _TIMEOUT_SECONDS
    ):
        raise CommandError(f"{', '.join(sorted(before))} did not end")
    remotes.wait_for_replicas(client)


@contextmanager
def _strangers(bench: _Bench) -> Generator[None]:
    """Send tokens of a key that the issuer does not publish, each of which asks for its keys again."""
    issuer, ended = bench.remotes.issuer, threading.Event()
    key, now = ec.generate_private_key(ec.SECP256R1()), int(time.time())
    claims = {"iss": issuer.url, "sub": "stranger", "aud": "agent-environment", "iat": now, "exp": now + 3600}
    token = jwt.encode(claims, key, algorithm="ES256", headers={"kid": "unknown"})
    stranger = Service(bench.callers()[0].address, token)

    def send() -> None:
        while not ended.wait(1.0):
            with suppress(service_probe.ProbeFailed):
                stranger.request("GET", "/v1/workspaces")

    threads = [threading.Thread(target=send, daemon=True) for _ in range(_STRANGERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()


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
