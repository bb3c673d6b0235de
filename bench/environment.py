"""Python environments of benchmarks whose packages conflict with the project's, or are no part of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from agentenv.cli.main import CommandError
from agentenv.local import run_folders
from agentenv.rehearsal.tools.progress import terminal_progress


def install(pinned: Path) -> Path:
    """Return the folder of programs of an environment with the pinned packages; create it if it is missing."""
    folder = run_folders.cache() / "bench" / pinned.stem
    programs, stamp = folder / "bin", folder / "pinned.txt"
    if stamp.is_file() and stamp.read_bytes() == pinned.read_bytes():
        return programs
    terminal_progress().note(f"installing the packages of bench/{pinned.name} into an environment of its own")
    shutil.rmtree(folder, ignore_errors=True)
    uv = str(Path(sys.executable).parent / "uv")
    for call in (
        [uv, "venv", "--quiet", "--python", sys.executable, str(folder)],
        [uv, "pip", "install", "--quiet", "--python", str(programs / "python"), "-r", str(pinned)],
    ):
        ended = subprocess.run(call, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise CommandError(f"bench/{pinned.name} cannot be installed: {ended.stderr.strip()[-600:]}")
    shutil.copy(pinned, stamp)
    return programs
