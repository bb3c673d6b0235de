"""Time the clients of agents: from `pip install` to the first output, the e2b client, and MCP beside `exec`.

Both sides of each comparison run in turn. `agentenv dev` has no warm pool, so a creation there is a cold start, by the
e2b client and by our own. Beside a raw claim of a pool the e2b client is timed against the local stack.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from agentenv.cli.main import CommandError
from agentenv.client import Client
from agentenv.client.sandbox import Command, Ended, Sandbox
from bench import clients_pool
from bench.timing import figures, ratios, seconds

_ROOT = Path(__file__).resolve().parent.parent
CREATIONS, CALLS = 5, 50
_END_SECONDS = 60.0


def measure(repeat: int) -> dict[str, Any]:
    """Return the figures of a service that is started anew, with `repeat` rounds of each comparison."""
    with tempfile.TemporaryDirectory() as folder:
        first = _first_output(Path(folder))
        with _served(sys.executable, Path(folder) / "state") as facts:
            address, key = facts["service"], Path(facts["key_file"]).read_text("ascii").strip()
            with Client(address, key) as client:
                own, foreign, executed, tool = list[float](), list[float](), list[float](), list[float]()
                _workspace(client)
                create = _e2b(client, address, key)
                for _ in range(repeat):
                    own += [_workspace(client) for _ in range(CREATIONS)]
                    foreign += [create() for _ in range(CREATIONS)]
                id_ = client.create_workspace({"class": "standard"}, wait=60)["id"]
                sandbox = client.sandbox(id_)
                with _mcp(address, key) as mcp:
                    for _ in range(repeat):
                        executed += [seconds(lambda: _run(sandbox, "true")) for _ in range(CALLS)]
                        tool += [seconds(lambda: _call(mcp, id_)) for _ in range(CALLS)]
    exec_, run, workspace, e2b = (figures([1000 * taken for taken in side]) for side in (executed, tool, own, foreign))
    return {
        "dev": first,
        "pool": clients_pool.measure(repeat),
        "create": {"workspace": workspace, "e2b": e2b, "ratio": ratios(e2b, workspace)},
        "mcp": {"exec": exec_, "run": run, "ratio": ratios(run, exec_)},
    }


def _first_output(folder: Path) -> dict[str, float]:
    """Return the seconds of each step from `pip install` of this checkout to the first output of a workspace.

    An earlier installation has filled pip's cache. The programs are those of the user's cache.
    """
    python = folder / "environment" / "bin" / "python"

    def create_environment() -> None:
        subprocess.run([sys.executable, "-m", "venv", "--clear", python.parents[1]], check=True)

    def install() -> None:
        quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
        subprocess.run([python, "-m", "pip", "install", *quiet, "-e", f"{_ROOT}[dev]"], check=True)

    create_environment()
    install()
    create_environment()
    steps = {"pip_install_s": seconds(install)}
    began = time.monotonic()
    with _served(str(python), folder / "first") as facts:
        steps["start_s"] = time.monotonic() - began
        with Client(facts["service"], Path(facts["key_file"]).read_text("ascii").strip()) as client:
            steps["output_s"] = _workspace(client)
    return {name: round(taken, 2) for name, taken in [*steps.items(), ("total_s", sum(steps.values()))]}


@contextmanager
def _served(python: str, state: Path) -> Generator[dict[str, Any]]:
    """Run `agentenv dev` on a folder of its own, and yield what it prints."""
    command = [python, "-m", "agentenv", "dev", "--port", "0", "--json", "--state", str(state)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise CommandError("`agentenv dev` did not start")
            yield json.loads(line)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(_END_SECONDS)


def _workspace(client: Client) -> float:
    """Return the seconds until the first output of a new workspace, which is deleted then."""
    began = time.monotonic()
    body: Any = {"class": "standard", "mode": "session", "session": os.urandom(8).hex()}
    id_ = client.create_workspace(body, wait=60)["id"]
    _run(client.sandbox(id_), "echo")
    taken = time.monotonic() - began
    client.delete_workspace(id_, destroy=True)
    return taken


def _e2b(client: Client, address: str, key: str) -> Callable[[], float]:
    from e2b import Sandbox as E2bSandbox

    options: Any = {"api_key": key, "api_url": f"{address}/e2b", "sandbox_url": client.entrance("w-none")[0]}

    def create() -> float:
        began = time.monotonic()
        sandbox = E2bSandbox.create(timeout=120, **options)
        sandbox.commands.run("echo")
        taken = time.monotonic() - began
        sandbox.kill()
        return taken

    return create


def _run(sandbox: Sandbox, line: str) -> None:
    ended = [event for event in sandbox.start(Command.shell(line)) if isinstance(event, Ended)]
    if not ended or ended[0].exit_code:
        raise CommandError(f"{line} failed")


@contextmanager
def _mcp(address: str, key: str) -> Generator[httpx2.Client]:
    headers = {"Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream"}
    with httpx2.Client(base_url=address, headers=headers, timeout=90, trust_env=False) as http:
        yield http


def _call(http: httpx2.Client, workspace: str) -> None:
    arguments = {"workspace": workspace, "command": "true"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run", "arguments": arguments}}
    document = http.post("/mcp", json=body).json()
    if "error" in document or document["result"].get("isError"):
        raise CommandError(f"the tool failed: {document}")
