"""Time the start of `agentenv`, compared with a bare Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.timing import best


def measure(repeat: int) -> dict[str, Any]:
    """Time `agentenv --help`, `agentenv check --help` and a check of a stack file, and `python -c pass`."""
    command = str(Path(sys.executable).parent / "agentenv")
    bare, overview, check_help, check = best(
        max(repeat, 5),
        lambda: _quietly([sys.executable, "-c", "pass"]),
        lambda: _quietly([command, "--help"]),
        lambda: _quietly([command, "check", "--help"]),
        lambda: _quietly([command, "check", "--stack", "local"]),
    )
    return {
        "python_s": round(bare, 3),
        "help_s": round(overview, 3),
        "check_help_s": round(check_help, 3),
        "check_s": round(check, 3),
        "ratio": round(overview / bare, 2),
    }


def _quietly(command: list[str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
