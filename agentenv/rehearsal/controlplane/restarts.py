"""Start programs of the control plane again when they have ended, as a kubelet does with static pods.

It runs in the process of the simulated EKS, which outlives the one that started the plane.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from agentenv.local import processes

PROGRAMS_FILE = "programs.json"
ENDING_FILE = "ending"  # in the plane's folder once it is being stopped
_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.5
_BACKOFF_SECONDS = (0.0, 1.0, 5.0, 10.0, 30.0)


@dataclass
class _Program:
    command: list[str]
    process: psutil.Process | None
    restarts: int = 0
    due: float | None = field(default=None)  # how long its next start waits still


def write(folder: Path, commands: Mapping[str, tuple[int, list[str]]]) -> None:
    """Write the process ids and command lines of the programs, once the plane is up."""
    unfinished = folder / f"{PROGRAMS_FILE}.new"
    unfinished.write_text(json.dumps(commands) + "\n", encoding="utf-8")
    unfinished.rename(folder / PROGRAMS_FILE)


def stop(folder: Path) -> None:
    """Start nothing again from now on."""
    (folder / ENDING_FILE).touch()


def run(folder: Path, ended: threading.Event) -> None:
    """Watch the programs until the event is set or the plane ends."""
    programs: dict[str, _Program] = {}
    while not ended.wait(_POLL_SECONDS):
        if not programs and (folder / PROGRAMS_FILE).exists():
            rows = json.loads((folder / PROGRAMS_FILE).read_text(encoding="utf-8"))
            programs = {name: _Program(command, _process(pid)) for name, (pid, command) in rows.items()}
        for name, program in programs.items():
            if not _is_running(program.process) and not (folder / ENDING_FILE).exists():
                _restart(folder, name, program)


def _restart(folder: Path, name: str, program: _Program) -> None:
    if program.due is None:
        program.due = _BACKOFF_SECONDS[min(program.restarts, len(_BACKOFF_SECONDS) - 1)]
    if program.due > 0:
        program.due -= _POLL_SECONDS
        return
    program.due = None
    program.restarts += 1
    log = folder / "logs" / f"{name}.log"
    _LOG.warning("%s has ended and is started again (%d); see %s", name, program.restarts, log)
    started = processes.start(program.command, environment=os.environ, log=log, folder=folder)
    # Its end is collected here, since nobody else waits for it.
    threading.Thread(target=started.wait, name=name, daemon=True).start()
    program.process = _process(started.pid)


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def _is_running(process: psutil.Process | None) -> bool:
    try:
        return process is not None and process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
