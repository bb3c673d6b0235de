"""Install a package of npm's registry once for all live tests, by its pinned version."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest

from agentenv.local import run_folders

SECONDS = 300.0


def installed(name: str, version: str) -> Path:
    """Return the folder of a package, with its dependencies beside it."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    modules = run_folders.cache() / "npm" / f"{name.rpartition('/')[2]}-{version}"
    package = modules / "node_modules" / name
    modules.mkdir(parents=True, exist_ok=True)
    with (modules / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not package.is_dir():
            command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(modules)]
            subprocess.run([*command, f"{name}@{version}"], check=True, timeout=SECONDS)
    return package
