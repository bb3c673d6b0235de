"""Choose the strongest runtime that works on this machine, by running workspaced in it once."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from agentenv.local import processes
from agentenv.local.sandboxes import root_folder
from agentenv.local.sandboxes.bundle import Bundle, Mount, Network, Runtime
from agentenv.local.sandboxes.gvisor import GVisor
from agentenv.local.sandboxes.latency import WithLatency
from agentenv.local.sandboxes.namespaces import Namespaces
from agentenv.local.sandboxes.plain import PlainProcesses

_TRY_SECONDS = 30.0
_USER = 61000


def choose(
    workspaced: Path, runsc: Path | None, folder: Path, latency: tuple[Path, float] | None = None
) -> tuple[Runtime | None, tuple[str, ...]]:
    """Return the first runtime in which workspaced runs, and why each stronger one was passed over.

    `latency` has the program that delays operations on homes, and the milliseconds.
    """
    passed_over: list[str] = []
    for plain in _runtimes(runsc, passed_over):
        runtime = WithLatency(plain, *latency) if latency else plain
        if (failure := attempt(runtime, workspaced, folder / "sandboxes" / f"try-{plain.name}")) is None:
            return runtime, tuple(passed_over)
        passed_over.append(f"{runtime.name}: {failure}")
    return None, tuple(passed_over)


def _runtimes(runsc: Path | None, passed_over: list[str]) -> Iterator[Runtime]:
    if runsc is not None:
        yield GVisor(runsc)
    else:
        passed_over.append("gvisor: runsc is not available")
    yield Namespaces()
    yield PlainProcesses()


def attempt(runtime: Runtime, workspaced: Path, folder: Path, podnetwork: Path | None = None) -> str | None:
    """Let workspaced copy itself into a volume, as another user; return why it failed, or None.

    With `podnetwork`, the sandbox has an interface.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("socket", "volume"):
        (folder / name).mkdir(parents=True)
    if os.geteuid() == 0:
        os.chown(folder / "volume", _USER, _USER)
    programs = root_folder.create(folder / "root", "try", "127.0.0.1")
    (folder / "root" / "opt" / "workspaced").touch()
    mounts = (
        *programs,
        Mount(workspaced, "/opt/workspaced", read_only=True),
        Mount(folder / "volume", "/mnt", network=True),
    )
    variables = {"PATH": root_folder.PATH}
    arguments = ("/opt/workspaced", "install", "/mnt")
    network = Network(podnetwork, "100.64.0.1", folder / "relay", folder / "inbound") if podnetwork else None
    id_ = f"try-{os.getpid()}"
    bundle = Bundle(id_, folder, folder / "root", arguments, variables, mounts, _USER, _USER, network=network)
    environment = {name: os.environ[name] for name in ("PATH", processes.MARK) if name in os.environ}
    try:
        result = subprocess.run(
            runtime.command(bundle),
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TRY_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"nothing ran within {_TRY_SECONDS:.0f} s"
    except OSError as error:
        return str(error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if result.returncode == 0:
        return None
    lines = (result.stderr.strip() or result.stdout.strip()).splitlines()
    return lines[-1][:300] if lines else f"it ended with {result.returncode}"
