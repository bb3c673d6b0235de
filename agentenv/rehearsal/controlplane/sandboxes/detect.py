"""Choose the strongest runtime that works on this machine, by running workspaced in it once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from agentenv.rehearsal.controlplane.sandboxes import root_folder
from agentenv.rehearsal.controlplane.sandboxes.bundle import Bundle, Mount, Runtime
from agentenv.rehearsal.controlplane.sandboxes.gvisor import GVisor
from agentenv.rehearsal.stage import processes

_TRY_SECONDS = 30.0


def choose(workspaced: Path, runsc: Path | None, folder: Path) -> tuple[Runtime | None, tuple[str, ...]]:
    """Return the first runtime in which workspaced runs, and why each stronger one was passed over."""
    passed_over: list[str] = []
    for runtime in _runtimes(runsc, passed_over):
        if (failure := attempt(runtime, workspaced, folder / "sandboxes" / f"try-{runtime.name}")) is None:
            return runtime, tuple(passed_over)
        passed_over.append(f"{runtime.name}: {failure}")
    return None, tuple(passed_over)


def _runtimes(runsc: Path | None, passed_over: list[str]) -> Iterator[Runtime]:
    if not sys.platform.startswith("linux"):
        passed_over.append("workspaced runs on Linux only")
        return
    if runsc is not None:
        yield GVisor(runsc)
    else:
        passed_over.append("gvisor: runsc is not available")


def attempt(runtime: Runtime, workspaced: Path, folder: Path) -> str | None:
    """Run `workspaced version` in the runtime; return why it failed, or None."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "socket").mkdir(parents=True)
    programs = root_folder.create(folder / "root", "try", "127.0.0.1")
    (folder / "root" / "opt").joinpath("workspaced").touch()
    mounts = (*programs, Mount(workspaced, "/opt/workspaced", read_only=True))
    variables = {"PATH": root_folder.PATH}
    arguments = ("/opt/workspaced", "version")
    bundle = Bundle(
        f"try-{os.getpid()}", folder, folder / "root", arguments, variables, mounts, os.geteuid(), os.getegid()
    )
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
