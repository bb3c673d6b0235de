"""The limits of a pod are read as Kubernetes reads them, and use is counted with all descendants."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentenv.local.sandboxes import limits as module
from agentenv.local.sandboxes.limits import (
    EVICTED,
    OOM_KILLED,
    Limits,
    Monitor,
    child_processes,
    memory_usage,
)

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


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a descendant that has 60 MB."""
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.stdin.close()


def test_memory_of_descendants_counts(holder: subprocess.Popen[bytes]) -> None:
    assert 60_000_000 < memory_usage(holder.pid, child_processes()) < 200_000_000
    assert memory_usage(holder.pid, {}) < 60_000_000


FILE_HOLDER = """
import mmap, os
memory = os.memfd_create("runsc-memory")
os.write(memory, b"x" * 60_000_000)
part = mmap.mmap(memory, 4096)
part[0] = 1
print("held", flush=True)
input()
"""


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="memory files are those of Linux")
def test_memory_that_is_not_mapped_at_the_time_counts() -> None:
    """As that of a sandbox under gVisor, whose programs are idle."""
    with subprocess.Popen(
        [sys.executable, "-c", FILE_HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert 60_000_000 < memory_usage(process.pid, {}) < 200_000_000
        process.stdin.close()


@pytest.mark.parametrize(("size", "reason"), [("10Ki", EVICTED), ("1Gi", OOM_KILLED)])
def test_a_limit_that_is_exceeded_is_reported(
    holder: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str, reason: str
) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.05)
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    limits = Limits(50_000_000 if reason == OOM_KILLED else 1 << 40, {tmp_path: ("tmp", size)})
    reasons: queue.Queue[str] = queue.Queue()
    with Monitor().watching(holder.pid, limits, lambda reported, _: reasons.put(reported)):
        assert reasons.get(timeout=SECONDS) == reason
