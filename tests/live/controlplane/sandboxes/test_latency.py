"""Folders with network latency: operations are delayed, cached ones are not, and a kill leaves no mount."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentenv.rehearsal.controlplane.client import until
from agentenv.rehearsal.controlplane.sandboxes.launcher import LATENCYFS
from agentenv.rehearsal.tools import ensure
from agentenv.rehearsal.tools.progress import Lines

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="latencyfs needs root and FUSE"
)
DELAY = 0.02
# Prints the seconds of ten new files, each opened, written and closed, and of 500 reads of attributes that are cached.
PROGRAM = """
import os, sys, time
folder = sys.argv[1]
began = time.monotonic()
for number in range(10):
    with open(f"{folder}/file{number}", "w") as file:
        file.write("text")
written = time.monotonic()
for _ in range(500):
    os.stat(f"{folder}/file0")
print(written - began, time.monotonic() - written)
"""


@pytest.fixture(scope="module")
def latencyfs() -> Path:
    return ensure([LATENCYFS], Lines(sys.stderr)).path(LATENCYFS)


def command(latencyfs: Path, folder: Path, *arguments: str) -> list[str]:
    for name in ("source", "target"):
        (folder / name).mkdir(exist_ok=True)
    return [str(latencyfs), f"--delay={DELAY * 1000}ms", f"{folder}/source={folder}/target", "--", *arguments]


def test_operations_have_latency_and_cached_ones_do_not(latencyfs: Path, tmp_path: Path) -> None:
    program = [sys.executable, "-c", PROGRAM, str(tmp_path / "target")]
    result = subprocess.run(command(latencyfs, tmp_path, *program), capture_output=True, text=True, check=True)
    uncached, cached = map(float, result.stdout.split())
    assert uncached > 10 * 3 * DELAY, "a lookup, a create and a close"
    assert cached < 500 * DELAY / 2, "most of them would take the delay"
    assert sorted(path.name for path in (tmp_path / "source").iterdir()) == [f"file{number}" for number in range(10)]
    assert not any((tmp_path / "target").iterdir()), "the mount is visible outside the command"


def test_files_belong_to_their_creator_and_the_exit_code_is_returned(latencyfs: Path, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    os.chown(tmp_path / "source", 61234, 61234)
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents[:3]:
        folder.chmod(folder.stat().st_mode | 0o055)
    script = f"import os; os.setgid(61234); os.setuid(61234); open('{tmp_path}/target/file', 'w'); os._exit(7)"
    result = subprocess.run(command(latencyfs, tmp_path, sys.executable, "-c", script), check=False)
    assert result.returncode == 7
    assert (tmp_path / "source" / "file").stat().st_uid == 61234


def test_kill_ends_the_command(latencyfs: Path, tmp_path: Path) -> None:
    script = f"import os, time; print(os.getpid(), flush=True); open('{tmp_path}/target/up', 'w'); time.sleep(600)"
    arguments = command(latencyfs, tmp_path, sys.executable, "-c", script)
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        inner = int(process.stdout.readline())
        assert until((tmp_path / "source" / "up").exists, 30)
        process.kill()
        process.wait()
    began = time.monotonic()
    while Path(f"/proc/{inner}/exe").exists() and time.monotonic() - began < 30:
        time.sleep(0.01)
    assert not Path(f"/proc/{inner}/exe").exists()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")
