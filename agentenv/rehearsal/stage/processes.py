"""Processes of a run: started with its mark in their environment, found by it, ended by id.

The engine puts plugins into process groups of their own, and plugins may start more, so neither a group nor the tree
below us finds everything once a parent has been killed. An environment variable does: every descendant inherits it.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

MARK = "AGENTENV_RUN"
_GRACE_SECONDS = 5.0
_PAUSE_SECONDS = 0.1


def start(arguments: list[str], *, environment: Mapping[str, str], log: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start a server of a run in the background, its output in a log file."""
    with log.open("ab") as sink:
        return subprocess.Popen(
            arguments,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            # Ctrl-C in the terminal is for the rehearsal to handle: it ends its servers last, once the engine is done
            start_new_session=True,
        )


def marked(run: str) -> list[psutil.Process]:
    """Every process of ours that carries this run's mark, this one excepted."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            if process.environ().get(MARK) == run and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue  # another user's, a kernel thread, or gone meanwhile: not ours to end
    return found


def end(run: str) -> int:
    """End every process of a run, politely first; returns how many there were."""
    ended: set[int] = set()
    deadline = time.monotonic() + _GRACE_SECONDS
    while processes := marked(run):
        late = time.monotonic() > deadline
        for process in processes:
            # psutil checks the creation time before it signals, so an id that was given away is not hit
            try:
                process.kill() if late else process.terminate()
            except psutil.Error:
                continue
            ended.add(process.pid)
        time.sleep(_PAUSE_SECONDS)  # not psutil's wait: it would take our own children's exit codes away
    return len(ended)
