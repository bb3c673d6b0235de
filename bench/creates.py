"""Time creates for owners with 5,000 rows of this month beside raw claims, or creates while each remote service hangs.

Each create is for another user of an issuer, of a warm pool. Those of owners with rows are compared as in `service.py`.

A remote that hangs accepts connections and answers none: DynamoDB, STS, the issuer and Prometheus each by itself, and
AWS as a whole when the process that simulates it is stopped. Half of a turn's creates, one a second, begin at once
with it, and half after the time for which it hangs. They are compared with a turn of the same round in which nothing
hangs.

A turn ends only once a request waits for the remote, so each turn causes the rare ones. Replicas are replaced while STS
hangs, so that they have no credentials. Tokens of an unknown key arrive while the issuer hangs. The loops ask
Prometheus about a workspace that stays, and would be idle. Where AWS hangs, no slot is refilled, so a turn has fewer
creates than the pool has slots.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from agentenv.cli.main import CommandError
from agentenv.core.service.deployment import LABELS, LOOPS_LABELS
from agentenv.core.service.rbac import NAME
from agentenv.local import processes
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.scenario import service_probe
from agentenv.rehearsal.scenario.service_probe import Service
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.stage import Stage, stage
from agentenv.rehearsal.tools.progress import terminal_progress
from agentenv.service.http.auth.callers import owner_id
from bench import ledger_rows, remotes, stacks
from bench.remotes import Remotes
from bench.timing import figures, load, ratios
from bench.warm_pool import PER_TURN, WarmPool

if TYPE_CHECKING:
    import psutil

Object = dict[str, Any]

OWNERS, ROWS = 10, 5_000
RATE, CREATES = 1.0, 20
POOL = 40  # more than the largest turn creates
CLOUD = "agentenv.rehearsal.cloud"
NOTHING, HANGING = "nothing", (*remotes.NAMES, "aws")
_STRANGERS = 4
_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True)
class _Bench:
    """What every turn needs."""

    opened: Stage
    client: Client
    plane: Path
    remotes: Remotes

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


def measure(repeat: int, hanging_seconds: float | None = None) -> dict[str, Any]:
    """Compare creates with raw claims, for owners with rows; or those while remotes hang so long with others."""
    with stage(terminal_progress(), cluster=ClusterOptions(heap=stacks.HEAP)) as opened, ExitStack() as ending:
        if opened.cluster is None:
            raise CommandError("there is no cluster on this stage")
        client, relays = opened.cluster.plane.client, ending.enter_context(remotes.remotes(opened))
        config = stacks.with_service(10 * POOL)
        relays.configure(config)
        stacks.project(opened, config).up()
        relays.lead(client)
        bench = _Bench(opened, client, opened.cluster.plane.layout.folder, relays)
        # It stays idle, so that the loops ask Prometheus whether it is.
        idle = {"class": config[stacks.CLASSES][0]["name"], "key": "idle", "idle_after": 60}
        bench.callers()[0].request("POST", "/v1/workspaces?wait=60", idle)
        pool = ending.enter_context(closing(WarmPool(client, POOL)))
        if hanging_seconds is not None:
            return _while_hanging(bench, pool, repeat, hanging_seconds)
        owners = [owner_id(relays.issuer.url, user) for user in bench.users]
        ledger_rows.write(stacks.aws_client(opened, "dynamodb"), _ledger(client), owners, ROWS)
        create = functools.partial(pool.creates, bench.callers())
        by_rate = {f"{rate}/s": pool.compare(create, rate, count, 2 * repeat) for rate, count in PER_TURN.items()}
    return {**by_rate, "rows": ROWS, "owners": OWNERS}


def _while_hanging(bench: _Bench, pool: WarmPool, repeat: int, hanging_seconds: float) -> dict[str, Any]:
    """Return the figures of creates while nothing hangs and while each remote does, in turn."""
    found: dict[str, list[float]] = {name: [] for name in (NOTHING, *HANGING)}
    loads = dict.fromkeys(found, 0.0)
    for _ in range(repeat):
        for name, milliseconds in found.items():
            pool.rest()
            with _hanging(bench, name, hanging_seconds) as wait:
                milliseconds.extend(pool.creates(bench.callers(), RATE, CREATES // 2))
                wait()
                milliseconds.extend(pool.creates(bench.callers(), RATE, CREATES - CREATES // 2))
            loads[name] = max(loads[name], load())
    measured = {name: figures(milliseconds) for name, milliseconds in found.items()}
    return {
        **measured,
        "ratios": {name: ratios(measured[name], measured[NOTHING]) for name in HANGING},
        "loads": loads,
        "hanging_s": hanging_seconds,
        "held": {name: relay.held for name, relay in bench.remotes.relays.items()},
        "creates": len(found[NOTHING]),
    }


@contextmanager
def _hanging(bench: _Bench, name: str, seconds: float) -> Generator[Callable[[], None]]:
    """Let a remote hang while the context is open; yield what waits until it has for its time.

    Where nothing hangs, the pause between the halves of a turn is as long.
    """
    began = time.monotonic()

    def pause() -> None:
        time.sleep(max(0.0, began + seconds - time.monotonic()))

    if name in {NOTHING, "aws"}:
        clouds = _clouds(bench.opened) if name == "aws" else []
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
