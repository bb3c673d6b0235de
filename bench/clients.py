"""Kubernetes clients that the service could speak by: what making and reading a claim costs in this process, and how
many of them go through at once, against the same API server, in one environment that has all of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.rehearsal.stage import run_folders
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.stage import stage
from agentenv.rehearsal.tools.progress import terminal_progress
from bench.crowd import hold_off

PINNED = Path(__file__).with_name("clients.txt")
# As a module: as a script, its folder would come first, where `service` is a benchmark.
SIDE = "bench.client_side"
NAMES = ("wire", "httpx", "lightkube", "agent-sandbox", "kr8s")
PER_REPEAT = 100


def measure(repeat: int) -> dict[str, Any]:
    """Each of them in a process of its own, one after the other, several times round; the best of each counts."""
    root = Path(__file__).resolve().parent.parent
    python = _installed()
    found: dict[str, dict[str, float]] = {}
    with stage(terminal_progress(), cluster=ClusterOptions()) as opened:
        if opened.cluster is None:
            raise CommandError("there is no cluster on this stage")
        opened.project(root, "local").up()
        plane = opened.cluster.plane
        hold_off(plane.client)
        environment = {**os.environ, "PYTHONPATH": str(root)}
        for _ in range(repeat):
            for name in NAMES:
                call = [str(python), "-m", SIDE, name, str(plane.kubeconfig()), str(PER_REPEAT)]
                ended = subprocess.run(call, capture_output=True, text=True, check=False, env=environment, cwd=root)
                if ended.returncode:
                    raise CommandError(f"{name}: {ended.stderr.strip()[-600:]}")
                figures = json.loads(ended.stdout.splitlines()[-1])
                best = found.setdefault(name, figures)
                for key, value in figures.items():
                    best[key] = max(best[key], value) if key == "at_once_per_second" else min(best[key], value)
    return found


def _installed() -> Path:
    """An environment with all of them, made where it is missing."""
    folder = run_folders.cache() / "bench" / "clients"
    python, stamp = folder / "bin" / "python", folder / "pinned.txt"
    if python.is_file() and stamp.is_file() and stamp.read_bytes() == PINNED.read_bytes():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    uv = str(Path(sys.executable).parent / "uv")
    for call in (
        [uv, "venv", "--quiet", "--python", sys.executable, str(folder)],
        [uv, "pip", "install", "--quiet", "--python", str(python), "-r", str(PINNED)],
    ):
        ended = subprocess.run(call, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise CommandError(f"the clients cannot be had: {ended.stderr.strip()[-600:]}")
    shutil.copy(PINNED, stamp)
    return python
