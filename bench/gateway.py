"""Measure the gateway: the real Envoy, service and sandboxes of one machine, beside an authorizer that always allows.

A warm request goes to the pod itself, through Envoy with the service, and through the same Envoy with an authorizer
that always gives the same answer, in turn. Wakes are compared with resumes by the API of the same run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from agentenv.client.sandbox import Command
from agentenv.core.gateway.envoy import EnvoyPlan
from agentenv.core.gateway.hosts import port_host
from agentenv.core.workspaces.workspace import CreateRequest, Workspace
from agentenv.dev import gateway
from agentenv.dev.machine import Machine, machine
from agentenv.dev.serve import Local, local_service
from agentenv.dev.settings import default_settings
from agentenv.dev.state import State, opened
from agentenv.local.sandboxes import detect
from agentenv.rehearsal.controlplane.ports import HOST, Ports
from agentenv.rehearsal.tools.progress import terminal_progress
from agentenv.service.configuration import Configuration
from agentenv.service.gateway.entry import DESTINATION, PORT, TOKEN, Allow, Decision, EntryRequest
from agentenv.service.gateway.server import serving
from agentenv.service.gateway.setup import running_gateway
from agentenv.service.workspaced.tokens import Grant
from bench.timing import percentile

PROGRAM = Path(__file__).with_name("gateway_program.py")
NUMBER = 3000  # of the program's port
RATE, SECONDS, CONNECTIONS = 200.0, 10.0, 16
FLOOD_SECONDS, FLOOD_CONNECTIONS = 5.0, 32
# A workspace has 1,024 connections at most.
WEBSOCKETS, WORKSPACES = 2_000, 4
WAKES, AT_ONCE = 5, 50
EXECS = 20
_SIGN_SECONDS = 20.0
_WAIT = 60.0

T = TypeVar("T")
Figures = dict[str, float]


@dataclass
class Bench:
    """The running parts, and the workspaces that programs run in."""

    local: Local
    key: str
    owner: str
    through: EnvoyPlan
    allow_all: EnvoyPlan
    envoy: int  # the process of the one with the service
    workspaces: list[Workspace]

    def target(self, plan: EnvoyPlan, workspace: Workspace) -> dict[str, Any]:
        """Return a target of requests by host."""
        host = port_host(NUMBER, workspace.id, plan.workspace_domain)
        return {"address": [HOST, plan.port], "host": host, "headers": {"Authorization": f"Bearer {self.key}"}}

    async def direct(self, workspace: Workspace) -> dict[str, Any]:
        """Return a target of requests at the pod."""
        headers = await pod_headers(self.local, workspace)
        address = headers.pop(DESTINATION).split(":")
        return {"address": [address[0], int(address[1])], "host": HOST, "headers": headers}


def measure(repeat: int) -> dict[str, Any]:
    """Return the figures of the contract: times in milliseconds, memory in MB."""
    with (
        machine(terminal_progress()) as on,
        tempfile.TemporaryDirectory(prefix="bench") as folder,
        opened(Path(folder)) as state,
    ):
        # gVisor's network would be most of what is measured.
        runtime, _ = detect.choose(on.workspaced, None, on.run.folder)
        return asyncio.run(_measure(replace(on, runtime=_present(runtime)), state, repeat))


async def _measure(on: Machine, state: State, repeat: int) -> dict[str, Any]:
    async with _running(on, state) as bench:
        figures = await _warm(bench, repeat)
        figures |= await _websockets(bench, figures["through"])
        figures["exec_ms"] = await _execs(bench)
        figures |= await _wakes(bench)
        return figures


@contextlib.asynccontextmanager
async def _running(on: Machine, state: State) -> AsyncGenerator[Bench]:
    """Run the service, an Envoy with its authorizer, another with one that always allows, and workspaces."""
    names = ("authorizer", "allowing", "gateway", "status", "other", "other-status")
    async with contextlib.AsyncExitStack() as stack:
        ports = stack.enter_context(Ports(names))
        local = await stack.enter_async_context(
            local_service(default_settings(), state, lambda keys: on.sandboxes(state.homes, keys))
        )
        configuration = Configuration(
            settings=local.dependencies.catalog.settings,
            replica="bench",
            host=HOST,
            authorizer_port=ports["authorizer"],
        )
        await stack.enter_async_context(running_gateway(configuration, local.dependencies, local.signer, local.secrets))
        owner = (await local.dependencies.authenticator.caller(f"Bearer {state.key()}")).owner
        workspaces = [await _workspace(local, owner, f"bench-{number}") for number in range(WORKSPACES)]
        for workspace in workspaces:
            await _start_program(local, workspace)
        await stack.enter_async_context(
            serving(await _allowing(local, workspaces[0], stack), f"{HOST}:{ports['allowing']}")
        )
        plan = gateway.envoy_plan(
            on.run,
            port=ports["gateway"],
            status_port=ports["status"],
            service_port=1,  # no request is for the API
            authorizer_port=ports["authorizer"],
        )
        # All load comes from one address.
        plan = replace(plan, source_requests=100_000, source_burst=100_000)
        other = replace(
            plan,
            port=ports["other"],
            status_port=ports["other-status"],
            authorizer_port=ports["allowing"],
            admin_socket=f"{plan.admin_socket}2",
        )
        envoy = await stack.enter_async_context(gateway.running_envoy(on.run, plan))
        second = replace(on.run, folder=on.run.folder / "other")
        (second.folder / "logs").mkdir(parents=True)
        await stack.enter_async_context(gateway.running_envoy(second, other))
        bench = Bench(local, state.key(), owner, plan, other, envoy.pid, workspaces)
        for each in (plan, other):
            await _until_served(bench.target(each, workspaces[0]))
        yield bench


async def _workspace(local: Local, owner: str, key: str) -> Workspace:
    request = CreateRequest(owner, key, "standard", "bench")
    result = await local.backend.create(request, wait=_WAIT)
    if not result.ready:
        raise AssertionError(f"{key} does not run: {result.workspace.why}")
    return result.workspace


async def _start_program(local: Local, workspace: Workspace) -> None:
    sandboxes = _present(local.dependencies.sandboxes)
    sandbox = await sandboxes.sandbox(workspace)
    await sandbox.write("program.py", PROGRAM.read_bytes())
    events = sandbox.start(Command.shell(f"(ulimit -n 16384; setsid python3 program.py {NUMBER} >/dev/null 2>&1 &)"))
    async for _ in events:
        pass


async def pod_headers(local: Local, workspace: Workspace) -> dict[str, str]:
    """Return the headers by which a request at the pod reaches the program, and its destination."""
    pod = _present(local.backend.endpoint(workspace.id))
    token = await local.signer.sign(Grant(pod.pod_uid, f"port:{NUMBER}", pod.claim_uid))
    return {DESTINATION: pod.destination, TOKEN: token, PORT: str(NUMBER)}


async def _allowing(
    local: Local, workspace: Workspace, stack: contextlib.AsyncExitStack
) -> Callable[[EntryRequest], Awaitable[Decision]]:
    """Return an authorizer that always gives the same answer, whose token is renewed beside it."""
    answer = Allow(await pod_headers(local, workspace), ("authorization",))

    async def renew() -> None:
        nonlocal answer
        while True:
            await asyncio.sleep(_SIGN_SECONDS)
            answer = Allow(await pod_headers(local, workspace), ("authorization",))

    async def check(_: EntryRequest) -> Decision:
        return answer

    renewing = asyncio.create_task(renew())
    stack.callback(renewing.cancel)
    return check


async def _until_served(target: dict[str, Any]) -> None:
    async with asyncio.timeout(_WAIT):
        while (await _load("rate", [target], rate=10, seconds=0.2, connections=1))["refused"]:
            await asyncio.sleep(0.2)


async def _warm(bench: Bench, repeat: int) -> dict[str, Any]:
    """Measure warm requests at a rate on each way, in turn; the best run of each counts."""
    workspace = bench.workspaces[0]
    found: dict[str, Figures] = {}
    for _ in range(repeat):
        targets = {
            "direct": await bench.direct(workspace),
            "through": bench.target(bench.through, workspace),
            "allow_all": bench.target(bench.allow_all, workspace),
        }
        for name, target in targets.items():
            run = _latency(await _load("rate", [target], rate=RATE, seconds=SECONDS, connections=CONNECTIONS))
            best = found.setdefault(name, run)
            found[name] = {key: min(best[key], value) for key, value in run.items()}
    flood = await _load(
        "flood",
        [bench.target(bench.through, workspace)],
        seconds=FLOOD_SECONDS,
        connections=FLOOD_CONNECTIONS,
    )
    through, allow_all = found["through"], found["allow_all"]
    return {
        **found,
        "added_ms": round(through["p50_ms"] - found["direct"]["p50_ms"], 2),
        "ratio": {key: round(through[key] / allow_all[key], 2) for key in through},
        "rps": round(flood["rps"]),
    }


async def _websockets(bench: Bench, before: Figures) -> dict[str, Any]:
    """Open WebSockets, and measure warm requests beside them."""
    targets = [bench.target(bench.through, workspace) for workspace in bench.workspaces]
    job = {"kind": "websockets", "targets": targets, "each": WEBSOCKETS // len(targets)}
    process = await _process(job)
    try:
        first = await _present(process.stdout).readline()
        if not first:
            raise AssertionError("the WebSockets were not opened")
        result = json.loads(first)
        memory = _memory(bench.envoy)
        rate = await _load("rate", targets[:1], rate=RATE, seconds=SECONDS, connections=CONNECTIONS)
    finally:
        _present(process.stdin).close()
        await process.wait()
    beside = _latency(rate)
    slower = {key: round(beside[key] / before[key], 2) for key in beside}
    return {"websockets": result["opened"], **memory, "beside_websockets": slower}


async def _execs(bench: Bench) -> float:
    """Return the median of the times from a command's request by host to its end."""
    from agentenv.client.sandbox import AsyncSandbox

    workspace, durations = bench.workspaces[0], list[float]()
    async with _client(bench, Host=port_host(49983, workspace.id, bench.through.workspace_domain)) as http:
        sandbox = AsyncSandbox(http)
        for _ in range(EXECS):
            began = time.perf_counter()
            async for _event in sandbox.start(Command.shell("true")):
                pass
            durations.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(durations), 1)


async def _wakes(bench: Bench) -> dict[str, Any]:
    """Measure wakes by a request, and resumes by the API; at first one by one, then many at once."""
    workspace, backend = bench.workspaces[0], bench.local.backend
    resumes, wakes = list[float](), list[float]()
    # Creating it reads the certificates of the system, which takes as long as a wake.
    http = _client(bench)
    for _ in range(WAKES):
        await _suspend(bench, [workspace])
        resumes.append(await _timed(backend.resume(workspace.id, wait=_WAIT)))
        await _suspend(bench, [workspace])
        wakes.append(await _timed(_visit(bench, http, workspace)))
    many = bench.workspaces + [
        await _workspace(bench.local, bench.owner, f"bench-{number}") for number in range(WORKSPACES, AT_ONCE)
    ]
    await _suspend(bench, many)
    resumed = await asyncio.gather(*(_timed(backend.resume(each.id, wait=_WAIT)) for each in many))
    await _suspend(bench, many)
    woken = await asyncio.gather(*(_timed(_visit(bench, http, each)) for each in many))
    await http.aclose()
    return {
        "wake_ms": round(statistics.median(wakes), 1),
        "resume_ms": round(statistics.median(resumes), 1),
        "at_once": {
            "count": len(many),
            "wake_p99_ms": round(percentile(woken, 99), 1),
            "resume_p99_ms": round(percentile(resumed, 99), 1),
        },
    }


async def _suspend(bench: Bench, workspaces: Sequence[Workspace]) -> None:
    backend = bench.local.backend
    for workspace in workspaces:
        await backend.suspend(workspace.id, "asked")
    for workspace in workspaces:
        async with asyncio.timeout(_WAIT):
            while (current := backend.cached(workspace.id)) is None or current.state != "suspended":
                await asyncio.sleep(0.01)


async def _visit(bench: Bench, http: Any, workspace: Workspace) -> None:
    """Send a request to workspaced by host, which wakes it."""
    host = port_host(49983, workspace.id, bench.through.workspace_domain)
    response = await http.get("/files", params={"path": ".profile-of-nobody"}, headers={"Host": host})
    if response.status_code != 404:
        raise AssertionError(f"a wake was answered with {response.status_code}: {response.text}")


def _client(bench: Bench, **more: str) -> Any:
    import httpx2

    headers = {"Authorization": f"Bearer {bench.key}", **more}
    return httpx2.AsyncClient(
        base_url=f"http://{HOST}:{bench.through.port}", headers=headers, trust_env=False, timeout=_WAIT + 5
    )


async def _timed(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return (time.perf_counter() - began) * 1000


async def _load(kind: str, targets: list[dict[str, Any]], **options: float) -> dict[str, Any]:
    process = await _process({"kind": kind, "targets": targets, **options})
    out, _ = await process.communicate()
    if process.returncode:
        raise AssertionError(f"the load ended with {process.returncode}")
    return json.loads(out)


async def _process(job: dict[str, Any]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.gateway_load",
        json.dumps(job),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).resolve().parent.parent,
        limit=2**24,
    )


def _present(value: T | None) -> T:
    if value is None:
        raise AssertionError("a part of the benchmark is missing")
    return value


def _latency(result: dict[str, Any]) -> Figures:
    if result["refused"]:
        raise AssertionError(f"{result['refused']} requests were refused")
    return {"p50_ms": round(statistics.median(result["ms"]), 2), "p99_ms": round(percentile(result["ms"], 99), 2)}


def _memory(pid: int) -> Figures:
    """Return the memory of a process, and that without the pages of files, which the kernel can take back."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    mb = {
        key: int(value.split()[0]) * 1024 / 1e6
        for key, value in (row.split(":", 1) for row in status.splitlines())
        if key in {"VmRSS", "RssFile"}
    }
    return {"memory_mb": round(mb["VmRSS"], 1), "own_memory_mb": round(mb["VmRSS"] - mb["RssFile"], 1)}
