"""Run Checkov on manifests, in its own virtual environment, because its dependencies conflict with the project's.

The environment is created when the benchmark first runs, from the pinned list beside this file.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from agentenv.local import run_folders

PINNED = Path(__file__).with_name("checkov.txt")


class NoCheckovError(Exception):
    """Checkov cannot be installed or run."""


def install(note: Callable[[str], None]) -> Path:
    """Return the command, and install it if it is missing."""
    folder = run_folders.cache() / "bench" / "checkov"
    command, stamp = folder / "bin" / "checkov", folder / "pinned.txt"
    if command.is_file() and stamp.is_file() and stamp.read_bytes() == PINNED.read_bytes():
        return command
    note("installing Checkov into an environment of its own")
    shutil.rmtree(folder, ignore_errors=True)
    uv = str(Path(sys.executable).parent / "uv")
    for call in (
        [uv, "venv", "--quiet", "--python", sys.executable, str(folder)],
        [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), "-r", str(PINNED)],
    ):
        ended = subprocess.run(call, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise NoCheckovError(ended.stderr.strip())
    shutil.copy(PINNED, stamp)
    return command


def scan(command: Path, manifests: Path) -> None:
    """Scan a folder, without network access."""
    arguments = ["--directory", str(manifests), "--framework", "kubernetes", "--compact", "--quiet", "--soft-fail"]
    call = [str(command), *arguments, "--skip-download", "--output", "json"]
    ended = subprocess.run(call, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise NoCheckovError(ended.stderr.strip()[-2000:])
