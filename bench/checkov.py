"""Checkov over manifests, in an environment of its own: it wants other versions of what we are made of.

Made once, when the benchmark is first run, from the pinned list beside this file; no set-up of ours installs it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from agentenv.rehearsal.stage import run_folders

PINNED = Path(__file__).with_name("checkov.txt")


class NoCheckovError(Exception):
    """It cannot be had here, and why."""


def installed(say: Callable[[str], None]) -> Path:
    """The command, installed where it is missing."""
    folder = run_folders.cache() / "bench" / "checkov"
    command, stamp = folder / "bin" / "checkov", folder / "pinned.txt"
    if command.is_file() and stamp.is_file() and stamp.read_bytes() == PINNED.read_bytes():
        return command
    say("installing Checkov into an environment of its own")
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


def judge(command: Path, manifests: Path) -> None:
    """One run over a folder, as a person would run it; nothing is fetched and nothing is sent."""
    arguments = ["--directory", str(manifests), "--framework", "kubernetes", "--compact", "--quiet", "--soft-fail"]
    call = [str(command), *arguments, "--skip-download", "--output", "json"]
    ended = subprocess.run(call, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise NoCheckovError(ended.stderr.strip()[-2000:])
