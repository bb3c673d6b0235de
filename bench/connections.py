"""Compare Kubernetes clients for the service: the time and CPU of creating and reading a claim, and the throughput.

All use the same API server, and run in one environment with all clients.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.stage import stage
from agentenv.rehearsal.tools.progress import terminal_progress
from bench.crowd import stop_controller
from bench.environment import install

PINNED = Path(__file__).with_name("connections.txt")
# As a module: a script would put its folder first on the path, where `service` is a benchmark.
SIDE = "bench.client_side"
NAMES = ("wire", "httpx", "lightkube", "agent-sandbox", "kr8s")
PER_REPEAT = 100


def measure(repeat: int) -> dict[str, Any]:
    """Measure each client in its own process, several times in turn, and return the best figures of each."""
    root = Path(__file__).resolve().parent.parent
    python = install(PINNED) / "python"
    found: dict[str, dict[str, float]] = {}
    with stage(terminal_progress(), cluster=ClusterOptions()) as opened:
        if opened.cluster is None:
            raise CommandError("there is no cluster on this stage")
        opened.project(root, "local").up()
        plane = opened.cluster.plane
        stop_controller(plane.client)
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
