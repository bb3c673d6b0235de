"""Processes of a run: started with its mark in their environment, found by it, ended by id.

The engine puts plugins into process groups of their own, and plugins may start more. So neither a group nor the
process tree contains everything once a parent has been killed. An environment variable does: every descendant
inherits it.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from agentenv.local import cgroups

MARK = "AGENTENV_RUN"
_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.1


def start(arguments: list[str], *, environment: Mapping[str, str], log: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start a background process of a run, with its output in a log file."""
    with log.open("ab") as sink:
        return subprocess.Popen(
            arguments,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            # The rehearsal handles Ctrl-C itself: it ends its servers last, after the engine
            start_new_session=True,
        )


def stop(process: subprocess.Popen[bytes], grace: float, terminate: Callable[[], None] | None = None) -> int:
    """End a started process, with SIGTERM first and SIGKILL after a grace period; return its exit code."""
    if process.poll() is None:
        (terminate or process.terminate)()
    try:
        return process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def marked(run: str) -> list[psutil.Process]:
    """Return every process with this run's mark, except the current one."""
    processes: list[psutil.Process] = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            if process.environ().get(MARK) == run and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
        except (psutil.Error, OSError):
            continue  # another user's, a kernel thread, or ended meanwhile
    return processes


def end(run: str) -> int:
    """End every process of a run, with SIGTERM first, and delete its cgroups; return how many processes there were."""
    ended: set[int] = set()
    deadline = time.monotonic() + _GRACE_SECONDS
    while processes := marked(run):
        late = time.monotonic() > deadline
        for process in processes:
            # psutil checks the creation time before it signals, so a reused process id is safe
            try:
                process.kill() if late else process.terminate()
            except psutil.Error:
                continue
            ended.add(process.pid)
        time.sleep(_POLL_SECONDS)  # not psutil.wait_procs: it would consume the exit codes of our own children
    cgroups.remove(run)
    return len(ended)
