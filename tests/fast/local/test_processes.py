"""Processes of a run are found by their mark, ended by id, and end with a killed parent."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.local import cleanup_process, processes, run_folders
from agentenv.rehearsal.controlplane.client import until

if TYPE_CHECKING:
    import pytest

SLEEP = "import time; time.sleep(600)"
# Beside another run of these tests on this machine.
RUN_A, RUN_B, RUN_C, RUN_D = (f"run-{secrets.token_hex(4)}" for _ in range(4))


def sleeper(run: str, folder: Path) -> subprocess.Popen[bytes]:
    return processes.start(
        [sys.executable, "-c", SLEEP],
        environment={**os.environ, processes.MARK: run},
        log=folder / "sleeper.log",
        folder=folder,
    )


def test_only_the_processes_of_the_run_are_ended(tmp_path: Path) -> None:
    ours, others = sleeper(RUN_A, tmp_path), sleeper(RUN_B, tmp_path)
    try:
        assert processes.end(RUN_A) == 1
        assert ours.wait(10) == -signal.SIGTERM
        assert others.poll() is None
    finally:
        assert processes.end(RUN_B) == 1
        others.wait(10)


def test_a_grandchild_in_a_group_of_its_own_is_found(tmp_path: Path) -> None:
    child = (
        "import subprocess, sys;"
        f"subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True); print('up', flush=True)"
    )
    started = processes.start(
        [sys.executable, "-c", child],
        environment={**os.environ, processes.MARK: RUN_C},
        log=tmp_path / "log",
        folder=tmp_path,
    )
    started.wait(20)
    assert until(lambda: len(processes.marked(RUN_C)) == 1, 180)
    assert processes.end(RUN_C) == 1
    assert processes.marked(RUN_C) == []


def test_a_process_that_ignores_the_polite_signal_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_GRACE_SECONDS", 0.3)
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    started = processes.start(
        [sys.executable, "-c", stubborn],
        environment={**os.environ, processes.MARK: RUN_D},
        log=tmp_path / "log",
        folder=tmp_path,
    )
    assert until(lambda: (tmp_path / "log").read_bytes() == b"up\n", 180)
    processes.end(RUN_D)
    assert started.wait(10) == -signal.SIGKILL


def test_a_rehearsal_killed_outright_leaves_nothing(tmp_path: Path) -> None:
    """The parent is killed with SIGKILL; its cleanup process ends its server and deletes its folder."""
    parent = f"""
import os, sys, time
from pathlib import Path
from agentenv.local import processes, run_folders, cleanup_process
run = run_folders.create(Path({str(tmp_path)!r}))
cleanup_process.start(run.id, run.folder)
processes.start([sys.executable, "-c", {SLEEP!r}], environment={{**os.environ, processes.MARK: run.id}},
                log=run.logs / "server.log", folder=run.folder)
print(run.id, flush=True)
time.sleep(600)
"""
    killed = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
    assert killed.stdout
    with killed.stdout:
        run_id = killed.stdout.readline().strip()
    assert until(lambda: len(processes.marked(run_id)) == 1, 180)
    killed.kill()
    killed.wait(10)
    assert until(lambda: not processes.marked(run_id), 180)
    assert until(lambda: not (tmp_path / run_id).exists(), 180)


def test_a_stopped_cleanup_process_deletes_nothing(tmp_path: Path) -> None:
    run = run_folders.create(tmp_path)
    keeper = cleanup_process.start(run.id, run.folder)
    started = sleeper(run.id, tmp_path)
    try:
        cleanup_process.stop(keeper, "kept")
        assert keeper.returncode == 0
        assert started.poll() is None
        assert run.folder.exists()
    finally:
        processes.end(run.id)
        started.wait(10)
        run.remove()
