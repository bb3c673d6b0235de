"""Time `Sandbox.create()` of the e2b client to its first output, beside a raw claim of the same pool; and 50 at once.

The local stack runs with its gateway and with sandboxes in which commands run. The client reaches it over TLS, through
the load balancer and Envoy. The pool has 50 sandboxes and refills between turns, as in `agentenv bench service`.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.config import read
from agentenv.rehearsal.scenario import gateway_probe, service_probe
from agentenv.rehearsal.scenario.service_probe import Service
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.stage import stage
from agentenv.rehearsal.tools.progress import terminal_progress
from bench import stacks
from bench.warm_pool import WarmPool, each, paced
from tests.relay import Relay, connect_every_host

Object = dict[str, Any]

RATE, CREATES, BURST = 1.0, 20, 50
CALLERS = 4  # as the rate limit is a caller's
AT_ONCE = 1e6  # a second


def measure(repeat: int) -> dict[str, Any]:
    """Return the figures of both sides, one a second and 50 at once, with their ratios."""
    config = stacks.with_service(10 * BURST, gateway=True)
    options = dataclasses.replace(ClusterOptions.for_stack(read(config, stacks.STACK)), heap=stacks.HEAP)
    with stage(terminal_progress(), cluster=options) as opened, ExitStack() as ending:
        if opened.cluster is None:
            raise CommandError("there is no cluster on this stage")
        stacks.project(opened, config).up()
        client, folder = opened.cluster.plane.client, opened.cluster.plane.layout.folder
        front = gateway_probe.front_of(config["agent-environment:service"], opened.query("balancers"))
        if front is None:
            raise CommandError("the stack has no gateway")
        callers = [ending.enter_context(service_probe.service_client(client, folder)) for _ in range(CALLERS)]
        pool = ending.enter_context(closing(WarmPool(client, BURST)))
        options_ = ending.enter_context(_options(front, callers, pool.class_name))

        def create(rate: float, count: int) -> list[float]:
            return _creates(options_, rate, count)

        single = pool.compare(create, RATE, CREATES, repeat, "e2b")
        burst = pool.compare(create, AT_ONCE, BURST, 1, "e2b")
    return {**single, "burst": {"requested": BURST, "ready": burst["count"], **burst}}


def _creates(options: list[Object], rate: float, count: int) -> list[float]:
    """Return the milliseconds from each creation to the first output of the sandbox."""
    from e2b import Sandbox

    created: list[Sandbox] = []

    def create(number: int) -> float:
        began = time.monotonic()
        sandbox = Sandbox.create(timeout=300, **options[number % len(options)])
        created.append(sandbox)
        if sandbox.commands.run("echo ran").stdout != "ran\n":
            raise CommandError(f"a command in {sandbox.sandbox_id} had no output")
        return time.monotonic() - began

    milliseconds = paced(rate, count, create)
    each(lambda sandbox: sandbox.kill(), created)
    return milliseconds


@contextmanager
def _options(front: gateway_probe.Front, callers: list[Service], class_name: str) -> Generator[list[Object]]:
    """Yield the client's options for each caller, whose keys end with them."""
    domain, (host, _, port) = front.workspace_domain, front.address.rpartition(":")
    body = {"name": "bench", "scopes": ["read", "use", "create", "wake"], "expires_in": 3600}
    keys = [caller.request("POST", "/v1/keys", body) for caller in callers]
    before = os.environ.get("SSL_CERT_FILE")
    os.environ["SSL_CERT_FILE"] = front.authority
    try:
        # No resolver knows the hosts
        with closing(Relay((host, int(port)), greet=connect_every_host)) as proxy:
            api = {"template": class_name, "domain": domain, "api_url": f"https://api.{domain}/e2b"}
            yield [{**api, "proxy": proxy.address, "api_key": key["key"]} for key in keys]
    finally:
        os.environ.pop("SSL_CERT_FILE")
        os.environ |= {} if before is None else {"SSL_CERT_FILE": before}
        for caller, key in zip(callers, keys, strict=True):
            caller.request("DELETE", f"/v1/keys/{key['id']}")
