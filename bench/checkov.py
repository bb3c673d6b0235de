"""Run Checkov on manifests, in its own virtual environment, because its dependencies conflict with the project's.

The environment is created when the benchmark first runs, from the pinned list beside this file.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from agentenv.cli.main import CommandError
from bench.environment import install

PINNED = Path(__file__).with_name("checkov.txt")


def scan(manifests: Path) -> None:
    """Scan a folder, without network access."""
    command = install(PINNED) / "checkov"
    arguments = ["--directory", str(manifests), "--framework", "kubernetes", "--compact", "--quiet", "--soft-fail"]
    call = [str(command), *arguments, "--skip-download", "--output", "json"]
    ended = subprocess.run(call, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise CommandError(ended.stderr.strip()[-2000:])
