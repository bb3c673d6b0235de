"""Measure the start and memory of the control plane, compared with its API server and etcd alone."""

from __future__ import annotations

import time
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.rehearsal.controlplane.plane import ControlPlane
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.stage import stage
from agentenv.rehearsal.tools.progress import terminal_progress

_REST_SECONDS = 5.0
_STORE = ("etcd", "kube-apiserver")


def measure(repeat: int) -> dict[str, Any]:
    """Return the fastest of several starts, and the memory of the last when it is idle."""
    ups: list[tuple[float, float]] = []
    used: dict[str, float] = {}
    for _ in range(repeat):
        with stage(terminal_progress(), cluster=ClusterOptions()) as opened:
            if opened.cluster is None:
                raise CommandError("there is no cluster on this stage")
            plane: ControlPlane = opened.cluster.plane
            ups.append((plane.seconds, plane.server_seconds))
            time.sleep(_REST_SECONDS)
            used = plane.memory()
    up, server = min(ups)
    alone = sum(used[name] for name in _STORE)
    return {
        "up_s": round(up, 2),
        "server_alone_s": round(server, 2),
        "up_ratio": round(up / server, 2),
        "memory_mb": round(sum(used.values())),
        "store_alone_mb": round(alone),
        "memory_ratio": round(sum(used.values()) / alone, 2),
        "by_process_mb": {name: round(megabytes) for name, megabytes in sorted(used.items())},
    }
