"""The limits of a pod are read as Kubernetes reads them, and use is counted with all descendants."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from agentenv.rehearsal.controlplane.sandboxes.limits import EVICTED, OOM_KILLED, Limits, Monitor

Object = dict[str, Any]
SECONDS = 30.0
# A child of a child has 60 MB and shows that it does.
HOLDER = """
import subprocess, sys
program = "held = b'x' * 60_000_000; print('held', flush=True); input()"
subprocess.run([sys.executable, "-c", program])
"""


def pod(memory: str | None, **sizes: str) -> Object:
    resources = {"limits": {"memory": memory}} if memory else {}
    volumes = [{"name": name, "emptyDir": {"sizeLimit": size}} for name, size in sizes.items()]
    return {"spec": {"containers": [{"resources": resources}], "volumes": [*volumes, {"name": "x", "emptyDir": {}}]}}


def test_limits_are_those_of_the_container_and_of_volumes(tmp_path: Path) -> None:
    limits = Limits.of(pod("64Mi", tmp="1Mi"), lambda name: tmp_path / name)
    assert limits == Limits(64 * 2**20, {tmp_path / "tmp": ("tmp", "1Mi")})
    assert Limits.of(pod(None), lambda name: tmp_path / name) == Limits(None, {})


def test_an_empty_dir_over_its_size_is_named(tmp_path: Path) -> None:
    limits = Limits.of(pod(None, tmp="1Mi"), lambda name: tmp_path / name)
    (tmp_path / "tmp" / "deep").mkdir(parents=True)
    assert limits.full_volume() is None
    (tmp_path / "tmp" / "link").symlink_to("/")
    (tmp_path / "tmp" / "deep" / "file").write_bytes(b"x" * 1_200_000)
    assert limits.full_volume() == 'Usage of EmptyDir volume "tmp" exceeds the limit "1Mi". '


def exceeded(limits: Limits) -> str | None:
    """Return the reason that is reported for a process with a descendant that has 60 MB."""
    reasons: list[str] = []
    reported = threading.Event()

    def report(reason: str, _message: str) -> None:
        reasons.append(reason)
        reported.set()

    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with Monitor().watching(process.pid, limits, report):
            reported.wait(SECONDS if (limits.memory and limits.memory < 60_000_000) or limits.folders else 3)
        process.stdin.close()
    return reasons[0] if reasons else None


def test_memory_of_descendants_counts() -> None:
    assert exceeded(Limits(50_000_000)) == OOM_KILLED
    assert exceeded(Limits(200_000_000)) is None


def test_a_full_volume_evicts(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    assert exceeded(Limits(None, {tmp_path: ("tmp", "10Ki")})) == EVICTED
