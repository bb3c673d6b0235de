"""Time a warm `make test`, compared with plain pytest without the checks and the table."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from bench.timing import best


def measure(repeat: int) -> dict[str, Any]:
    """Run each once: the gate takes long, and its ratio to plain pytest is what matters."""
    del repeat
    gate, plain = best(
        1,
        lambda: _run("tests.gate"),
        lambda: _run("pytest", "tests", "-q", "-n", "2"),
    )
    return {"gate_s": round(gate, 1), "pytest_s": round(plain, 1), "ratio": round(gate / plain, 2)}


def _run(module: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", module, *arguments], stdout=subprocess.DEVNULL, check=True)
